//! Entry points of the fuzz targets: anything may come in, nothing may panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use routed_proto::{SnapshotChunk, WatchRequest};
use routed_snapshot::{Hash, Part, PartName, Position, Snapshot};

use crate::assemble::deliver::Receiver;
use crate::assemble::{Assembler, Delivered};

/// Chunks of two honest deliveries, of which the input's first half says what becomes of them on their way: lost,
/// doubled, exchanged, damaged. The second half is read as chunks that someone made up. Whatever is put together
/// must be one of the two snapshots, or have the hash that it was promised with.
pub fn chunks(input: &[u8]) {
    let (first, second) = (snapshot(b"a", 3), snapshot(b"b", 5));
    let (damage, made_up) = input.split_at(input.len() / 2);
    let mut sender = Receiver::of(&WatchRequest {
        encodings: vec![i32::from(input.first().is_some_and(|byte| byte % 2 == 0))],
        ..WatchRequest::default()
    });
    let mut honest = sender.deliver(&first, "s");
    honest.extend(sender.deliver(&second, "s"));
    harm(&mut honest, damage);
    let mut assembler = Assembler::default();
    for chunk in honest {
        match assembler.push(chunk) {
            Ok(Some(Delivered { snapshot, .. })) => {
                assert!([first.hash(), second.hash()].contains(&snapshot.hash()));
            }
            Ok(None) => {}
            Err(_) => break,
        }
    }
    assembler.begin_stream();
    let mut rest = made_up;
    while let Ok(chunk) = SnapshotChunk::decode_length_delimited(&mut rest) {
        let promised = chunk.begin.as_ref().map(|begin| begin.hash.clone());
        match assembler.push(chunk) {
            Ok(Some(Delivered { snapshot, .. })) => {
                for part in snapshot.parts().values() {
                    assert_eq!(Hash::of(&part.bytes()), part.hash());
                }
                if let Some(promised) = promised {
                    assert_eq!(promised[..], snapshot.hash().0[..]);
                }
            }
            Ok(None) => {}
            Err(_) => break,
        }
        if rest.is_empty() {
            break;
        }
    }
}

/// Each three bytes do one harm: what, to which chunk, and where.
fn harm(chunks: &mut Vec<SnapshotChunk>, damage: &[u8]) {
    for step in damage.chunks_exact(3) {
        let count = chunks.len();
        if count == 0 {
            return;
        }
        let (at, byte) = (usize::from(step[1]) % count, usize::from(step[2]));
        match step[0] % 5 {
            0 => drop(chunks.remove(at)),
            1 => chunks.insert(byte % count, chunks[at].clone()),
            2 => chunks.swap(at, byte % count),
            3 => {
                let mut bytes = chunks[at].encode_to_vec();
                let place = byte * 7 % bytes.len().max(1);
                if let Some(target) = bytes.get_mut(place) {
                    *target ^= 1 << (byte % 8);
                }
                if let Ok(damaged) = SnapshotChunk::decode(&bytes[..]) {
                    chunks[at] = damaged;
                }
            }
            _ => {
                if let Some(piece) = chunks[at].parts.first_mut() {
                    let end = byte.min(piece.data.len());
                    piece.data.truncate(end);
                }
            }
        }
    }
}

/// A snapshot whose parts are text, some of it long.
fn snapshot(seed: &[u8], count: u8) -> Snapshot {
    let parts = (0..count).filter_map(|number| {
        let bytes = seed.repeat(usize::from(number) * 1000 + 1);
        let (name, hash) = (PartName::Routes(number), Hash::of(&bytes));
        let unpack = |packed: &[u8], _length: usize| packed.to_vec();
        let part = Part::packed(name, hash, bytes.len(), bytes.into_boxed_slice(), unpack).ok()?;
        Some((name, Arc::new(part)))
    });
    let position = Position {
        cluster_id: "c".to_owned(),
        resource_versions: BTreeMap::from([("edgeroutes".to_owned(), u64::from(count))]),
    };
    Snapshot::new(parts.collect(), Some(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a fuzzer: inputs that do each harm, and made up chunks of plausible bytes.
    #[test]
    fn harmed_and_made_up_chunks_do_not_panic() {
        let mut state: u64 = 11;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        chunks(&[]);
        for _ in 0..3_000 {
            let length = usize::from(next() % 60);
            let input: Vec<u8> = (0..length).map(|_| next()).collect();
            chunks(&input);
        }
        let mut sender = Receiver::of(&WatchRequest::default());
        let mut made_up = Vec::new();
        for chunk in sender.deliver(&snapshot(b"c", 2), "") {
            chunk.encode_length_delimited(&mut made_up).unwrap();
        }
        for at in 0..made_up.len() {
            let mut input = vec![0; made_up.len()];
            input.extend_from_slice(&made_up);
            let place = made_up.len() + at;
            input[place] ^= 1 << (at % 8);
            chunks(&input);
        }
    }
}
