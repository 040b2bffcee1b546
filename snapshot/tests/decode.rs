//! Documents that are refused, and what is left of a damaged one: nothing.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may fail, and says what it measured

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{forward, prefix, snapshot_of, table};
use routed_snapshot::snapshot::DecodeError;
use routed_snapshot::{Hash, Index, Part, PartName, Position, Snapshot};

fn small() -> Snapshot {
    let parts = snapshot_of(
        &[("EdgeRoute/a/b/0", forward(&[("Service/a/b/80", 1)]))],
        vec![table("a.test", vec![prefix("/a", "EdgeRoute/a/b/0")])],
    );
    let position = Position {
        cluster_id: "c1".into(),
        resource_versions: BTreeMap::from([("services".to_owned(), 12)]),
    };
    Snapshot::new(parts.parts().clone(), Some(position))
}

fn text() -> String {
    String::from_utf8(small().encode()).unwrap()
}

#[test]
fn a_document_read_back_is_the_same() {
    let read = Snapshot::decode(&small().encode()).unwrap();
    assert_eq!(read.hash(), small().hash());
    assert_eq!(read.config_hash(), small().config_hash());
    assert_eq!(read.position(), small().position());
    assert_eq!(read.encode(), small().encode());
}

#[test]
fn every_truncation_is_refused() {
    let document = small().encode();
    for end in 0..document.len() {
        assert!(Snapshot::decode(&document[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn every_flipped_bit_is_refused_or_changes_nothing_that_routes() {
    let document = small().encode();
    for at in 0..document.len() {
        for bit in 0..8 {
            let mut damaged = document.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(read) = Snapshot::decode(&damaged) {
                // The position is not part of the hash, and a name in it or an optional key may differ.
                assert_eq!(read.hash(), small().hash(), "byte {at} bit {bit}");
                assert_eq!(read.parts(), small().parts(), "byte {at} bit {bit}");
            }
        }
    }
}

#[test]
fn another_schema_version_is_refused_by_number() {
    let later = text().replace("\"schemaVersion\":1", "\"schemaVersion\":2");
    assert_eq!(
        Snapshot::decode(later.as_bytes()).unwrap_err(),
        DecodeError::SchemaVersion(2)
    );
}

#[test]
fn an_unknown_required_feature_is_refused_by_name() {
    let needy = text().replace("\"requires\":[]", "\"requires\":[\"teleport\"]");
    assert_eq!(
        Snapshot::decode(needy.as_bytes()).unwrap_err(),
        DecodeError::UnknownFeature("teleport".into())
    );
}

#[test]
fn an_unknown_optional_field_is_ignored() {
    let newer = text().replace("\"requires\":[]", "\"extra\":{\"x\":[1]},\"requires\":[]");
    assert_eq!(Snapshot::decode(newer.as_bytes()).unwrap().hash(), small().hash());
}

#[test]
fn a_part_with_another_hash_is_refused_and_named() {
    let changed = text().replace("\"value\":\"/a\"", "\"value\":\"/b\"");
    assert_ne!(changed, text());
    let error = Snapshot::decode(changed.as_bytes()).unwrap_err();
    assert!(matches!(error, DecodeError::PartHash { .. }), "{error}");
    assert!(error.to_string().starts_with("part routes/"), "{error}");
}

#[test]
fn a_wrong_total_is_refused() {
    for hash in [small().hash(), small().config_hash()] {
        let changed = text().replacen(&hash.to_string(), &"0".repeat(64), 1);
        let error = Snapshot::decode(changed.as_bytes()).unwrap_err();
        assert!(matches!(error, DecodeError::Hash { .. }), "{error}");
    }
}

#[test]
fn a_part_missing_on_either_side_is_refused() {
    let manifest = text().replacen("\"profiles\":\"", "\"routes/00\":\"", 1);
    assert!(matches!(
        Snapshot::decode(manifest.as_bytes()),
        Err(DecodeError::Malformed(_))
    ));
    let part = text().replacen("\"profiles\":{", "\"routes/00\":{", 1);
    assert!(matches!(
        Snapshot::decode(part.as_bytes()),
        Err(DecodeError::Malformed(_))
    ));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for open in ["[", "{\"a\":", "{\"parts\":{\"routes/00\":"] {
        let deep = open.repeat(200_000);
        assert!(Snapshot::decode(deep.as_bytes()).is_err());
    }
    // In a field that is ignored it is skipped; in a part it meets the type or the limit on depth.
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let ignored = text().replacen(
        "\"requires\":[]",
        &format!("\"extra\":{nested},\"requires\":[]"),
        1,
    );
    assert_eq!(
        Snapshot::decode(ignored.as_bytes()).unwrap().hash(),
        small().hash()
    );
    let in_part = Part::from_bytes(
        PartName::Profiles,
        format!("{{\"profiles\":{nested}}}").as_bytes(),
    );
    assert!(in_part.is_err());
}

#[test]
fn an_empty_document_is_a_snapshot_that_routes_nothing() {
    let empty = Snapshot::new(BTreeMap::new(), None);
    let read = Snapshot::decode(&empty.encode()).unwrap();
    assert!(read.is_empty());
    assert_eq!(Index::build(&read, None).unwrap().route_count(), 0);
}

#[test]
fn a_position_is_dominated_where_nothing_is_newer_and_something_older() {
    let at = |cluster: &str, versions: &[(&str, u64)]| Position {
        cluster_id: cluster.into(),
        resource_versions: versions
            .iter()
            .map(|(name, at)| ((*name).to_owned(), *at))
            .collect(),
    };
    let held = at("c", &[("routes", 5), ("services", 7)]);
    for (position, dominated) in [
        (held.clone(), false),
        (at("c", &[("routes", 4), ("services", 7)]), true),
        (at("c", &[("routes", 5), ("services", 8)]), false),
        (at("c", &[("routes", 4), ("services", 8)]), false), // neither is newer
        (at("c", &[("routes", 5)]), true),
        (at("c", &[("routes", 5), ("services", 7), ("secrets", 1)]), false),
        (at("other", &[("routes", 1), ("services", 1)]), false),
    ] {
        assert_eq!(position.is_dominated_by(&held), dominated, "{position:?}");
    }
}

#[test]
fn a_packed_part_serves_as_the_open_one_and_its_content_is_checked_when_it_is_read() {
    /// Packing that turns the bytes around.
    fn turned(bytes: &[u8], _length: usize) -> Vec<u8> {
        bytes.iter().rev().copied().collect()
    }
    let packed = |name: PartName, bytes: &[u8]| {
        let packed = turned(bytes, bytes.len()).into_boxed_slice();
        Part::packed(name, Hash::of(bytes), bytes.len(), packed, turned)
    };
    let open = small();
    let parts = open.parts().iter().map(|(name, part)| {
        let packed = packed(*name, &part.bytes()).unwrap();
        assert_eq!(packed.length(), part.bytes().len());
        (*name, Arc::new(packed))
    });
    let kept = Snapshot::new(parts.collect(), open.position().cloned());
    assert_eq!((kept.hash(), kept.encode()), (open.hash(), open.encode()));
    assert_eq!(kept.profiles(), open.profiles());
    let built = Index::build(&kept, None).unwrap();
    assert_eq!(
        built.route_count(),
        Index::build(&open, None).unwrap().route_count()
    );

    let name = PartName::Routes(7);
    let nonsense = packed(name, br#"{"rules":7,"tables":[]}"#).unwrap();
    let nonsense = Snapshot::new(BTreeMap::from([(name, Arc::new(nonsense))]), None);
    let error = Index::build(&nonsense, Some(&built)).unwrap_err();
    assert_eq!((error.part.as_str(), error.at.as_str()), ("routes/07", "rules"));
    assert!(packed(PartName::Profiles, b"nonsense").is_err());
}
