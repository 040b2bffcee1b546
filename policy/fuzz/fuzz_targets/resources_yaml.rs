//! Any bytes as a file of resources: read and compiled without a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let resources = routed_policy::Resources::from_files([("a.yaml".to_owned(), data.to_vec())]);
    routed_policy::compile(&resources);
});
