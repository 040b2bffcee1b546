//! What the process needs, made once from the flags. All that is wrong with them is said at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use routed_sources::{FileConfig, GrpcConfig, Polling, ReportConfig, ResourcesConfig, Source};
use serde_json::json;

use crate::args::ServeArgs;
use crate::control_plane::ControlPlanes;

/// Most worker threads: above, the flag is a typing error.
const MAX_WORKERS: usize = 1024;
/// Bounds of `--poll-interval`.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(3600));

/// The configuration of `routed serve`.
#[derive(Debug, Clone)]
pub struct Config {
    /// What is followed; none: alive, never ready.
    pub source: Option<Source>,
    /// Who is told what is served.
    pub report: Option<ReportConfig>,
    /// Flags that lost to another source.
    pub unused: Vec<&'static str>,
    /// `namespace/name` of the profile.
    pub profile: String,
    /// Where the admin interface is served.
    pub admin: AdminAddress,
    /// `--snapshot-cache`.
    pub snapshot_cache: Option<PathBuf>,
    /// `--key-cache`.
    pub key_cache: Option<PathBuf>,
    /// Worker threads, at least 1.
    pub workers: usize,
    /// The flags that took effect, for `/config`.
    pub effective: serde_json::Value,
}

/// Where the admin interface is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket, mode 0600.
    Unix(PathBuf),
}

/// One flag that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {why}")]
pub struct FlagError {
    /// The flag.
    pub flag: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Config {
    /// Reads the flags.
    ///
    /// # Errors
    /// Every flag that can't be used.
    pub fn new(args: &ServeArgs) -> Result<Config, Vec<FlagError>> {
        let mut errors = Vec::new();
        let control_planes = ControlPlanes::new(args, &mut errors);
        if !is_object_name(&args.profile) {
            errors.push(FlagError::new("--profile", "expected namespace/name"));
        }
        if args.workers > MAX_WORKERS {
            errors.push(FlagError::new("--workers", "at most 1024"));
        }
        let admin = admin_address(&args.admin_addr)
            .map_err(|error| errors.push(error))
            .ok();
        let interval = poll_interval(&args.poll_interval)
            .map_err(|error| errors.push(error))
            .ok();
        let (Some(admin), Some(interval), true) = (admin, interval, errors.is_empty()) else {
            return Err(errors);
        };
        let workers = match args.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        let (source, unused) = source(args, control_planes.source, interval);
        Ok(Config {
            source,
            report: control_planes.report,
            unused,
            profile: args.profile.clone(),
            admin,
            snapshot_cache: args.snapshot_cache.clone(),
            key_cache: args.key_cache.clone(),
            workers,
            effective: effective(args, workers),
        })
    }
}

impl FlagError {
    /// A flag and what is wrong with it.
    pub(crate) fn new(flag: &'static str, why: &str) -> FlagError {
        let why = why.to_owned();
        FlagError { flag, why }
    }
}

/// The first source set wins.
fn source(
    args: &ServeArgs,
    grpc: Option<GrpcConfig>,
    interval: Duration,
) -> (Option<Source>, Vec<&'static str>) {
    let polling = Polling {
        interval,
        ..Polling::default()
    };
    let tls_keys = args.tls_keys.clone();
    let file = args.snapshot_path.as_ref().map(|path| FileConfig {
        tls_keys,
        polling: polling.clone(),
        allow_empty: args.allow_empty,
        ..FileConfig::new(path)
    });
    let resources = args.resources.as_ref().map(|path| ResourcesConfig {
        polling,
        profile: Some(args.profile.clone()),
        allow_empty: args.allow_empty,
        ..ResourcesConfig::new(path)
    });
    let sources = [
        (
            "--snapshot-addr",
            grpc.map(|config| Source::Grpc(Box::new(config))),
        ),
        ("--snapshot-path", file.map(Source::File)),
        ("--resources", resources.map(Source::Resources)),
    ];
    let mut set = sources
        .into_iter()
        .filter_map(|(flag, source)| Some((flag, source?)));
    let source = set.next().map(|(_, source)| source);
    let mut unused: Vec<&'static str> = set.map(|(flag, _)| flag).collect();
    if args.tls_keys.is_some() && !matches!(source, Some(Source::File(_))) {
        unused.push("--tls-keys");
    }
    (source, unused)
}

fn effective(args: &ServeArgs, workers: usize) -> serde_json::Value {
    json!({
        "snapshotAddr": args.snapshot_addr,
        "snapshotCa": args.snapshot_ca,
        "snapshotCert": args.snapshot_cert,
        "snapshotKey": args.snapshot_key,
        "snapshotServerName": args.snapshot_server_name,
        "reportAddr": args.report_addr,
        "clientName": args.client_name,
        "snapshotPath": args.snapshot_path,
        "resources": args.resources,
        "profile": args.profile,
        "adminAddr": args.admin_addr,
        "snapshotCache": args.snapshot_cache,
        "keyCache": args.key_cache,
        "tlsKeys": args.tls_keys,
        "allowEmpty": args.allow_empty,
        "pollInterval": args.poll_interval,
        "workers": workers,
        "logFormat": format!("{:?}", args.log_format).to_lowercase(),
        "logLevel": format!("{:?}", args.log_level).to_lowercase(),
    })
}

fn is_object_name(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 253
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
    };
    text.split_once('/')
        .is_some_and(|(namespace, name)| part(namespace) && part(name))
}

fn admin_address(text: &str) -> Result<AdminAddress, FlagError> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(FlagError::new("--admin-addr", "unix: needs a path"));
        }
        return Ok(AdminAddress::Unix(path.into()));
    }
    text.parse()
        .map(AdminAddress::Tcp)
        .map_err(|_| FlagError::new("--admin-addr", "expected an IP address and port, or unix:/path"))
}

fn poll_interval(text: &str) -> Result<Duration, FlagError> {
    let interval = duration(text).ok_or_else(|| {
        FlagError::new(
            "--poll-interval",
            "expected a duration, for instance 1s, 500ms or 1m30s",
        )
    })?;
    if interval < POLL_BOUNDS.0 || interval > POLL_BOUNDS.1 {
        return Err(FlagError::new("--poll-interval", "from 10ms to 1h"));
    }
    Ok(interval)
}

/// A Gateway API duration: one to four of `h`, `m`, `s`, `ms`, each after up to five digits.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    let mut terms = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let unit = match unit {
            "h" => Duration::from_secs(3600),
            "m" => Duration::from_secs(60),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return None,
        };
        if digits > 5 || terms == 4 {
            return None;
        }
        total += unit * number.parse().ok()?;
        terms += 1;
        rest = tail;
    }
    (terms > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn config(flags: &[&str]) -> Result<Config, Vec<FlagError>> {
        let Command::Serve(args) = Args::try_parse_from(["routed", "serve"].iter().chain(flags))
            .unwrap()
            .command
        else {
            panic!("not serve");
        };
        Config::new(&args)
    }

    #[test]
    fn all_errors_are_said_at_once() {
        let errors = config(&[
            "--profile=x",
            "--admin-addr=nowhere",
            "--poll-interval=soon",
            "--snapshot-addr=ftp://a",
            "--report-addr=nowhere",
            "--snapshot-cert=/tls.crt",
            "--client-name=",
            "--workers=5000",
        ]);
        assert_eq!(errors.unwrap_err().len(), 8);
    }

    #[test]
    fn files_of_tls_need_an_address_that_uses_them() {
        let files = ["--snapshot-ca=/ca", "--snapshot-cert=/crt", "--snapshot-key=/key"];
        let with = |more: &[&str]| config(&[&files, more].concat());
        let flags: Vec<&str> = with(&["--snapshot-addr=http://a"])
            .unwrap_err()
            .iter()
            .map(|e| e.flag)
            .collect();
        assert_eq!(flags, ["--snapshot-ca", "--snapshot-cert"]);
        assert!(with(&["--snapshot-addr=unix:/a"]).is_err());
        assert!(with(&["--snapshot-addr=https://a"]).is_ok());
        assert!(with(&["--snapshot-path=/s", "--report-addr=https://a"]).is_ok());
        assert!(
            with(&["--snapshot-path=/s"]).is_ok(),
            "variables that a unit sets for all"
        );
    }

    #[test]
    fn whoever_is_followed_is_told_unless_another_is_named() {
        let told = |flags: &[&str]| Some(config(flags).unwrap().report?.control_plane.address.to_string());
        assert_eq!(
            told(&["--snapshot-addr=http://a"]).as_deref(),
            Some("http://a:80")
        );
        let both = ["--snapshot-addr=http://a", "--report-addr=unix:/b"];
        assert_eq!(told(&both).as_deref(), Some("unix:/b"));
        assert_eq!(
            told(&["--resources=/r", "--report-addr=unix:/b"]).as_deref(),
            Some("unix:/b")
        );
        assert_eq!(told(&["--resources=/r"]), None);
        let named = config(&["--snapshot-addr=http://a", "--client-name=edge-7"]).unwrap();
        assert_eq!(named.report.unwrap().client, "edge-7");
    }

    #[test]
    fn the_first_source_wins_and_the_others_are_named() {
        let config = config(&["--resources=/r", "--snapshot-path=/s"]).unwrap();
        assert!(matches!(config.source, Some(Source::File(_))));
        assert_eq!(config.unused, ["--resources"]);
        let all = [
            "--resources=/r",
            "--snapshot-path=/s",
            "--tls-keys=/k",
            "--snapshot-addr=http://a",
        ];
        let config = self::config(&all).unwrap();
        assert!(matches!(config.source, Some(Source::Grpc(_))));
        assert_eq!(config.unused, ["--snapshot-path", "--resources", "--tls-keys"]);
    }

    #[test]
    fn durations() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        for wrong in ["", "1", "s", "1d", "123456s", "-1s", "1.5s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
