//! Tables from a control plane.

use std::collections::BTreeMap;

use routed_snapshot::{Position, Snapshot};
use serde_json::{Value, json};

use crate::control_plane::{Script, Server};
use crate::harness::{
    Folder, Launch, Router, Stub, backend, compile, get, profile, simple_route, wait_until,
};

fn objects(stub: &Stub, path: &str) -> Vec<Value> {
    vec![
        profile(),
        backend("b", &[stub.address()]),
        simple_route("r", &["a.example"], "PathPrefix", path, "b"),
    ]
}

fn at(snapshot: &Snapshot, version: u64) -> Snapshot {
    let position = Position {
        cluster_id: "c".to_owned(),
        resource_versions: BTreeMap::from([("edgeroutes".to_owned(), version)]),
    };
    Snapshot::new(snapshot.parts().clone(), Some(position))
}

fn status(router: &Router, path: &str) -> u16 {
    get(router.http(), "a.example", path).status
}

/// The control plane is gone and back, with an older table, with a broken one and with a good one; requests are
/// answered throughout. Rows K4 and K8.
#[test]
fn the_last_good_table_serves_whatever_becomes_of_the_control_plane() {
    let stub = Stub::unrecorded("b");
    let first = at(&compile(&objects(&stub, "/one")).snapshot, 5);
    let second = at(&compile(&objects(&stub, "/two")).snapshot, 6);
    let server = Server::start(&first);
    let router = Launch::grpc(server.address())
        .flag("--client-name", "edge-7")
        .start();
    assert_eq!((status(&router, "/one"), status(&router, "/two")), (200, 404));
    assert_eq!(server.requests()[0].client, "edge-7");

    server.set(&at(&second, 4));
    wait_until("the refusal of an older one", || router.refusals() == 1);
    assert!(router.is_degraded());
    server.script(Script::alter(|mut chunks| {
        chunks[0].begin.as_mut().unwrap().hash = vec![7; 32].into();
        chunks
    }));
    server.set(&second);
    wait_until("the refusal of a broken one", || router.refusals() == 2);
    assert_eq!((status(&router, "/one"), status(&router, "/two")), (200, 404));
    let told = server.acknowledgements();
    let last = told.last().unwrap();
    assert_eq!(last.hash[..], first.hash().0[..]);
    assert!(last.refused.as_ref().unwrap().reason.contains("it says 0707"));

    server.script(Script::Honest);
    router.wait_hash(&second.hash().to_string());
    wait_until("the new table's acknowledgement", || {
        let told = server.acknowledgements();
        told.last()
            .is_some_and(|last| last.hash[..] == second.hash().0[..] && last.refused.is_none())
    });
    assert_eq!((status(&router, "/one"), status(&router, "/two")), (404, 200));
    drop(server);
    wait_until("the loss to be told", || {
        router.admin("/snapshot").json()["connected"] == json!(false)
    });
    assert!(router.metrics().contains("\nrouted_source_connected 0\n"));
    assert!(router.is_ready(), "what is served is served");
    assert_eq!(status(&router, "/two"), 200);
}

/// The same objects by a folder, a file and a control plane have one hash; a router that is started with another
/// source over the cache of the first swaps nothing. Row K9.
#[test]
fn an_equal_table_through_another_source_changes_nothing() {
    let stub = Stub::unrecorded("b");
    let objects = objects(&stub, "/");
    let compiled = compile(&objects).snapshot;
    let folder = Folder::new(&objects);
    let file = folder.beside("table.json", &compiled.encode());
    let server = Server::start(&compiled);
    let cache = folder.root().join("cache.json");
    let launches = [
        Launch::grpc(server.address()),
        Launch::snapshot(&file),
        Launch::resources(&folder.dir()),
        Launch::grpc(server.address()),
    ];
    for (number, launch) in launches.into_iter().enumerate() {
        let router = launch.flag("--snapshot-cache", &cache).start();
        assert_eq!(router.hash(), compiled.hash().to_string());
        wait_until("the source's first look", || {
            let snapshot = router.admin("/snapshot").json();
            snapshot["lastSuccess"] != Value::Null && (number == 0 || router.number("noOps") >= 1)
        });
        assert_eq!(
            router.swaps(),
            1,
            "the first table, by the source or from the cache, and no other"
        );
        assert_eq!(status(&router, "/"), 200);
        if number == 0 {
            wait_until("the cache", || cache.exists());
        }
    }
}
