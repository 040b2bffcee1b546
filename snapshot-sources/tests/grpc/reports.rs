//! Acknowledgements.

use std::collections::BTreeMap;

use routed_proto::Acknowledgement;
use routed_snapshot::Snapshot;
use routed_sources::{FileConfig, Live, ReportConfig, Source, report};
use tokio::sync::oneshot;

use crate::common::{Running, polling, position, put, snapshot, until};
use crate::rig::{grpc, reporting};
use crate::server::{At, Server};

fn at(body: &str, version: u64) -> Snapshot {
    snapshot(body, Some(position("c", version)))
}

/// Acknowledges until it is dropped.
struct Reporting {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Reporting {
    fn of(live: &Live, config: ReportConfig) -> Reporting {
        let (stop, stopped) = oneshot::channel::<()>();
        let status = live.status().clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(report(config, status, async {
                let _ = stopped.await;
            }));
        });
        Reporting {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn last(server: &Server) -> Acknowledgement {
    server.acknowledgements().last().cloned().unwrap_or_default()
}

fn serves(acknowledgement: &Acknowledgement, snapshot: &Snapshot) -> bool {
    acknowledgement.hash[..] == snapshot.hash().0[..]
        && acknowledgement.config_hash[..] == snapshot.config_hash().0[..]
}

#[test]
fn what_is_applied_and_what_is_refused_is_told() {
    let server = Server::start(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    let _reporting = Reporting::of(&running.live, reporting(server.address()));
    until("the first table", || serves(&last(&server), &at("1", 1)));
    until("its stream", || last(&server).stream_id == "stream-1");
    let told = last(&server);
    assert_eq!(
        (told.client.as_str(), told.profile.as_str(), told.source.as_str()),
        ("edge-1", "default/default", "grpc")
    );
    assert_eq!(
        told.position.unwrap().resource_versions,
        BTreeMap::from([("edgeroutes".to_owned(), 1)])
    );
    assert!(told.refused.is_none());

    // The same table at a newer position is told too.
    server.set(&at("1", 4));
    until("the position", || {
        last(&server)
            .position
            .is_some_and(|position| position.resource_versions["edgeroutes"] == 4)
    });

    server.set(&at("older", 2));
    until("the refusal", || last(&server).refused.is_some());
    let told = last(&server);
    assert!(serves(&told, &at("1", 4)), "what is served stays");
    let refused = told.refused.unwrap();
    assert_eq!(refused.hash[..], at("older", 2).hash().0[..]);
    assert_eq!(refused.position.unwrap().resource_versions["edgeroutes"], 2);
    assert!(refused.reason.contains("older"));

    server.set(&at("2", 5));
    until("the next table", || {
        serves(&last(&server), &at("2", 5)) && last(&server).refused.is_none()
    });
    let told = server.acknowledgements();
    let numbers: Vec<u64> = told
        .iter()
        .map(|acknowledgement| acknowledgement.sequence)
        .collect();
    assert_eq!(numbers, (1..=told.len() as u64).collect::<Vec<_>>());
    let status = running.until("the answer", |status| {
        status
            .report
            .as_ref()
            .is_some_and(|report| report.answered == told.len() as u64)
    });
    assert!(status.report.unwrap().connected);
}

#[test]
fn a_router_without_a_table_says_so() {
    let server = Server::at(At::Port(0));
    let running = Running::start(grpc(server.address()));
    let _reporting = Reporting::of(&running.live, reporting(server.address()));
    until("the first word", || !server.acknowledgements().is_empty());
    let told = last(&server);
    assert!(told.hash.is_empty() && told.position.is_none() && told.refused.is_none());
}

#[test]
fn any_source_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.json");
    put(&path, &at("1", 1).encode());
    let server = Server::at(At::Port(0));
    let source = Source::File(FileConfig {
        polling: polling(true),
        ..FileConfig::new(&path)
    });
    let running = Running::start(source);
    let _reporting = Reporting::of(&running.live, reporting(server.address()));
    until("the first table", || serves(&last(&server), &at("1", 1)));
    assert_eq!(
        (last(&server).source.as_str(), last(&server).stream_id.as_str()),
        ("file", "")
    );
    put(&path, b"{\"schemaVersion\":3}");
    until("the refusal", || {
        last(&server)
            .refused
            .is_some_and(|refused| refused.reason.contains("schemaVersion 3"))
    });
    put(&path, &at("2", 2).encode());
    until("the next table", || {
        serves(&last(&server), &at("2", 2)) && last(&server).refused.is_none()
    });
}

#[test]
fn state_is_told_anew_on_each_stream_and_what_came_between_is_skipped() {
    let server = Server::start(&at("1", 1));
    let reports = Server::at(At::Port(0));
    let port = reports.port();
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    let _reporting = Reporting::of(&running.live, reporting(reports.address()));
    until("the first table", || serves(&last(&reports), &at("1", 1)));
    drop(reports);
    running.until("the end of the stream", |status| {
        status.report.as_ref().is_some_and(|report| !report.connected)
    });
    for number in 2..30 {
        server.set(&at(&number.to_string(), number));
        running.until_serves(&at(&number.to_string(), number));
    }
    let reports = Server::at(At::Port(port));
    until("the newest state", || serves(&last(&reports), &at("29", 29)));
    assert!(reports.acknowledgements().len() < 5, "state, not events");
}

#[test]
fn nobody_to_tell_costs_nothing_else() {
    let server = Server::start(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    let gone = Server::at(At::Port(0));
    let address = gone.address().to_owned();
    drop(gone);
    let _reporting = Reporting::of(&running.live, reporting(&address));
    running.until_serves(&at("1", 1));
    running.until("the failure", |status| {
        status
            .report
            .as_ref()
            .is_some_and(|report| report.last_error.is_some())
    });
    server.set(&at("2", 2));
    running.until_serves(&at("2", 2));
    running.until("all is well", |status| !status.degraded);
}
