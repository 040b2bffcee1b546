//! Metrics of the process side in Prometheus' text format.
//!
//! Labels are names from the profile or words of ours, never anything a client sends.

use std::fmt::Write as _;

use routed_snapshot::Hash;
use routed_sources::{RefusalReason, SourceStatus};

use super::Admin;

/// Everything.
pub(super) fn metrics(admin: &Admin) -> String {
    let mut out = admin.shared.stats.render();
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    source(admin, &mut out);
    compile(admin, &mut out);
    listeners(admin, &mut out);
    let stats = &admin.stats;
    one(
        &mut out,
        "routed_accept_errors_total",
        "counter",
        "Failed accepts.",
        stats.accept_errors.get(),
    );
    let help = "TLS handshakes that failed.";
    one(
        &mut out,
        "routed_tls_handshakes_failed_total",
        "counter",
        help,
        stats.handshakes_failed.get(),
    );
    let help = "Failed attempts to bind a listener.";
    one(
        &mut out,
        "routed_bind_errors_total",
        "counter",
        help,
        stats.bind_errors.get(),
    );
    let help = "Sockets accepted and not closed yet, handshakes included.";
    one(
        &mut out,
        "routed_client_sockets_open",
        "gauge",
        help,
        admin.open.count() as u64,
    );
    process(&mut out);
    out
}

fn source(admin: &Admin, out: &mut String) {
    let status = admin.shared.live.status().view();
    if let Some(index) = admin.shared.live.load_full() {
        // As a number: a label would begin a new series with each change of an endpoint.
        for (name, hash, help) in [
            (
                "routed_snapshot_hash",
                index.hash(),
                "First 48 bits of the hash of the table in service.",
            ),
            (
                "routed_snapshot_config_hash",
                index.config_hash(),
                "The same of its hash without endpoints.",
            ),
        ] {
            one(out, name, "gauge", help, first_bits(hash));
        }
        one(
            out,
            "routed_routes",
            "gauge",
            "Routes of the table in service.",
            index.route_count() as u64,
        );
    }
    if let Some(age) = age(status.applied_at) {
        one(
            out,
            "routed_snapshot_age_seconds",
            "gauge",
            "Since the table was put in service.",
            age,
        );
    }
    if let Some(age) = age(status.last_success) {
        let help = "Since the source was last found good.";
        one(out, "routed_source_last_success_age_seconds", "gauge", help, age);
    }
    let help = "1 while the source can't be read or is refused.";
    one(
        out,
        "routed_source_degraded",
        "gauge",
        help,
        u64::from(status.degraded),
    );
    let name = "routed_source_refusals_total";
    head(out, name, "counter", "Contents refused, by reason.");
    for reason in RefusalReason::ALL {
        let count = status.refusals_by_reason.get(&reason).copied().unwrap_or(0);
        let _ = writeln!(out, "{name}{{reason=\"{}\"}} {count}", reason.as_str());
    }
    one(
        out,
        "routed_snapshot_swaps_total",
        "counter",
        "Tables put in service.",
        status.swaps,
    );
    streams(&status, out);
}

/// The streams to a control plane, where there is one.
fn streams(status: &SourceStatus, out: &mut String) {
    if let Some(age) = age(status.last_contact) {
        let help = "Since the source was last looked at or heard of.";
        one(out, "routed_source_last_contact_age_seconds", "gauge", help, age);
    }
    if let Some(connected) = status.connected {
        let help = "1 while the stream from the control plane is up.";
        one(
            out,
            "routed_source_connected",
            "gauge",
            help,
            u64::from(connected),
        );
    }
    if let Some(report) = &status.report {
        let help = "1 while the stream of acknowledgements is up.";
        one(
            out,
            "routed_report_connected",
            "gauge",
            help,
            u64::from(report.connected),
        );
    }
}

/// Whole seconds since then.
fn age(since: Option<jiff::Timestamp>) -> Option<u64> {
    let age = jiff::Timestamp::now().duration_since(since?).as_secs();
    Some(age.max(0).unsigned_abs())
}

/// What the compiler said, where the source compiles; the same counts as `/snapshot`.
fn compile(admin: &Admin, out: &mut String) {
    let status = admin.shared.live.status().view();
    let Some(compile) = status.compile else { return };
    let gauges = [
        (
            "routed_compile_errors",
            "Errors of the last compile.",
            compile.errors,
        ),
        (
            "routed_compile_warnings",
            "Warnings of the last compile.",
            compile.warnings,
        ),
    ];
    for (name, help, count) in gauges {
        head(out, name, "gauge", help);
        let _ = writeln!(out, "{name}{{source=\"resources\"}} {count}");
    }
}

fn listeners(admin: &Admin, out: &mut String) {
    let view = admin.view().clone();
    head(
        out,
        "routed_listener_bound",
        "gauge",
        "1 where the listener accepts connections.",
    );
    for listener in &view.listeners {
        let bound = u8::from(listener.bound.is_some());
        let _ = writeln!(
            out,
            "routed_listener_bound{{listener=\"{}\"}} {bound}",
            escape(&listener.name)
        );
    }
    head(
        out,
        "routed_certificate_not_after_seconds",
        "gauge",
        "When the certificate in service expires.",
    );
    for certificate in &view.certificates {
        if let Some(end) = certificate.not_after {
            let name = escape(&certificate.name);
            let _ = writeln!(
                out,
                "routed_certificate_not_after_seconds{{certificate=\"{name}\"}} {end}"
            );
        }
    }
    head(
        out,
        "routed_certificate_problem",
        "gauge",
        "1 where a certificate is missing or could not be renewed.",
    );
    for certificate in &view.certificates {
        let problem = u8::from(certificate.problem.is_some());
        let name = escape(&certificate.name);
        let _ = writeln!(
            out,
            "routed_certificate_problem{{certificate=\"{name}\"}} {problem}"
        );
    }
}

/// As much of a hash as a number of Prometheus holds exactly, in whole bytes.
fn first_bits(hash: Hash) -> u64 {
    hash.0
        .iter()
        .take(6)
        .fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// From `/proc`; what can't be read there is left out.
fn process(out: &mut String) {
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        one(
            out,
            "process_open_fds",
            "gauge",
            "Open file descriptors.",
            open.count() as u64,
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    if let Some(kib) =
        resident.and_then(|value| value.trim().trim_end_matches("kB").trim().parse::<u64>().ok())
    {
        one(
            out,
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory.",
            kib * 1024,
        );
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn one(out: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
