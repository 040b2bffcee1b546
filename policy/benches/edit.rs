//! One edit among many routes, from the changed object in memory to the index that a router would publish.
//!
//! `cargo bench --workspace --bench edit`; `ROUTED_BENCH_ROUTES` sets the number of routes (100,000). Run as a test it
//! does everything once, with few routes.
#![allow(clippy::unwrap_used)] // a bench may fail

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use routed_policy::{Compiler, Object, Resources};
use routed_snapshot::Index;

/// How many routes the tables have.
fn routes() -> usize {
    let set = std::env::var("ROUTED_BENCH_ROUTES").ok();
    let default = if std::env::args().any(|arg| arg == "--bench") {
        100_000
    } else {
        1000
    };
    set.and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// How the routes are spread over hosts.
#[derive(Clone, Copy)]
enum Shape {
    ManyHosts,
    OneHost,
}

impl Shape {
    fn route(self, number: usize, path: usize) -> String {
        let (host, path) = match self {
            Shape::ManyHosts => (format!("h{number}"), format!("/p{path}")),
            Shape::OneHost => ("www".to_owned(), format!("/s{}/t{number}/p{path}", number % 64)),
        };
        format!(
            "apiVersion: routed.io/v2\nkind: EdgeRoute\nmetadata: {{name: r{number}}}\nspec:\n  hostnames: \
             [{host}.example.com]\n  rules: [{{matches: [{{path: {{value: {path}}}}}], backends: [{{backend: \
             web}}]}}]\n"
        )
    }

    /// The object that a route becomes once it is edited to another path.
    fn object(self, number: usize, path: usize) -> Object {
        let file = ("edit.yaml".to_owned(), self.route(number, path).into_bytes());
        Object::clone(Resources::from_files([file]).objects().next().unwrap())
    }

    fn table(self, routes: usize) -> Resources {
        let mut text = String::from(
            "apiVersion: routed.io/v1\nkind: Backend\nmetadata: {name: web}\nspec: {addresses: [{address: 10.0.0.1, \
             port: 80}]}\n",
        );
        for number in 0..routes {
            text.push_str("---\n");
            text.push_str(&self.route(number, 0));
        }
        Resources::from_files([("all.yaml".to_owned(), text.into_bytes())])
    }
}

fn edit(criterion: &mut Criterion, name: &str, shape: Shape) {
    let count = routes();
    let mut resources = shape.table(count);
    let mut compiler = Compiler::new();
    let mut index = Arc::new(Index::build(&compiler.compile(&resources).snapshot, None).unwrap());
    let mut edits = 0;
    let mut group = criterion.benchmark_group("edit");
    group.sample_size(10);
    group.bench_function(format!("{name}/{count}"), |bench| {
        bench.iter_batched(
            || {
                edits += 1;
                shape.object(edits * 7919 % count, edits)
            },
            |object| {
                resources.insert(object);
                let report = compiler.compile(&resources);
                let next = Arc::new(Index::build(&report.snapshot, Some(&index)).unwrap());
                assert_ne!(next.hash(), index.hash(), "the edit shows");
                index = black_box(next);
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn edits(criterion: &mut Criterion) {
    edit(criterion, "many-hosts", Shape::ManyHosts);
    edit(criterion, "one-host", Shape::OneHost);
}

criterion_group!(benches, edits);
criterion_main!(benches);
