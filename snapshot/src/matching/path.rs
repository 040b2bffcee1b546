//! Path conditions, and the search among many of them.
//!
//! # Why hashes and not a radix tree
//! A prefix matches whole elements, so the stored prefixes that can match a path are the path itself, what stands
//! before each of its slashes, and `/`: as many as the path has elements. Each is one hash lookup; the cost is flat
//! in the number of prefixes, and a set of the stored lengths saves most of the lookups (and bounds what a path of
//! thousands of slashes can cost). A radix tree visits the same places with a pointer chase each, and costs several
//! times the memory per route.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::Match;
use super::pattern::Pattern;

/// A condition on the path. Short paths stand in place: a pointer to each would be one more cache miss per decision.
#[derive(Debug)]
pub(crate) enum PathCondition {
    Exact(CompactString),
    Prefix(CompactString),
    Regex(Arc<Pattern>),
}

impl PathCondition {
    /// Whether a path fulfils it.
    pub(crate) fn holds(&self, path: &str) -> bool {
        match self {
            PathCondition::Exact(exact) => exact == path,
            PathCondition::Prefix(prefix) => prefix_holds(prefix, path),
            PathCondition::Regex(pattern) => pattern.matches(path.as_bytes()),
        }
    }

    /// As written.
    pub(crate) fn text(&self) -> &str {
        match self {
            PathCondition::Exact(text) | PathCondition::Prefix(text) => text,
            PathCondition::Regex(pattern) => pattern.text(),
        }
    }

    /// The prefix, where it is one.
    pub(crate) fn prefix(&self) -> Option<&str> {
        match self {
            PathCondition::Prefix(prefix) => Some(prefix),
            _ => None,
        }
    }
}

/// Element by element: `/foo` holds for `/foo`, `/foo/` and `/foo/x`, not for `/foobar`; `/` holds for every path.
fn prefix_holds(prefix: &str, path: &str) -> bool {
    if prefix == "/" {
        return path.starts_with('/');
    }
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The matches of a long table by their path. Positions are those in the table: the lowest that matches wins,
/// whatever the order of the table is.
#[derive(Debug)]
pub(crate) struct PathIndex {
    exact: Groups,
    prefix: Groups,
    /// Positions of matches with a regular expression, ascending.
    regex: Box<[u32]>,
    /// Lengths of the stored prefixes, one bit each.
    lengths: Box<[u64]>,
}

/// Positions by path text.
#[derive(Debug, Default)]
struct Groups {
    /// Ranges in `positions`.
    ranges: HashTable<(u32, u32)>,
    /// Positions of equal paths side by side, ascending within.
    positions: Box<[u32]>,
}

impl PathIndex {
    pub(crate) fn build(matches: &[Match]) -> PathIndex {
        let mut exact: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let mut prefix: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let mut regex = Vec::new();
        for (at, entry) in matches.iter().enumerate() {
            match &entry.path {
                PathCondition::Exact(path) => exact.entry(path).or_default().push(at as u32),
                PathCondition::Prefix(path) => prefix.entry(path).or_default().push(at as u32),
                PathCondition::Regex(_) => regex.push(at as u32),
            }
        }
        let longest = prefix.keys().map(|path| path.len()).max();
        let mut lengths = vec![0; longest.map_or(0, |longest| longest / 64 + 1)];
        for path in prefix.keys() {
            lengths[path.len() / 64] |= 1 << (path.len() % 64);
        }
        PathIndex {
            exact: Groups::build(&exact),
            prefix: Groups::build(&prefix),
            regex: regex.into_boxed_slice(),
            lengths: lengths.into_boxed_slice(),
        }
    }

    /// The lowest position whose path condition and `holds` are fulfilled.
    pub(crate) fn find(&self, matches: &[Match], path: &str, holds: impl Fn(&Match) -> bool) -> Option<u32> {
        let mut best = u32::MAX;
        let mut look_at = |positions: &[u32], test: &dyn Fn(&Match) -> bool| {
            let better = positions.iter().take_while(|at| **at < best);
            if let Some(at) = better.copied().find(|at| test(&matches[*at as usize])) {
                best = at;
            }
        };
        look_at(self.exact.get(matches, path.as_bytes()), &holds);
        self.visit_prefixes(path.as_bytes(), |prefix| {
            look_at(self.prefix.get(matches, prefix), &holds);
        });
        // The dearest come last, and only those that would win.
        look_at(&self.regex, &|entry| entry.path.holds(path) && holds(entry));
        (best != u32::MAX).then_some(best)
    }

    /// Visits the prefixes of a path whose length is stored, the longest first.
    fn visit_prefixes(&self, path: &[u8], mut visit: impl FnMut(&[u8])) {
        let stored = |length: usize| {
            let word = self.lengths.get(length / 64);
            word.is_some_and(|word| word & (1 << (length % 64)) != 0)
        };
        if stored(path.len()) && path != b"/" {
            visit(path);
        }
        let longest = path.len().min(self.lengths.len() * 64);
        for end in (0..longest).rev() {
            if path[end] == b'/' && stored(end) {
                visit(&path[..end]);
            }
        }
        if path.first() == Some(&b'/') {
            visit(b"/");
        }
    }
}

impl Groups {
    fn build(paths: &BTreeMap<&str, Vec<u32>>) -> Groups {
        let count = paths.values().map(Vec::len).sum();
        let mut positions = Vec::with_capacity(count);
        let mut ranges = HashTable::with_capacity(paths.len());
        for (path, own) in paths {
            let range = (positions.len() as u32, own.len() as u32);
            positions.extend_from_slice(own);
            // Never grows: the capacity is there.
            ranges.insert_unique(xxh3_64(path.as_bytes()), range, |_| 0);
        }
        Groups {
            ranges,
            positions: positions.into_boxed_slice(),
        }
    }

    fn get(&self, matches: &[Match], path: &[u8]) -> &[u32] {
        if self.positions.is_empty() {
            return &[];
        }
        let own = |range: &(u32, u32)| &self.positions[range.0 as usize..][..range.1 as usize];
        let is_path = |range: &(u32, u32)| {
            let first = own(range).first();
            first.is_some_and(|at| matches[*at as usize].path.text().as_bytes() == path)
        };
        self.ranges.find(xxh3_64(path), is_path).map_or(&[], own)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    #[test]
    fn a_prefix_matches_whole_elements() {
        let prefix = PathCondition::Prefix("/foo".into());
        for (path, holds) in [
            ("/foo", true),
            ("/foo/", true),
            ("/foo/x", true),
            ("/foo//", true),
            ("/foobar", false),
            ("/fo", false),
            ("/Foo", false),
            ("/", false),
            ("*", false),
        ] {
            assert_eq!(prefix.holds(path), holds, "{path}");
        }
        let root = PathCondition::Prefix("/".into());
        assert!(root.holds("/") && root.holds("//") && root.holds("/x"));
        assert!(!root.holds("*"), "the server as a whole has no path");
    }

    #[test]
    fn an_exact_path_is_compared_octet_by_octet() {
        let exact = PathCondition::Exact("/foo".into());
        assert!(exact.holds("/foo"));
        assert!(
            ["/foo/", "/Foo", "/fo", "/%66oo"]
                .iter()
                .all(|path| !exact.holds(path))
        );
    }

    fn long_table(paths: impl IntoIterator<Item = PathCondition>) -> Vec<Match> {
        let each = paths.into_iter().map(|path| Match {
            path,
            conditions: None,
            rule: 0,
            index: 0,
        });
        each.collect()
    }

    #[test]
    fn the_lowest_position_wins_whatever_its_kind() {
        let regex = || PathCondition::Regex(Arc::new(Pattern::compile("/a.*").unwrap()));
        let exact = || PathCondition::Exact("/a/b".into());
        let prefix = |text: &str| PathCondition::Prefix(text.into());
        let tables = [
            long_table([prefix("/x"), exact(), regex(), prefix("/a")]),
            long_table([prefix("/x"), regex(), exact(), prefix("/a")]),
            long_table([prefix("/x"), prefix("/a"), exact(), regex()]),
            long_table([prefix("/x"), prefix("/"), prefix("/a"), exact()]),
        ];
        for table in &tables {
            assert_eq!(
                PathIndex::build(table).find(table, "/a/b", |_| true),
                Some(1),
                "{table:?}"
            );
        }
    }

    #[test]
    fn a_path_of_slashes_looks_up_stored_lengths_only() {
        let table = long_table([
            PathCondition::Prefix("/a".into()),
            PathCondition::Prefix("/".into()),
        ]);
        let index = PathIndex::build(&table);
        let mut visited = 0;
        index.visit_prefixes("/".repeat(10_000).as_bytes(), |_| visited += 1);
        assert!(visited <= 3, "{visited}");
    }
}
