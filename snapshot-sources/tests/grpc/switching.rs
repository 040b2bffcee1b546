//! Sources that follow one another on one table. Row K9.

use routed_snapshot::Snapshot;
use routed_sources::{FileConfig, Keys, Live, Publisher, Source};

use crate::common::{PATIENCE, polling, position, put, snapshot};
use crate::rig::grpc;
use crate::server::Server;

fn at(body: &str, version: u64) -> Snapshot {
    snapshot(body, Some(position("c", version)))
}

/// Follows a source until the condition holds, and stops it there.
fn follow(source: Source, publisher: &Publisher, live: &Live, what: &str, holds: impl Fn() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (name, status) = (source.name(), live.status().clone());
    let done = async {
        while !(holds() && status.view().source == name && status.view().last_success.is_some()) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let run = source.run(publisher, Keys::default(), done);
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, run).await });
    assert!(
        ended.is_ok(),
        "waited in vain for {what}: {:#?}",
        live.status().view()
    );
}

#[test]
fn a_source_can_be_stopped_and_another_started_on_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.json");
    let file = || {
        Source::File(FileConfig {
            polling: polling(true),
            ..FileConfig::new(&path)
        })
    };
    put(&path, &at("1", 1).encode());
    let server = Server::start(&at("1", 1));
    let (publisher, live) = Publisher::new();
    let serves = |snapshot: &Snapshot| {
        live.load()
            .as_ref()
            .is_some_and(|index| index.hash() == snapshot.hash())
    };
    for round in 1..=10 {
        follow(grpc(server.address()), &publisher, &live, "the stream", || {
            serves(&at("1", 1))
        });
        assert_eq!(live.status().view().connected, Some(true));
        follow(file(), &publisher, &live, "the file", || server.open() == 0);
        let status = live.status().view();
        assert_eq!(
            (status.swaps, status.refusals, status.connected),
            (1, 0, None),
            "round {round}"
        );
    }
    // The position held outlives its source: what is older is refused whoever brings it.
    server.set(&at("5", 5));
    follow(
        grpc(server.address()),
        &publisher,
        &live,
        "the newer table",
        || serves(&at("5", 5)),
    );
    let refused = || {
        live.status()
            .view()
            .refused
            .is_some_and(|refused| refused.reason.contains("older"))
    };
    let (publisher, status) = (&publisher, live.status().clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let run = file().run(publisher, Keys::default(), async {
        while !refused() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    });
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE, run).await })
        .expect("the refusal");
    assert_eq!(
        (status.view().source.as_str(), serves(&at("5", 5))),
        ("file", true)
    );
}
