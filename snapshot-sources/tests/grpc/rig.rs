//! Sources that follow a test's control plane.

use routed_sources::channel::ControlPlane;
use routed_sources::{GrpcConfig, ReportConfig, Source};

#[path = "../common/skips.rs"]
mod skips;

pub use skips::skipped;

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
