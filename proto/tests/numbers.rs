//! Field numbers are fixed for ever: routers and control planes of different age talk to each other.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use prost::Message;
use routed_proto::{SnapshotChunk, WatchRequest};

/// Every field there is. A new one is added here; a line is never changed or taken away.
const FIELDS: &str = "\
Encoding ENCODING_IDENTITY = 0
Encoding ENCODING_ZSTD = 1
WatchRequest string client = 1
WatchRequest string profile = 2
WatchRequest bool accepts_parts = 3
WatchRequest repeated Encoding encodings = 4
WatchRequest bytes hash = 5
WatchRequest repeated PartRef parts = 6
WatchRequest Position position = 7
WatchRequest bool accepts_keys = 8
WatchRequest repeated KeyRef keys = 9
PartRef string name = 1
PartRef bytes hash = 2
PartRef uint64 length = 3
Position string cluster_id = 1
Position map<string, uint64> resource_versions = 2
SnapshotChunk string snapshot_json = 1
SnapshotChunk uint64 delivery = 2
SnapshotChunk uint64 sequence = 3
SnapshotChunk Begin begin = 4
SnapshotChunk repeated PartPiece parts = 5
SnapshotChunk bool complete = 6
SnapshotChunk KeyTable keys = 7
Begin bytes hash = 1
Begin bytes config_hash = 2
Begin bytes base_hash = 3
Begin repeated PartRef parts = 4
Begin repeated string removed = 5
Begin Position position = 6
Begin uint32 schema_version = 7
Begin repeated string requires = 8
Begin string stream_id = 9
PartPiece string name = 1
PartPiece Encoding encoding = 2
PartPiece bytes data = 3
PartPiece bool last = 4
KeyTable repeated KeyRef table = 1
KeyTable repeated KeyPair pairs = 2
KeyTable bool complete = 3
KeyRef string name = 1
KeyRef bytes fingerprint = 2
KeyPair string name = 1
KeyPair bytes fingerprint = 2
KeyPair bytes certificate_pem = 3
KeyPair bytes key_pem = 4
Acknowledgement uint64 sequence = 1
Acknowledgement string stream_id = 2
Acknowledgement string client = 3
Acknowledgement string profile = 4
Acknowledgement string source = 5
Acknowledgement bytes hash = 6
Acknowledgement bytes config_hash = 7
Acknowledgement Position position = 8
Acknowledgement Refused refused = 9
Refused bytes hash = 1
Refused bytes config_hash = 2
Refused Position position = 3
Refused string reason = 4
Refused repeated ObjectRef objects = 5
ObjectRef string kind = 1
ObjectRef string namespace = 2
ObjectRef string name = 3
ReportReply uint64 sequence = 1
";

#[test]
fn no_field_changes_its_number_type_or_name() {
    let mut found = String::new();
    let mut within = "";
    for line in include_str!("../snapshot.proto").lines().map(str::trim) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("message" | "enum") => within = words.next().unwrap(),
            Some("}") => within = "",
            Some("//" | "rpc") | None => {}
            Some(_) if !within.is_empty() => {
                found += &format!("{within} {}\n", line.trim_end_matches(';'));
            }
            Some(_) => {}
        }
    }
    assert_eq!(found, FIELDS);
}

/// What was sent before anything but the first fields existed.
#[test]
fn the_first_form_of_both_messages_is_what_it_was() {
    let request = WatchRequest {
        client: "edge".to_owned(),
        ..WatchRequest::default()
    };
    assert_eq!(request.encode_to_vec(), b"\x0a\x04edge");
    let chunk = SnapshotChunk::decode(&b"\x0a\x02{}"[..]).unwrap();
    let whole = SnapshotChunk {
        snapshot_json: "{}".to_owned(),
        ..SnapshotChunk::default()
    };
    assert_eq!(chunk, whole);
}

#[test]
fn a_private_key_is_not_shown_for_debugging() {
    let pair = routed_proto::KeyPair {
        name: "shop/site".to_owned(),
        key_pem: b"SECRET".to_vec().into(),
        ..routed_proto::KeyPair::default()
    };
    let table = routed_proto::KeyTable {
        pairs: vec![pair],
        ..routed_proto::KeyTable::default()
    };
    let shown = format!("{table:?}");
    assert!(
        shown.contains("shop/site") && !shown.contains("SECRET") && !shown.contains("83, 69"),
        "{shown}"
    );
}
