//! Hosts: the tables that may serve a request's host, the most specific first.

use xxhash_rust::xxh3::xxh3_64;

use crate::index::{HostTable, Index, RouteTable};

/// Longest host that a table may have (a DNS name has at most 253 bytes).
pub(crate) const MAX_PATTERN_BYTES: usize = 255;

/// A set of lengths up to [`MAX_PATTERN_BYTES`]: only these are looked up, however many labels a host has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lengths([u64; 4]);

impl Lengths {
    pub(crate) fn add(&mut self, length: usize) {
        if let Some(word) = self.0.get_mut(length / 64) {
            *word |= 1 << (length % 64);
        }
    }

    pub(crate) fn join(&mut self, other: &Lengths) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn contains(&self, length: usize) -> bool {
        self.0
            .get(length / 64)
            .is_some_and(|word| word & (1 << (length % 64)) != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

/// Visits the tables of the exact host, of the wildcards from the longest to the shortest, and of `*`, until `visit`
/// gives an answer. A wildcard needs at least one label in front: `*.example.com` does not serve `example.com`.
pub(crate) fn visit_tables<'i, T>(
    index: &'i Index,
    host: &str,
    mut visit: impl FnMut(&'i RouteTable, &'i [HostTable]) -> Option<T>,
) -> Option<T> {
    let mut look_up = |pattern: &[u8]| {
        let hash = xxh3_64(pattern);
        let table = index.route_table(hash)?;
        visit(table, table.host(hash, pattern))
    };
    let host = host.as_bytes();
    look_up(host)
        .or_else(|| visit_wildcards(index.wildcards(), host, &mut look_up))
        .or_else(|| look_up(b"*"))
}

/// Visits the wildcards of a host. The patterns are written one over the other into one buffer: before each dot
/// stands, in place of the label's last byte, the `*`.
fn visit_wildcards<T>(
    lengths: &Lengths,
    host: &[u8],
    mut look_up: impl FnMut(&[u8]) -> Option<T>,
) -> Option<T> {
    if lengths.is_empty() {
        return None;
    }
    // Of a longer host only the end can be the end of a pattern.
    let end = &host[host.len().saturating_sub(MAX_PATTERN_BYTES)..];
    let mut buffer = [0; MAX_PATTERN_BYTES];
    let buffer = &mut buffer[..end.len()];
    buffer.copy_from_slice(end);
    for dot in 1..buffer.len() {
        if buffer[dot] == b'.' && lengths.contains(buffer.len() - dot + 1) {
            buffer[dot - 1] = b'*';
            let found = look_up(&buffer[dot - 1..]);
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(host: &str, patterns: &[&str]) -> Vec<String> {
        let mut lengths = Lengths::default();
        patterns.iter().for_each(|pattern| lengths.add(pattern.len()));
        let mut seen = Vec::new();
        visit_wildcards::<()>(&lengths, host.as_bytes(), |pattern| {
            let pattern = String::from_utf8_lossy(pattern).into_owned();
            if patterns.contains(&pattern.as_str()) {
                seen.push(pattern);
            }
            None
        });
        seen
    }

    #[test]
    fn wildcards_are_visited_from_the_longest_to_the_shortest() {
        let patterns = ["*.test", "*.example.test", "*.a.example.test", "*.b.test"];
        assert_eq!(
            visited("x.a.example.test", &patterns),
            ["*.a.example.test", "*.example.test", "*.test"]
        );
        assert_eq!(
            visited("y.x.example.test", &patterns),
            ["*.example.test", "*.test"]
        );
    }

    #[test]
    fn a_wildcard_needs_a_label_in_front() {
        assert!(visited("example.test", &["*.example.test"]).is_empty());
        assert!(visited(".example.test", &["*.example.test"]).is_empty());
        assert!(visited("notexample.test", &["*.example.test"]).is_empty());
    }

    #[test]
    fn a_host_longer_than_any_name_still_ends_in_its_suffix() {
        let host = format!("{}.example.test", "a.".repeat(5_000));
        assert_eq!(visited(&host, &["*.example.test"]), ["*.example.test"]);
    }
}
