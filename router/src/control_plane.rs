//! The flags of the control plane: where it is, how it is spoken to, and what this router is called there.

use std::path::PathBuf;

use routed_sources::channel::{Address, ControlPlane, TlsFiles};
use routed_sources::{GrpcConfig, ReportConfig};

use crate::args::ServeArgs;
use crate::config::FlagError;

/// Longest name of a router.
const MAX_NAME: usize = 253;

/// Whom to follow and whom to tell.
#[derive(Debug, Clone, Default)]
pub(crate) struct ControlPlanes {
    /// `--snapshot-addr`.
    pub(crate) source: Option<GrpcConfig>,
    /// `--report-addr`, or the same where it is followed.
    pub(crate) report: Option<ReportConfig>,
}

impl ControlPlanes {
    /// Reads the flags; adds what is wrong with them.
    pub(crate) fn new(args: &ServeArgs, errors: &mut Vec<FlagError>) -> ControlPlanes {
        let mut address = |flag, text: &Option<String>| {
            let parsed = text.as_ref()?.parse::<Address>();
            parsed
                .map_err(|error| errors.push(FlagError::new(flag, &error.to_string())))
                .ok()
        };
        let snapshot = address("--snapshot-addr", &args.snapshot_addr);
        let report = address("--report-addr", &args.report_addr).or_else(|| snapshot.clone());
        let tls = tls(args, [&snapshot, &report], errors);
        let client = client_name(args, errors);
        let control_plane = |address| ControlPlane {
            tls: tls.clone(),
            ..ControlPlane::new(address)
        };
        ControlPlanes {
            source: snapshot.map(|address| GrpcConfig {
                allow_empty: args.allow_empty,
                ..GrpcConfig::new(control_plane(address), &client, &args.profile)
            }),
            report: report.map(|address| ReportConfig {
                control_plane: control_plane(address),
                client: client.clone(),
                profile: args.profile.clone(),
            }),
        }
    }
}

fn tls(args: &ServeArgs, addresses: [&Option<Address>; 2], errors: &mut Vec<FlagError>) -> TlsFiles {
    let identity: Option<(PathBuf, PathBuf)> = match (&args.snapshot_cert, &args.snapshot_key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        (Some(_), None) => {
            errors.push(FlagError::new("--snapshot-key", "--snapshot-cert needs it"));
            None
        }
        (None, Some(_)) => {
            errors.push(FlagError::new("--snapshot-cert", "--snapshot-key needs it"));
            None
        }
    };
    let mut given = addresses.into_iter().flatten().peekable();
    let is_tls = |address: &Address| matches!(address, Address::Tcp { tls: true, .. });
    // Who sets these files believes that the channel is protected by them.
    if given.peek().is_some() && !given.any(is_tls) {
        for (flag, is_set) in [
            ("--snapshot-ca", args.snapshot_ca.is_some()),
            ("--snapshot-cert", identity.is_some()),
            ("--snapshot-server-name", args.snapshot_server_name.is_some()),
        ] {
            if is_set {
                errors.push(FlagError::new(
                    flag,
                    "it needs an address that begins with https://",
                ));
            }
        }
    }
    TlsFiles {
        ca: args.snapshot_ca.clone(),
        identity,
        server_name: args.snapshot_server_name.clone(),
    }
}

/// The name given, else the host's, which in Kubernetes is the pod's.
fn client_name(args: &ServeArgs, errors: &mut Vec<FlagError>) -> String {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = args
        .client_name
        .clone()
        .unwrap_or_else(|| host().trim().to_owned());
    let is_printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    if args.client_name.is_some() && (name.is_empty() || name.len() > MAX_NAME || !is_printable) {
        let why = "expected 1 to 253 characters without blanks";
        errors.push(FlagError::new("--client-name", why));
    }
    name
}
