//! How a snapshot reaches a process.
//!
//! In reading order:
//! - [`live`]: the one published value: [`Publisher`] (one owner) and [`Live`] (readers).
//! - [`admit`]: whether a snapshot may replace the one held; one rule for every source.
//! - [`feed`]: one source's way into the publisher; [`blame`] finds the objects at fault in what was refused.
//! - [`assemble`]: snapshots from the chunks of a gRPC stream, verified.
//! - [`channel`]: connections to a control plane; [`backoff`]: the pauses between them.
//! - [`source`]: the sources, one file or folder per variant of [`Source`], and the loop that those of files share.
//! - [`status`]: what is known about the source, for people and metrics; [`mod@report`] tells it to a control plane.
//! - [`keys`]: private keys, which travel beside the snapshot and never in it; [`key_cache`] keeps them on disk.
//!
//! A router starts with `Publisher::new`, attaches its caches, and runs one source:
//!
//! ```no_run
//! # use routed_sources::{FileConfig, Keys, Publisher, Source};
//! # async fn example() {
//! let (publisher, live) = Publisher::new();
//! publisher.attach_snapshot_cache("/var/lib/routed/snapshot.json".into());
//! let keys = Keys::default();
//! let source = Source::File(FileConfig::new("/etc/routed/snapshot.json"));
//! source.run(&publisher, keys, std::future::pending()).await;
//! # drop(live);
//! # }
//! ```
#![deny(unsafe_code)]

pub mod admit;
pub mod assemble;
pub mod backoff;
pub mod blame;
mod cache;
pub mod channel;
mod disk;
pub mod feed;
#[doc(hidden)]
pub mod fuzz;
mod graveyard;
pub mod key_cache;
pub mod keys;
pub mod live;
mod pem;
pub mod report;
pub mod source;
pub mod status;
mod tls_keys;
mod wire;

pub use admit::{Refusal, RefusalReason};
pub use feed::Feed;
pub use keys::{KeyPair, KeyTable, Keys};
pub use live::{Live, Offered, Publisher};
pub use report::{ReportConfig, report};
pub use source::{FileConfig, GrpcConfig, Polling, ResourcesConfig, Source};
pub use status::{SourceStatus, Status};
