//! Sources that follow a test's control plane.

use routed_sources::channel::ControlPlane;
use routed_sources::{GrpcConfig, ReportConfig, Source};

/// The configuration of a router with the usual settings.
pub fn config(address: &str) -> GrpcConfig {
    let control_plane = ControlPlane::new(address.parse().unwrap());
    GrpcConfig::new(control_plane, "edge-1", "default/default")
}

/// A source with the usual settings.
pub fn grpc(address: &str) -> Source {
    Source::Grpc(Box::new(config(address)))
}

/// Acknowledgements to this address.
pub fn reporting(address: &str) -> ReportConfig {
    let GrpcConfig {
        control_plane,
        client,
        profile,
        ..
    } = config(address);
    ReportConfig {
        control_plane,
        client,
        profile,
    }
}

/// True where the long form of the tests was asked for.
pub fn full() -> bool {
    std::env::var_os("ROUTED_FULL").is_some_and(|value| value == "1")
}

/// Says loudly that a test can't run here, and counts it in the file `$ROUTED_SKIPS`.
pub fn skipped(what: &str) {
    eprintln!("SKIPPED: {what}");
    if let Some(file) = std::env::var_os("ROUTED_SKIPS") {
        use std::io::Write;
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        if let Ok(mut file) = opened {
            let _ = writeln!(file, "{what}");
        }
    }
}
