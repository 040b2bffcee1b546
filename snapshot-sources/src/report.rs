//! Acknowledgements: what this router serves and what it refused, told to a control plane over a stream of its own.
//!
//! It works with any source, since it tells the status and not what a stream brought. State, not events: the present
//! state goes out first and after each change; what changed while the stream was down or slow is one state like any
//! other.

use std::convert::Infallible;
use std::future::Future;
use std::time::Instant;

use futures_util::Stream;
use futures_util::stream::unfold;
use routed_proto as proto;
use routed_proto::report_service_client::ReportServiceClient;
use tokio::sync::watch;
use tonic::Code;

use crate::backoff::Backoff;
use crate::channel::{ControlPlane, explain};
use crate::status::{Refused, SourceStatus, Status};
use crate::wire;

/// `--report-addr`.
#[derive(Debug, Clone)]
pub struct ReportConfig {
    /// Where the acknowledgements go.
    pub control_plane: ControlPlane,
    /// What the router is called there.
    pub client: String,
    /// The RouterProfile that it runs, as `namespace/name`.
    pub profile: String,
}

/// Acknowledges until `shutdown`. What goes wrong is in the status and costs nothing else.
pub async fn report(config: ReportConfig, status: Status, shutdown: impl Future<Output = ()>) {
    tokio::select! {
        never = keep_reporting(&config, &status) => match never {},
        () = shutdown => {}
    }
}

async fn keep_reporting(config: &ReportConfig, status: &Status) -> Infallible {
    let mut backoff = Backoff::default();
    let place = config.control_plane.address.to_string();
    status.report(|report| report.place.clone_from(&place));
    loop {
        let mut up = None;
        let end = stream(config, status, &mut up).await;
        status.report(|report| {
            if report.last_error.as_ref() != Some(&end.why) {
                tracing::info!(place, error = end.why, "acknowledgements don't arrive");
            }
            report.connected = false;
            report.last_error = Some(end.why);
        });
        backoff.ended(up.map_or_else(Default::default, |up: Instant| up.elapsed()));
        if end.is_hopeless {
            backoff.is_hopeless();
        }
        tokio::time::sleep(backoff.next(rand::random())).await;
    }
}

/// Why a stream ended.
struct End {
    why: String,
    /// The other side has no such service.
    is_hopeless: bool,
}

impl From<tonic::Status> for End {
    fn from(call: tonic::Status) -> End {
        End {
            why: explain(&call),
            is_hopeless: call.code() == Code::Unimplemented,
        }
    }
}

async fn stream(config: &ReportConfig, status: &Status, up: &mut Option<Instant>) -> End {
    let connection = match config.control_plane.connect().await {
        Ok(connection) => connection,
        Err(error) => {
            let why = error.to_string();
            return End {
                why,
                is_hopeless: false,
            };
        }
    };
    let mut client = ReportServiceClient::new(connection.channel);
    let states = acknowledgements(config.clone(), status.clone());
    let mut replies = match client.report(states).await {
        Ok(response) => response.into_inner(),
        Err(call) => return call.into(),
    };
    *up = Some(Instant::now());
    tracing::info!(place = %config.control_plane.address, "acknowledging");
    status.report(|report| report.connected = true);
    loop {
        match replies.message().await {
            Ok(Some(reply)) => status.report(|report| {
                report.answered = report.answered.max(reply.sequence);
                report.last_error = None;
            }),
            Ok(None) => {
                let why = "the stream was ended there".to_owned();
                return End {
                    why,
                    is_hopeless: false,
                };
            }
            Err(call) => return call.into(),
        }
    }
}

/// What is told next.
struct Telling {
    config: ReportConfig,
    status: Status,
    changes: watch::Receiver<u64>,
    last: proto::Acknowledgement,
}

/// The present state, and each one that differs from the one before.
fn acknowledgements(config: ReportConfig, status: Status) -> impl Stream<Item = proto::Acknowledgement> {
    let mut changes = status.changes();
    changes.mark_changed();
    status.report(|report| (report.sent, report.answered) = (0, 0));
    let telling = Telling {
        config,
        status,
        changes,
        last: proto::Acknowledgement::default(),
    };
    unfold(telling, |mut telling| async move {
        loop {
            telling.changes.changed().await.ok()?;
            let mut next = acknowledgement(&telling.config, telling.status.view());
            next.sequence = telling.last.sequence;
            if next != telling.last {
                next.sequence += 1;
                telling.last = next.clone();
                telling.status.report(|report| report.sent = next.sequence);
                return Some((next, telling));
            }
        }
    })
}

fn acknowledgement(config: &ReportConfig, status: SourceStatus) -> proto::Acknowledgement {
    let hash = |hash: Option<routed_snapshot::Hash>| hash.map(wire::hash_bytes).unwrap_or_default();
    proto::Acknowledgement {
        sequence: 0,
        stream_id: status.stream_id.unwrap_or_default(),
        client: config.client.clone(),
        profile: config.profile.clone(),
        source: status.source,
        hash: hash(status.hash),
        config_hash: hash(status.config_hash),
        position: status.position.as_ref().map(wire::position_message),
        refused: status.refused.map(refused),
    }
}

fn refused(refused: Refused) -> proto::Refused {
    let objects = refused.objects.into_iter().map(|object| proto::ObjectRef {
        kind: object.kind,
        namespace: object.namespace,
        name: object.name,
    });
    proto::Refused {
        hash: refused.hash.map(wire::hash_bytes).unwrap_or_default(),
        config_hash: refused.config_hash.map(wire::hash_bytes).unwrap_or_default(),
        position: refused.position.as_ref().map(wire::position_message),
        reason: refused.reason,
        objects: objects.collect(),
    }
}
