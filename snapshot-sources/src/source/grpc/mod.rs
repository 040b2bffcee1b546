//! A control plane that is followed by gRPC.
//!
//! A connection is made, one `Watch` stream runs on it, and when either ends the next is made after a pause with
//! jitter. The parts of the last delivery are held across streams, so a new one brings only what changed.
//!
//! # Decisions
//! - **Reading and building go on side by side.** While an index is built, deliveries are put together; when it is
//!   done, only the newest is offered.
//! - **A refused snapshot does not end its stream; a broken delivery does.** The first is a matter of content, and the
//!   next delivery may mend it. After the second nobody knows what the server believes to be held.
//! - **A server that has only older snapshots** is left after a while, in the hope of another replica.
//! - **Keys** are taken only from a channel both of whose ends are known ([`crate::channel`]).

mod apply;
mod keys;
mod stream;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use routed_proto::{Encoding, KeyRef, WatchRequest};

use crate::admit::{Refusal, RefusalReason};
use crate::assemble::{AssembleError, Assembler, MAX_SNAPSHOT_BYTES};
use crate::backoff::Backoff;
use crate::channel::{ConnectError, ControlPlane, explain};
use crate::feed::Feed;
use crate::keys::Keys;
use crate::wire;
use apply::Applier;
use keys::IncomingKeys;

/// `--snapshot-addr`.
#[derive(Debug, Clone)]
pub struct GrpcConfig {
    /// Where the control plane is.
    pub control_plane: ControlPlane,
    /// What the router is called there.
    pub client: String,
    /// The RouterProfile that it runs, as `namespace/name`.
    pub profile: String,
    /// Largest snapshot that is taken.
    pub limit_bytes: usize,
    /// Whether a table without routes and without a newer position is taken.
    pub allow_empty: bool,
}

impl GrpcConfig {
    /// The defaults for a control plane.
    pub fn new(
        control_plane: ControlPlane,
        client: impl Into<String>,
        profile: impl Into<String>,
    ) -> GrpcConfig {
        GrpcConfig {
            control_plane,
            client: client.into(),
            profile: profile.into(),
            limit_bytes: MAX_SNAPSHOT_BYTES,
            allow_empty: false,
        }
    }
}

/// The source's state between streams.
#[derive(Debug)]
struct Follower {
    config: GrpcConfig,
    feed: Feed,
    keys: Keys,
    assembler: Assembler,
    incoming_keys: IncomingKeys,
    applier: Applier,
    /// When the stream that runs was answered.
    up: Option<Instant>,
    /// Since when nothing but older snapshots came.
    behind: Option<Instant>,
    /// What was refused last, so that it is counted once however often it comes.
    counted: Option<String>,
    resets: u64,
}

/// Why a stream ended.
#[derive(Debug)]
enum End {
    /// There was no connection.
    Connect(ConnectError),
    /// The call failed or the connection broke.
    Call(tonic::Status),
    /// Pings were not answered, for so long.
    Silent(Duration),
    /// The server ended the stream.
    Closed,
    /// A delivery was not as it must be.
    Refused(AssembleError),
    /// A delivery stood still.
    Stalled,
    /// Only older snapshots came.
    Behind,
    /// The position was reset, and what was refused may be taken now.
    Reset,
}

/// Follows the control plane for good.
pub(super) async fn follow(config: GrpcConfig, feed: Feed, keys: Keys) -> Infallible {
    let mut backoff = Backoff::default();
    let mut follower = Follower {
        applier: Applier::new(feed.clone(), keys.clone(), config.allow_empty),
        resets: feed.status().resets(),
        assembler: Assembler::with_limit(config.limit_bytes),
        config,
        feed,
        keys,
        incoming_keys: IncomingKeys::default(),
        up: None,
        behind: None,
        counted: None,
    };
    follower.feed.status().connect(false);
    loop {
        let end = follower.stream().await;
        let lived = follower.up.take().map(|up| up.elapsed());
        follower.feed.status().connect(false);
        while let Some(outcome) = follower.applier.outcome().await {
            follower.judge(outcome);
        }
        follower.note(&end);
        if matches!(end, End::Reset) {
            continue;
        }
        backoff.ended(lived.unwrap_or_default());
        let pause = backoff.next(rand::random());
        tracing::debug!(pause_ms = pause.as_millis(), "the next try");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = follower.feed.status().reset_asked() => {}
        }
    }
}

impl Follower {
    /// What this router says of itself and of what it holds.
    fn request(&self, takes_keys: bool) -> WatchRequest {
        let (hash, parts) = self.assembler.held();
        let held = self.keys.load();
        let keys = held.iter().filter_map(|(name, pair)| {
            Some(KeyRef {
                name: name.clone(),
                fingerprint: wire::hash_bytes(pair.fingerprint.parse().ok()?),
            })
        });
        WatchRequest {
            client: self.config.client.clone(),
            profile: self.config.profile.clone(),
            accepts_parts: true,
            encodings: vec![Encoding::Zstd.into()],
            hash: hash.map(wire::hash_bytes).unwrap_or_default(),
            parts,
            position: self.feed.position().as_ref().map(wire::position_message),
            accepts_keys: takes_keys,
            keys: if takes_keys { keys.collect() } else { Vec::new() },
        }
    }

    /// Says in the status why the stream ended.
    fn note(&mut self, end: &End) {
        let status = self.feed.status();
        match end {
            End::Connect(error) => status.fail_reaching(&format!("{}: {error}", self.place())),
            End::Call(call) => status.fail_reaching(&format!("{}: {}", self.place(), explain(call))),
            End::Silent(time) => {
                let seconds = time.as_secs();
                status.fail_reaching(&format!(
                    "{}: silent for {seconds} s, pings included",
                    self.place()
                ));
            }
            End::Closed => status.fail_reaching(&format!("{}: the stream was ended there", self.place())),
            End::Stalled => {
                let message = format!("{}: a delivery came to a standstill", self.place());
                status.fail_reaching(&message);
            }
            End::Refused(error) => self.refuse(&Refusal::Delivery(error.clone())),
            End::Behind => status.fail_reaching(&format!("{}: it has only older snapshots", self.place())),
            End::Reset => {}
        }
    }

    /// A snapshot that was not even put together.
    fn refuse(&mut self, refusal: &Refusal) {
        self.feed.refuse(refusal);
        let problem = format!("{}: {refusal}", self.place());
        self.count(refusal.to_string(), refusal.reason(), &problem);
        self.feed.status().fail(&problem);
    }

    /// What came of an offer.
    fn judge(&mut self, outcome: apply::Outcome) {
        match outcome.verdict {
            Ok(offered) => {
                tracing::info!(place = %self.place(), hash = %outcome.name, ?offered, "snapshot taken");
                self.counted = None;
                self.behind = None;
                self.feed.status().succeed();
            }
            Err(Refusal::Stopped) => {}
            Err(refusal) => {
                match refusal {
                    Refusal::Older => drop(self.behind.get_or_insert_with(Instant::now)),
                    _ => self.behind = None,
                }
                let problem = format!("{}: {refusal}", self.place());
                self.count(outcome.name, refusal.reason(), &problem);
                self.feed.status().fail(&problem);
            }
        }
    }

    /// Counts a refusal where it is another content than the last one refused.
    fn count(&mut self, content: String, reason: RefusalReason, problem: &str) {
        if self.counted.as_ref() != Some(&content) {
            self.feed.status().count_refusal(reason, problem);
            self.counted = Some(content);
        }
    }

    fn place(&self) -> &crate::channel::Address {
        &self.config.control_plane.address
    }
}
