//! What may come over a stream, good and bad. Rows K3, K4, K6, K7, K9 of the attacks and case C25.

use std::time::Duration;

use routed_proto::SnapshotChunk;
use routed_snapshot::ir::{HttpTable, RoutesPart};
use routed_snapshot::snapshot::PartContent;
use routed_snapshot::{Part, PartName, Snapshot};
use routed_sources::{GrpcConfig, Live, Publisher, Source};

use crate::common::{Running, empty, position, put, snapshot};
use crate::rig::{config, grpc};
use crate::server::{At, Script, Server};
use crate::sizes::sized;

fn at(body: &str, version: u64) -> Snapshot {
    snapshot(body, Some(position("c", version)))
}

#[test]
fn the_present_snapshot_comes_at_once_and_then_each_newer_one() {
    let server = Server::start(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    for number in 2..20 {
        server.set(&at(&number.to_string(), number));
        running.until_serves(&at(&number.to_string(), number));
    }
    let status = running.until("all is well", |status| {
        status.last_success.is_some() && !status.degraded
    });
    assert_eq!(
        (status.source.as_str(), status.place.as_str()),
        ("grpc", server.address())
    );
    assert_eq!((status.connected, status.refusals), (Some(true), 0));
    assert_eq!(status.position, Some(position("c", 19)));
    assert_eq!(status.stream_id.as_deref(), Some("stream-1"));
    let requests = server.requests();
    assert_eq!(requests.len(), 1, "one stream brought all of them");
    assert_eq!(
        (requests[0].client.as_str(), requests[0].profile.as_str()),
        ("edge-1", "default/default")
    );
    assert!(requests[0].accepts_parts && requests[0].hash.is_empty() && requests[0].position.is_none());
}

#[test]
fn a_server_that_knows_whole_documents_only_is_followed_too() {
    let server = Server::at(At::Port(0));
    server.script(Script::Whole);
    server.set(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    server.set(&at("2", 2));
    running.until_serves(&at("2", 2));
    // It is replaced by one that knows parts, and back.
    server.script(Script::Honest);
    server.end_streams();
    server.set(&at("3", 3));
    running.until_serves(&at("3", 3));
    server.script(Script::Whole);
    server.end_streams();
    server.set(&at("4", 4));
    running.until_serves(&at("4", 4));
    assert_eq!(running.status().refusals, 0);
}

#[test]
fn a_document_that_can_not_be_read_is_refused_and_the_stream_goes_on() {
    let server = Server::at(At::Port(0));
    server.script(Script::Whole);
    server.set(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    server.script(Script::alter(|_| {
        let snapshot_json = "{\"schemaVersion\":9}".to_owned();
        vec![SnapshotChunk {
            snapshot_json,
            ..SnapshotChunk::default()
        }]
    }));
    server.set(&at("2", 2));
    let status = running.until("the refusal", |status| status.refusals == 1);
    assert!(status.refused.unwrap().reason.contains("schemaVersion 9"));
    assert!(running.serves(&at("1", 1)));
    server.script(Script::Whole);
    server.set(&at("3", 3));
    running.until_serves(&at("3", 3));
    let status = running.until("all is well", |status| !status.degraded);
    assert_eq!((status.refused, status.connected), (None, Some(true)));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_stream_that_ends_is_opened_anew_with_what_is_held() {
    let server = Server::start(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    server.end_streams();
    running.until("the end to be noticed", |_| server.requests().len() == 2);
    running.until("the new stream", |status| {
        status.stream_id.as_deref() == Some("stream-2")
    });
    let request = &server.requests()[1];
    assert_eq!(request.hash[..], at("1", 1).hash().0[..]);
    assert_eq!(request.parts.len(), at("1", 1).parts().len());
    assert_eq!(
        request.position.as_ref().unwrap().resource_versions["edgeroutes"],
        1
    );
    let status = running.status();
    assert_eq!(
        (status.swaps, status.refusals),
        (1, 0),
        "an equal table changes nothing"
    );
    server.set(&at("2", 2));
    running.until_serves(&at("2", 2));
}

/// A delivery is changed on its way; the table stays, and the next stream brings the right one.
fn broken(change: impl Fn(&mut Vec<SnapshotChunk>) + Send + Sync + 'static, why: &str) {
    let server = Server::start(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    server.script(Script::alter(move |mut chunks| {
        change(&mut chunks);
        chunks
    }));
    server.set(&large(2));
    let status = running.until(why, |status| status.refusals == 1);
    assert!(running.serves(&at("1", 1)), "{why}: the last good one stays");
    let refused = status.refused.expect("what was refused is told");
    assert!(refused.reason.contains(why), "{why}: {}", refused.reason);
    server.script(Script::Honest);
    running.until_serves(&large(2));
    let status = running.until("all is well", |status| !status.degraded);
    assert_eq!((status.refused, status.refusals), (None, 1), "{why}");
    assert_eq!(status.connected, Some(true));
}

/// A snapshot of several chunks.
fn large(version: u64) -> Snapshot {
    sized(1_500_000, version)
}

#[test]
fn a_delivery_with_a_lost_chunk_is_refused() {
    broken(|chunks| drop(chunks.remove(1)), "where chunk 1 of 2 was due");
}

#[test]
fn a_delivery_with_chunks_in_another_order_is_refused() {
    broken(|chunks| chunks.swap(0, 1), "where chunk 0 of 2 was due");
}

#[test]
fn a_delivery_with_a_doubled_chunk_is_refused() {
    broken(
        |chunks| chunks.insert(1, chunks[0].clone()),
        "where chunk 1 of 2 was due",
    );
}

#[test]
fn a_delivery_that_lies_about_its_hash_is_refused() {
    let lie = |chunks: &mut Vec<SnapshotChunk>| chunks[0].begin.as_mut().unwrap().hash = vec![7; 32].into();
    broken(lie, "it says 0707");
}

#[test]
fn a_part_that_is_not_what_it_says_is_refused() {
    let lie = |chunks: &mut Vec<SnapshotChunk>| {
        let data = &mut chunks[1].parts[0].data;
        let mut bytes = data.to_vec();
        bytes[100] ^= 1;
        *data = bytes.into();
    };
    broken(lie, "routes/");
}

#[test]
fn a_change_to_something_that_is_not_held_is_refused_and_all_is_sent() {
    let lie =
        |chunks: &mut Vec<SnapshotChunk>| chunks[0].begin.as_mut().unwrap().base_hash = vec![7; 32].into();
    broken(lie, "is a change to snapshot 0707");
}

#[test]
fn a_snapshot_above_the_limit_is_refused_and_the_old_one_serves() {
    let lie = |chunks: &mut Vec<SnapshotChunk>| chunks[0].begin.as_mut().unwrap().parts[0].length = 600 << 20;
    broken(lie, "the limit is 536870912");
}

/// Row K6: in parts, as a document, and as a message beyond all limits.
#[test]
fn a_snapshot_above_a_set_limit_is_refused_in_every_form() {
    for (script, bytes, why) in [
        (Script::Honest, 3 << 20, "the limit is 2097152"),
        (Script::Whole, 3 << 20, "the limit is 2097152"),
        (Script::Whole, 7 << 20, "a message is larger than"),
    ] {
        let server = Server::start(&at("1", 1));
        server.script(script);
        let mut config = config(server.address());
        config.limit_bytes = 2 << 20;
        let running = Running::start(Source::Grpc(Box::new(config)));
        running.until_serves(&at("1", 1));
        server.set(&sized(bytes, 2));
        let status = running.until(why, |status| status.refusals == 1);
        assert!(status.refused.unwrap().reason.contains(why));
        running.until("another try", |_| server.requests().len() >= 2);
        let status = running.status();
        assert!(running.serves(&at("1", 1)) && status.degraded);
        assert_eq!(status.refusals, 1, "it counts once, however often it comes");
        server.set(&at("3", 3));
        running.until_serves(&at("3", 3));
    }
}

#[test]
fn a_delivery_cut_in_the_middle_is_asked_for_again() {
    let server = Server::start(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    server.script(Script::Cuts(1));
    server.set(&large(2));
    running.until("the end of the stream", |status| status.degraded);
    assert!(running.serves(&at("1", 1)));
    running.until("another try", |_| server.requests().len() >= 2);
    assert!(running.serves(&at("1", 1)));
    server.script(Script::Honest);
    running.until_serves(&large(2));
    assert_eq!(
        running.status().refusals,
        0,
        "what never came whole was not refused"
    );
}

#[test]
fn a_delivery_that_stands_still_is_given_up_after_a_while() {
    let server = Server::start(&at("1", 1));
    let mut config = config(server.address());
    config.control_plane.timing.stalled = Duration::from_millis(300);
    let running = Running::start(Source::Grpc(Box::new(config)));
    running.until_serves(&at("1", 1));
    server.script(Script::Stalls(1));
    server.set(&large(2));
    let status = running.until("the standstill", |status| status.degraded);
    assert!(status.last_error.unwrap().message.contains("standstill"));
    server.script(Script::Honest);
    running.until_serves(&large(2));
}

#[test]
fn a_server_that_has_nothing_to_say_is_waited_for() {
    let server = Server::at(At::Port(0));
    server.script(Script::Silent);
    server.set(&at("1", 1));
    let mut config = config(server.address());
    config.control_plane.timing.stalled = Duration::from_millis(50);
    let running = Running::start(Source::Grpc(Box::new(config)));
    let status = running.until("the stream", |status| status.connected == Some(true));
    assert!(status.hash.is_none() && !status.degraded);
    running.until("contact goes on", |now| now.last_contact > status.last_contact);
    assert_eq!(server.requests().len(), 1);
}

/// Rules whose content no index can be built from: a table that names a rule that is not there.
fn without_index(version: u64) -> Snapshot {
    let good = at("1", 1);
    let (name, part) = good.parts().iter().next().unwrap();
    let PartContent::Routes(routes) = part.content().unwrap().into_owned() else {
        panic!("no routes")
    };
    let table = HttpTable {
        host: "one.example.com".to_owned(),
        ..routes.tables[0].clone()
    };
    let content = PartContent::Routes(RoutesPart {
        tables: vec![table.clone(), table],
        ..routes
    });
    let part = Part::from_content(content).unwrap();
    let parts = std::collections::BTreeMap::from([(*name, std::sync::Arc::new(part))]);
    Snapshot::new(parts, Some(position("c", version)))
}

#[test]
fn a_snapshot_without_index_is_refused_and_what_follows_is_a_change_to_it() {
    let server = Server::start(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    server.set(&without_index(2));
    let status = running.until("the refusal", |status| status.refusals == 1);
    let refused = status.refused.unwrap();
    assert_eq!(refused.hash, Some(without_index(2).hash()));
    assert_eq!(refused.position, Some(position("c", 2)));
    assert!(
        refused.reason.contains("a second table of host"),
        "{}",
        refused.reason
    );
    // It comes again with a new stream, and counts once.
    server.end_streams();
    running.until("the new stream", |_| server.requests().len() == 2);
    running.until("all of it again", |status| {
        status.stream_id.as_deref() == Some("stream-2")
    });
    server.set(&at("3", 3));
    running.until_serves(&at("3", 3));
    let status = running.until("all is well", |status| !status.degraded);
    assert_eq!((status.refusals, status.refused), (1, None));
    assert_eq!(
        server.requests().len(),
        2,
        "the change was taken on the stream that brought the bad one"
    );
}

#[test]
fn content_that_fits_no_type_is_refused_when_its_index_is_built() {
    let server = Server::start(&at("1", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 1));
    let (bytes, name) = (
        br#"{"rules":{"EdgeRoute/shop/cart/0":7}}"#.to_vec(),
        PartName::Routes(3),
    );
    let hash = routed_snapshot::Hash::of(&bytes);
    let part = Part::packed(name, hash, bytes.len(), bytes.into_boxed_slice(), |bytes, _| {
        bytes.to_vec()
    });
    let parts = std::collections::BTreeMap::from([(name, std::sync::Arc::new(part.unwrap()))]);
    server.set(&Snapshot::new(parts, Some(position("c", 2))));
    let refused = running
        .until("the refusal", |status| status.refusals == 1)
        .refused
        .unwrap();
    let objects: Vec<String> = refused.objects.iter().map(ToString::to_string).collect();
    assert_eq!(objects, ["EdgeRoute shop/cart"]);
    assert!(running.serves(&at("1", 1)));
}

#[test]
fn an_older_position_is_refused_and_its_server_is_left() {
    let server = Server::start(&at("5", 5));
    let mut config = config(server.address());
    config.control_plane.timing.behind = Duration::from_millis(300);
    let running = Running::start(Source::Grpc(Box::new(config)));
    running.until_serves(&at("5", 5));
    server.set(&at("4", 4));
    let status = running.until("the refusal", |status| status.refusals == 1);
    assert!(status.refused.unwrap().reason.contains("older"));
    running.until("another stream, in the hope of another server", |_| {
        server.requests().len() >= 2
    });
    assert!(running.serves(&at("5", 5)));
    server.set(&at("6", 6));
    running.until_serves(&at("6", 6));
    assert_eq!(running.status().refusals, 1);
}

#[test]
fn another_cluster_is_refused_until_the_position_is_reset() {
    let server = Server::start(&at("1", 9));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 9));
    let foreign = snapshot("foreign", Some(position("d", 1)));
    server.set(&foreign);
    let status = running.until("the refusal", |status| status.refusals == 1);
    assert!(status.refused.unwrap().reason.contains("comes from cluster `d`"));
    assert!(running.serves(&at("1", 9)));
    running.live.status().reset_position();
    running.until_serves(&foreign);
    let asked: Vec<bool> = server
        .requests()
        .iter()
        .map(|request| request.position.is_some())
        .collect();
    assert_eq!(
        asked,
        [false, false],
        "after the reset a router holds no position"
    );
    running.until("its position", |status| status.position == Some(position("d", 1)));
    server.set(&at("2", 10));
    running.until("the refusal of the first", |status| status.refusals == 2);
    assert!(running.serves(&foreign));
}

#[test]
fn an_empty_table_needs_a_newer_position() {
    let server = Server::start(&at("1", 5));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("1", 5));
    server.set(&empty(Some(position("c", 5))));
    running.until("the refusal", |status| status.refusals == 1);
    assert!(running.serves(&at("1", 5)));
    server.set(&empty(Some(position("c", 6))));
    running.until_serves(&empty(None));
}

#[test]
fn snapshots_that_come_while_one_is_built_are_skipped_but_for_the_newest() {
    let server = Server::start(&at("0", 1));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&at("0", 1));
    for number in 0..300 {
        server.set(&at(&number.to_string(), number + 2));
    }
    running.until_serves(&at("299", 301));
    assert_eq!(running.status().refusals, 0);
}

#[test]
fn the_cached_table_serves_until_the_control_plane_answers_and_its_position_holds() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache.json");
    put(&cache, &at("cached", 7).encode());
    let server = Server::at(At::Port(0));
    server.set(&at("older", 6));
    let start = || {
        let (publisher, live): (Publisher, Live) = Publisher::new();
        publisher.attach_snapshot_cache(cache.clone());
        let source = Source::Grpc(Box::new(GrpcConfig {
            ..config(server.address())
        }));
        Running::start_with(source, publisher, live, Default::default())
    };
    let running = start();
    running.until("the refusal of the older one", |status| status.refusals == 1);
    assert!(running.serves(&at("cached", 7)));
    let request = &server.requests()[0];
    assert_eq!(
        request.position.as_ref().unwrap().resource_versions["edgeroutes"],
        7
    );
    server.set(&at("newer", 8));
    running.until_serves(&at("newer", 8));
    running.until("the cache", |status| {
        status
            .cache
            .as_ref()
            .is_some_and(|cache| cache.written_at.is_some())
    });
}
