//! The cost of one edit among many routes. Run with `cargo test --release -- --ignored --nocapture`.
#![allow(clippy::print_stdout, reason = "a measurement")]

use std::time::Instant;

use routed_policy::{Compiler, Resources};

fn route(number: usize, path: usize) -> String {
    format!(
        "apiVersion: routed.io/v2\nkind: EdgeRoute\nmetadata: {{name: r{number}}}\nspec:\n  hostnames: [h{number}.example.com]\n  rules: [{{matches: [{{path: {{value: /p{path}}}}}], backends: [{{backend: web}}]}}]\n"
    )
}

#[test]
#[ignore = "a measurement"]
fn one_edit_among_many_hosts() {
    let backend = "apiVersion: routed.io/v1\nkind: Backend\nmetadata: {name: web}\nspec: {addresses: [{address: 10.0.0.1, port: 80}]}\n";
    let mut text = String::from(backend);
    for number in 0..100_000 {
        text.push_str("---\n");
        text.push_str(&route(number, 0));
    }
    let start = Instant::now();
    let mut resources = Resources::from_files([("all.yaml".to_owned(), text.into_bytes())]);
    println!("read: {:?}", start.elapsed());
    let mut compiler = Compiler::new();
    let start = Instant::now();
    compiler.compile(&resources);
    println!("from zero: {:?}", start.elapsed());
    for edit in 1..=5 {
        let one = Resources::from_files([("one.yaml".to_owned(), route(edit * 7919, edit).into_bytes())]);
        for object in one.objects() {
            resources.insert(routed_policy::Object::clone(object));
        }
        let start = Instant::now();
        let report = compiler.compile(&resources);
        println!("one edit: {:?} {}", start.elapsed(), report.snapshot.hash());
    }
}
