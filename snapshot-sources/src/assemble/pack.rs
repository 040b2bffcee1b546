//! Parts as zstd frames, on the wire and in memory.

use zstd::zstd_safe::compress_bound;

/// Fast, and already a tenth of the text.
const LEVEL: i32 = 1;

/// Packs a part's bytes. `None` where the library has no memory.
pub(crate) fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    zstd::bulk::compress(bytes, LEVEL).ok()
}

/// The bytes of a frame that must have exactly this length; `None` where it is no such frame. Never writes more.
pub(super) fn unpack_exactly(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let bytes = zstd::bulk::decompress(packed, length).ok()?;
    (bytes.len() == length).then_some(bytes)
}

/// [`routed_snapshot::snapshot::Unpack`]: what can't be unpacked gives nothing, which is then refused as content.
pub(super) fn unpack(packed: &[u8], length: usize) -> Vec<u8> {
    unpack_exactly(packed, length).unwrap_or_default()
}

/// Most bytes that a frame of a part of this length needs.
pub(super) fn bound(length: usize) -> usize {
    compress_bound(length)
}
