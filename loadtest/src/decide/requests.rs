//! The requests that are decided: random, made beforehand, equal for equal seeds.

use std::hint::black_box;

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use routed_snapshot::index::ListenerId;
use routed_snapshot::{Facts, Header};

use super::shape::Table;
use crate::args::Shape;

/// How many there are: enough that the caches don't hold their routes, few enough that they hold the requests.
pub(crate) const COUNT: usize = 4096;

/// One in this many meets no route.
const MISS_ONE_IN: u32 = 8;

/// What a browser sends beside what is matched.
const HEADERS: [Header<'static>; 6] = [
    header(
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    ),
    header(
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    ),
    header("accept-language", "en-US,en;q=0.5"),
    header("accept-encoding", "gzip, deflate, br"),
    header("cookie", "session=0f3c9a7b5d1e4862; theme=dark"),
    header("x-request-id", "5f1d7a52-8c0e-4c38-9b7e-2a1f0d9c3e64"),
];

const fn header(name: &'static str, value: &'static str) -> Header<'static> {
    Header {
        name,
        value: value.as_bytes(),
    }
}

/// What of a request differs.
#[derive(Debug)]
pub(crate) struct Request {
    host: String,
    path: String,
    /// The number that chooses among weighted shares.
    pub(crate) draw: u64,
    /// Whether a route is there for it.
    pub(crate) hit: bool,
}

impl Request {
    /// Reads what differs, as a parser has just done when a decision is made: what the decision has to fetch is the
    /// table, not the request.
    pub(crate) fn touch(&self) {
        let bytes = self.host.bytes().chain(self.path.bytes());
        black_box(bytes.fold(0_u8, u8::wrapping_add));
    }

    /// The request as a decision sees it.
    pub(crate) fn facts(&self, listener: ListenerId) -> Facts<'_> {
        Facts {
            listener,
            https: false,
            method: "GET",
            host: &self.host,
            path: &self.path,
            query: Some("page=2&sort=price"),
            headers: &HEADERS,
        }
    }
}

/// [`COUNT`] requests for a table.
pub(crate) fn random(table: &Table, seed: u64) -> Vec<Request> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..COUNT).map(|_| request(table, &mut random)).collect()
}

fn request(table: &Table, random: &mut SmallRng) -> Request {
    let route = random.random_range(0..table.routes);
    let hit = random.random_range(0..MISS_ONE_IN) != 0;
    let (host, prefix) = (table.host(route), table.prefix(route));
    let (host, path) = match (hit, table.shape) {
        (true, _) => (
            host,
            format!(
                "{prefix}{}",
                ["", "/", "/cart/items/17"][random.random_range(0..3)]
            ),
        ),
        // A stranger's host; a path that leaves the table at its last element.
        (false, Shape::ManyHosts) => (format!("h{route}.example.net"), prefix),
        (false, Shape::OneHost) => (host, format!("/s{}/none{route}/u", route % 64)),
    };
    Request {
        host,
        path,
        draw: random.next_u64(),
        hit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_requests() {
        let table = Table {
            routes: 100,
            shape: Shape::OneHost,
        };
        let paths = |seed| {
            random(&table, seed)
                .into_iter()
                .map(|request| request.path)
                .collect::<Vec<_>>()
        };
        assert_eq!(paths(3), paths(3));
        assert_ne!(paths(3), paths(4));
    }
}
