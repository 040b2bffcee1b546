//! Deliveries put together: whole, as changes, and as they must not be.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{position, snapshot};
use proptest::prelude::*;
use prost::Message;
use routed_proto::{Encoding, PartPiece, PartRef, SnapshotChunk, WatchRequest};
use routed_snapshot::ir::{Action, DirectResponse, RoutesPart, Rule};
use routed_snapshot::snapshot::{DecodeError, PartContent};
use routed_snapshot::{Hash, Index, Part, PartName, Snapshot};
use routed_sources::assemble::deliver::Receiver;
use routed_sources::assemble::{AssembleError, Assembler, MAX_CHUNK_BYTES, MAX_SNAPSHOT_BYTES};

/// What a router with this assembler asks.
fn request(assembler: &Assembler, zstd: bool) -> WatchRequest {
    let (hash, parts) = assembler.held();
    WatchRequest {
        accepts_parts: true,
        encodings: if zstd {
            vec![Encoding::Zstd.into()]
        } else {
            Vec::new()
        },
        hash: hash.map(|hash| hash.0.to_vec().into()).unwrap_or_default(),
        parts,
        ..WatchRequest::default()
    }
}

/// A part whose one rule has this text.
fn part(text: &str) -> Arc<Part> {
    let rule = Rule {
        name: None,
        action: Action::DirectResponse(DirectResponse {
            status: 200,
            body: text.to_owned(),
            content_type: None,
        }),
        request_headers: Default::default(),
        response_headers: Default::default(),
        rewrite: None,
        cors: None,
        mirrors: Vec::new(),
        timeouts: Default::default(),
        retry: None,
    };
    let content = PartContent::Routes(RoutesPart {
        rules: BTreeMap::from([("EdgeRoute/default/one/0".to_owned(), rule)]),
        tables: Vec::new(),
    });
    Arc::new(Part::from_content(content).unwrap())
}

fn of_parts(parts: &[(u8, String)]) -> Snapshot {
    let parts = parts
        .iter()
        .map(|(bucket, text)| (PartName::Routes(*bucket), part(text)));
    Snapshot::new(parts.collect(), Some(position("c", 1)))
}

/// Three parts, one of them of several chunks.
fn three() -> Snapshot {
    of_parts(&[(0, "x".into()), (1, noise(900_000)), (2, "z".into())])
}

/// Text that does not become much smaller.
fn noise(length: usize) -> String {
    let mut state: u64 = 3;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + 3 + ((state >> 40) % 90) as u8)
    };
    (0..length)
        .map(|_| next())
        .filter(|c| *c != '"' && *c != '\\')
        .collect()
}

/// Chunks of a delivery from nothing.
fn whole(snapshot: &Snapshot, zstd: bool) -> Vec<SnapshotChunk> {
    Receiver::of(&request(&Assembler::default(), zstd)).deliver(snapshot, "s1")
}

fn push_all(
    assembler: &mut Assembler,
    chunks: Vec<SnapshotChunk>,
) -> Result<Option<Snapshot>, AssembleError> {
    let mut last = None;
    for chunk in chunks {
        last = assembler.push(chunk)?.map(|delivered| delivered.snapshot);
    }
    Ok(last)
}

/// The error that this delivery from nothing meets. A good one is taken afterwards all the same.
#[track_caller]
fn refused(chunks: Vec<SnapshotChunk>) -> AssembleError {
    let mut assembler = Assembler::default();
    let error = push_all(&mut assembler, chunks).expect_err("refused");
    assert_eq!(assembler.held(), (None, Vec::new()), "nothing of it is used");
    assembler.begin_stream();
    assert!(push_all(&mut assembler, whole(&three(), true)).unwrap().is_some());
    error
}

#[test]
fn a_snapshot_arrives_whole_with_and_without_compression() {
    for zstd in [false, true] {
        let sent = snapshot("a", Some(position("c", 7)));
        let mut assembler = Assembler::default();
        let chunks = whole(&sent, zstd);
        let mut delivered = None;
        for chunk in chunks {
            delivered = assembler.push(chunk).unwrap();
        }
        let delivered = delivered.unwrap();
        assert_eq!(delivered.stream_id, "s1");
        assert_eq!(delivered.snapshot.hash(), sent.hash());
        assert_eq!(delivered.snapshot.position(), sent.position());
        assert_eq!(delivered.snapshot.encode(), sent.encode());
        let is_packed = |part: &Arc<Part>| matches!(part.bytes(), std::borrow::Cow::Owned(_));
        assert!(
            delivered.snapshot.parts().values().all(is_packed),
            "no text is kept"
        );
        assert_eq!(
            Index::build(&delivered.snapshot, None).unwrap().hash(),
            sent.hash()
        );
    }
}

#[test]
fn a_large_part_comes_in_many_chunks() {
    let chunks = whole(&three(), false);
    assert!(chunks.len() > 3, "{}", chunks.len());
    assert!(chunks.iter().all(|chunk| chunk.encoded_len() < 1 << 20));
    let mut assembler = Assembler::default();
    let got = push_all(&mut assembler, chunks).unwrap().unwrap();
    assert_eq!(got.encode(), three().encode());
}

#[test]
fn a_change_carries_only_the_parts_that_differ() {
    let mut assembler = Assembler::default();
    let mut sender = Receiver::of(&request(&assembler, true));
    push_all(&mut assembler, sender.deliver(&three(), "s")).unwrap();
    let next = of_parts(&[(1, noise(900_000)), (2, "changed".into()), (7, "new".into())]);
    let chunks = sender.deliver(&next, "s");
    let [chunk] = &chunks[..] else {
        panic!("{} chunks", chunks.len())
    };
    let sent: Vec<&str> = chunk.parts.iter().map(|piece| piece.name.as_str()).collect();
    assert_eq!(sent, ["routes/02", "routes/07"]);
    assert_eq!(chunk.begin.as_ref().unwrap().removed, ["routes/00"]);
    assert!(chunk.encoded_len() < 1000, "{}", chunk.encoded_len());
    let got = push_all(&mut assembler, chunks).unwrap().unwrap();
    assert_eq!(got.encode(), next.encode());
}

#[test]
fn a_new_stream_begins_with_what_is_held() {
    let mut assembler = Assembler::default();
    push_all(&mut assembler, whole(&three(), true)).unwrap();
    assembler.begin_stream();
    let equal = Receiver::of(&request(&assembler, true)).deliver(&three(), "s2");
    assert!(equal.iter().all(|chunk| chunk.parts.is_empty()) && equal.len() == 1);
    assert_eq!(
        push_all(&mut assembler, equal).unwrap().unwrap().hash(),
        three().hash()
    );

    // A server may name all parts, without a base, and leave out the bytes of those that are held.
    assembler.begin_stream();
    let mut named = whole(&three(), true);
    named.truncate(1);
    named[0].parts.retain(|piece| piece.name == "routes/00");
    named[0].complete = true;
    assert_eq!(
        push_all(&mut assembler, named).unwrap().unwrap().hash(),
        three().hash()
    );
}

#[test]
fn chunks_that_are_lost_doubled_or_exchanged_are_refused() {
    let good = || whole(&three(), false);
    let order = |error: AssembleError| matches!(error, AssembleError::Order { .. });
    for at in 0..good().len() - 1 {
        let mut lost = good();
        lost.remove(at);
        assert!(order(refused(lost)), "lost {at}");
        let mut doubled = good();
        doubled.insert(at, doubled[at].clone());
        assert!(order(refused(doubled)), "doubled {at}");
        let mut exchanged = good();
        exchanged.swap(at, at + 1);
        assert!(order(refused(exchanged)), "exchanged {at}");
    }
    let mut again = good();
    again.extend(good());
    let mut assembler = Assembler::default();
    assert!(
        order(push_all(&mut assembler, again).unwrap_err()),
        "a delivery doubled"
    );
    assert_eq!(assembler.held().0, Some(three().hash()), "what came first stays");
}

#[test]
fn a_change_to_something_else_is_refused() {
    let mut sender = Receiver::of(&request(&Assembler::default(), true));
    drop(sender.deliver(&three(), "s"));
    let mut change = sender.deliver(&snapshot("a", None), "s");
    change[0].delivery = 1;
    let error = refused(change.clone());
    assert_eq!(
        error,
        AssembleError::WrongBase {
            base: three().hash(),
            held: None
        }
    );
    let mut assembler = Assembler::default();
    push_all(&mut assembler, whole(&snapshot("other", None), true)).unwrap();
    change[0].delivery = 2;
    let error = push_all(&mut assembler, change).unwrap_err();
    let held = Some(snapshot("other", None).hash());
    assert_eq!(
        error,
        AssembleError::WrongBase {
            base: three().hash(),
            held
        }
    );
}

#[test]
fn parts_that_are_missing_unknown_repeated_or_mixed_are_refused() {
    let altered = |alter: &dyn Fn(&mut SnapshotChunk)| {
        let mut chunks = whole(&three(), true);
        alter(&mut chunks[0]);
        refused(chunks)
    };
    let mut cut = whole(&three(), true);
    cut.truncate(1);
    cut[0].complete = true;
    assert!(matches!(refused(cut), AssembleError::MissingPart(_)));
    let missing = altered(&|chunk| drop(chunk.parts.remove(0)));
    assert_eq!(missing, AssembleError::MissingPart(PartName::Routes(0)));

    let unknown = |name: &str| AssembleError::UnknownPart(name.to_owned());
    for name in ["routes/77", "nonsense", "routes/0", ""] {
        let renamed = altered(&|chunk| chunk.parts[0].name = name.to_owned());
        assert_eq!(renamed, unknown(name));
    }
    let named = altered(&|chunk| chunk.begin.as_mut().unwrap().parts[0].name = "who/00".to_owned());
    assert_eq!(named, unknown("who/00"));
    let removed = altered(&|chunk| chunk.begin.as_mut().unwrap().removed.push("routes/00".to_owned()));
    assert_eq!(
        removed,
        unknown("routes/00"),
        "nothing is held that could be removed"
    );
    let twice = altered(&|chunk| {
        let again = chunk.parts[0].clone();
        chunk.parts.insert(0, again);
    });
    assert_eq!(twice, unknown("routes/00"));
    let repeated = altered(&|chunk| {
        let parts = &mut chunk.begin.as_mut().unwrap().parts;
        parts.push(parts[0].clone());
    });
    assert_eq!(repeated, AssembleError::RepeatedPart(PartName::Routes(0)));
    let mixed = altered(&|chunk| chunk.parts[0].last = false);
    let (unfinished, found) = (PartName::Routes(0), PartName::Routes(1));
    assert_eq!(mixed, AssembleError::Mixed { unfinished, found });
}

#[test]
fn a_delivery_that_does_not_begin_or_begins_twice_is_refused() {
    let mut headless = whole(&three(), true);
    headless[0].begin = None;
    assert_eq!(refused(headless), AssembleError::Begin);
    let mut twice = whole(&three(), true);
    twice[1].begin = twice[0].begin.clone();
    assert_eq!(refused(twice), AssembleError::Begin);
}

#[test]
fn bytes_with_another_hash_are_refused() {
    let mut chunks = whole(&snapshot("a", None), false);
    let mut bytes = chunks[0].parts[0].data.to_vec();
    bytes[9] ^= 1;
    chunks[0].parts[0].data = bytes.into();
    let error = refused(chunks);
    assert!(
        matches!(error, AssembleError::Decode(DecodeError::PartHash { .. })),
        "{error}"
    );

    for field in ["hash", "config"] {
        let mut chunks = whole(&three(), true);
        let begin = chunks[0].begin.as_mut().unwrap();
        let promise = if field == "hash" {
            &mut begin.hash
        } else {
            &mut begin.config_hash
        };
        *promise = vec![7; 32].into();
        let error = refused(chunks);
        assert!(
            matches!(error, AssembleError::Decode(DecodeError::Hash { .. })),
            "{error}"
        );
    }
    let mut chunks = whole(&three(), true);
    chunks[0].begin.as_mut().unwrap().hash = vec![7; 31].into();
    assert!(matches!(refused(chunks), AssembleError::Field(_)));
}

#[test]
fn what_this_version_can_not_read_is_refused_by_name() {
    let mut chunks = whole(&three(), true);
    chunks[0].begin.as_mut().unwrap().requires = vec!["teleport".to_owned()];
    let error = refused(chunks);
    assert_eq!(
        error,
        AssembleError::Decode(DecodeError::UnknownFeature("teleport".into()))
    );
    let mut chunks = whole(&three(), true);
    chunks[0].begin.as_mut().unwrap().schema_version = 2;
    assert_eq!(
        refused(chunks),
        AssembleError::Decode(DecodeError::SchemaVersion(2))
    );
}

#[test]
fn more_than_the_limit_is_refused_by_its_first_chunk() {
    for lengths in [
        [u64::MAX, 1],
        [MAX_SNAPSHOT_BYTES as u64, 1],
        [u64::MAX, u64::MAX],
    ] {
        let mut chunks = whole(&three(), true);
        for (part, length) in chunks[0].begin.as_mut().unwrap().parts.iter_mut().zip(lengths) {
            part.length = length;
        }
        chunks.truncate(1);
        assert!(matches!(refused(chunks), AssembleError::TooLarge { .. }));
    }
    let mut chunks = whole(&three(), true);
    chunks[0].parts[0].data = vec![0; MAX_CHUNK_BYTES + 1].into();
    assert_eq!(refused(chunks), AssembleError::ChunkTooLarge(MAX_CHUNK_BYTES + 1));
}

/// One part named with this length and sent as these pieces.
fn one_part(length: u64, pieces: &[(i32, Vec<u8>)]) -> Vec<SnapshotChunk> {
    let mut chunks = whole(&of_parts(&[(0, "x".into())]), true);
    let begin = chunks[0].begin.as_mut().unwrap();
    begin.parts = vec![PartRef {
        name: "routes/00".into(),
        hash: vec![1; 32].into(),
        length,
    }];
    let last = pieces.len();
    let piece = |(number, (encoding, data)): (usize, &(i32, Vec<u8>))| PartPiece {
        name: "routes/00".into(),
        encoding: *encoding,
        data: data.clone().into(),
        last: number + 1 == last,
    };
    chunks[0].parts = pieces.iter().enumerate().map(piece).collect();
    chunks
}

#[test]
fn a_frame_becomes_exactly_as_long_as_promised_or_is_refused() {
    let bomb = zstd::bulk::compress(&vec![b' '; 300 << 20], 1).unwrap();
    assert!(bomb.len() < 64 << 10);
    let zstd = Encoding::Zstd as i32;
    let why = |chunks: Vec<SnapshotChunk>| match refused(chunks) {
        AssembleError::Encoding { why, .. } => why,
        other => panic!("{other}"),
    };
    let frame = "it is not a zstd frame of the promised length";
    assert_eq!(
        why(one_part(1000, &[(zstd, bomb.clone())])),
        "it is longer than was promised"
    );
    assert_eq!(why(one_part(20 << 20, &[(zstd, bomb)])), frame);
    let small = zstd::bulk::compress(&[b' '; 100], 1).unwrap();
    assert_eq!(why(one_part(101, &[(zstd, small.clone())])), frame);
    assert_eq!(
        why(one_part(100, &[(zstd, small[..small.len() - 1].to_vec())])),
        frame
    );
    assert_eq!(why(one_part(100, &[(zstd, b"no frame".to_vec())])), frame);
    assert_eq!(
        why(one_part(3, &[(0, b"four".to_vec())])),
        "it is longer than was promised"
    );
    assert_eq!(
        why(one_part(5, &[(0, b"four".to_vec())])),
        "it is shorter than was promised"
    );
    assert_eq!(
        why(one_part(4, &[(9, b"four".to_vec())])),
        "its encoding is not known"
    );
    let pieces = [(0, b"fo".to_vec()), (zstd, b"ur".to_vec())];
    assert_eq!(why(one_part(4, &pieces)), "its pieces are encoded differently");
}

#[test]
fn profiles_that_can_not_be_read_are_refused_whole() {
    let bytes = br#"{"profiles":7}"#;
    let mut chunks = whole(&of_parts(&[(0, "x".into())]), false);
    let begin = chunks[0].begin.as_mut().unwrap();
    let hash = Hash::of(bytes).0.to_vec();
    begin.parts = vec![PartRef {
        name: "profiles".into(),
        hash: hash.into(),
        length: bytes.len() as u64,
    }];
    let data = bytes::Bytes::from_static(bytes);
    chunks[0].parts = vec![PartPiece {
        name: "profiles".into(),
        encoding: 0,
        data,
        last: true,
    }];
    let error = refused(chunks);
    assert!(
        matches!(error, AssembleError::Decode(DecodeError::Part { .. })),
        "{error}"
    );
}

/// Parts, whether a new stream begins before them, and whether it is compressed.
type Step = (Vec<(u8, String)>, bool, bool);

fn snapshots() -> impl Strategy<Value = Vec<Step>> {
    let text = prop_oneof!["[a-z]{0,12}", (1000_usize..600_000).prop_map(noise),];
    let parts = proptest::collection::vec((0_u8..6, text), 0..5);
    proptest::collection::vec((parts, any::<bool>(), any::<bool>()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(48)
    ))]

    /// Whatever follows whatever, on one stream or on several: what arrives is what was sent.
    #[test]
    fn what_arrives_is_what_was_sent(sequence in snapshots()) {
        let mut assembler = Assembler::default();
        let mut sender = Receiver::of(&request(&assembler, true));
        for (parts, new_stream, zstd) in sequence {
            let parts: BTreeMap<u8, String> = parts.into_iter().collect();
            let sent = of_parts(&parts.into_iter().collect::<Vec<_>>());
            if new_stream {
                assembler.begin_stream();
                sender = Receiver::of(&request(&assembler, zstd));
            }
            let got = push_all(&mut assembler, sender.deliver(&sent, "s")).unwrap().unwrap();
            prop_assert_eq!(got.encode(), sent.encode());
            prop_assert_eq!(assembler.held().0, Some(sent.hash()));
        }
    }

    /// One bit of a delivery's bytes differs: it is refused, or what arrives is what was sent.
    #[test]
    fn a_damaged_delivery_is_refused_or_unharmed(at in any::<prop::sample::Index>(), bit in 0_u8..8, zstd: bool) {
        let first = of_parts(&[(0, "a".into()), (1, "b".into())]);
        let second = of_parts(&[(1, "c".repeat(500)), (2, "d".into())]);
        let mut assembler = Assembler::default();
        let mut sender = Receiver::of(&request(&assembler, zstd));
        push_all(&mut assembler, sender.deliver(&first, "s")).unwrap();
        let mut bytes = sender.deliver(&second, "s").remove(0).encode_to_vec();
        let place = at.index(bytes.len());
        bytes[place] ^= 1 << bit;
        let held = match SnapshotChunk::decode(&bytes[..]).map(|chunk| assembler.push(chunk)) {
            Ok(Ok(Some(delivered))) => {
                prop_assert_eq!(delivered.snapshot.hash(), second.hash());
                second.hash()
            }
            _ => first.hash(),
        };
        prop_assert_eq!(assembler.held().0, Some(held));
        // The next stream mends it.
        assembler.begin_stream();
        let chunks = Receiver::of(&request(&assembler, zstd)).deliver(&second, "s");
        prop_assert_eq!(push_all(&mut assembler, chunks).unwrap().unwrap().hash(), second.hash());
    }
}
