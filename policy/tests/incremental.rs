//! What the compiler remembers is of no meaning: after any edits its result is the one from zero, byte for byte, and
//! so it is in any order of the objects.

use proptest::prelude::*;
use routed_policy::{Compiler, Report, Resources, compile};

/// One file of the folder: what it holds is drawn from a few kinds that refer to one another.
fn document(kind: u8, name: u8, variant: u8) -> String {
    let other = (name + variant) % 3;
    match kind {
        0 => format!(
            "apiVersion: routed.io/v2\nkind: EdgeRoute\nmetadata: {{name: r{name}}}\nspec:\n  hostnames: [h{}.example.com, h{other}.example.com]\n  rules:\n  - matches: [{{path: {{value: /p{}}}}}]\n    backends: [{{service: b{other}, port: 80}}, {{backend: b{name}}}]\n",
            variant % 3,
            variant % 2
        ),
        1 if variant == 3 => {
            format!(
                "apiVersion: routed.io/v1\nkind: Backend\nmetadata: {{name: b{name}}}\nspec: {{dns: {{name: x}}}}\n"
            )
        }
        1 if variant == 2 => {
            format!("apiVersion: routed.io/v1\nkind: Backend\nmetadata: {{name: b{name}}}\nspec: {{x: 1}}\n")
        }
        1 => format!(
            "apiVersion: routed.io/v1\nkind: Backend\nmetadata: {{name: b{name}}}\nspec: {{addresses: [{{address: 10.0.0.{variant}, port: 80}}]}}\n"
        ),
        2 => format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: b{name}}}\nspec: {{ports: [{{port: {}}}]}}\n",
            80 + variant % 2
        ),
        3 => format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: e{name}, labels: {{kubernetes.io/service-name: b{other}}}}}\naddressType: IPv4\nendpoints: [{{addresses: [10.1.0.{variant}]}}]\nports: [{{port: 8080}}]\n"
        ),
        4 => format!(
            "apiVersion: routed.io/v1\nkind: RouterProfile\nmetadata: {{name: default}}\nspec:\n  listeners: [{{name: l{name}, port: 80, protocol: HTTP}}]\n  timeouts: {{idle: {variant}s}}\n  allowedRoutes: {{namespaces: {{from: Selector, selector: {{matchLabels: {{team: t{}}}}}}}}}\n",
            variant % 2
        ),
        5 => format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: default, labels: {{team: t{}}}}}\n",
            variant % 2
        ),
        _ if variant > 1 => {
            "apiVersion: routed.io/v1\nkind: RouterProfile\nmetadata: {name: default}\nspec: {nonsense: 1}\n"
                .to_owned()
        }
        _ => "kind: [broken\n".to_owned(),
    }
}

fn same(a: &Report, b: &Report) {
    assert_eq!(a.snapshot.encode(), b.snapshot.encode());
    assert_eq!(a.diags, b.diags);
    assert_eq!(a.keys, b.keys);
}

fn files(table: &std::collections::BTreeMap<(u8, u8), u8>) -> Vec<(String, Vec<u8>)> {
    let file = |((kind, name), variant): (&(u8, u8), &u8)| {
        (
            format!("{kind}-{name}.yaml"),
            document(*kind, *name, *variant).into_bytes(),
        )
    };
    table.iter().map(file).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_edits_the_result_is_the_one_from_zero(
        edits in prop::collection::vec((0u8..7, 0u8..3, prop::option::of(0u8..4)), 1..40),
    ) {
        let mut table = std::collections::BTreeMap::new();
        let mut resources = Resources::default();
        let mut compiler = Compiler::new();
        for (kind, name, variant) in edits {
            match variant {
                Some(variant) => table.insert((kind, name), variant),
                None => table.remove(&(kind, name)),
            };
            resources.reload(files(&table));
            let kept = compiler.compile(&resources);
            same(&kept, &compile(&Resources::from_files(files(&table))));
        }
    }

    #[test]
    fn the_order_of_objects_is_of_no_meaning(
        objects in prop::collection::btree_map((0u8..6, 0u8..3), 0u8..4, 1..15),
        shuffle in any::<prop::sample::Index>(),
    ) {
        // Which of two definitions counts does depend on their files: here each object has one.
        // What can't be read is no object that could be inserted.
        let unread = |kind: u8, variant: u8| kind == 1 && variant == 2;
        let objects = objects.into_iter().filter(|((kind, name), variant)| {
            (*kind < 4 || *name == 0) && !unread(*kind, *variant)
        }).collect();
        let mut given = files(&objects);
        let from_zero = compile(&Resources::from_files(given.clone()));
        let by = shuffle.index(given.len().max(1));
        if by < given.len() {
            given.rotate_left(by);
        }
        let resources = Resources::from_files(given.clone());
        same(&compile(&resources), &from_zero);
        // Inserted one by one, in the rotated order.
        let mut one_by_one = Resources::default();
        let mut compiler = Compiler::new();
        for (name, text) in given {
            for object in Resources::from_files([(name, text)]).objects() {
                one_by_one.insert(routed_policy::Object::clone(object));
            }
            compiler.compile(&one_by_one);
        }
        prop_assert_eq!(compiler.compile(&one_by_one).snapshot.encode(), from_zero.snapshot.encode());
    }
}
