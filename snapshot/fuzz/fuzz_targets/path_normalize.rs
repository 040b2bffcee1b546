//! Paths under every setting: the one form stays as it is and holds no dot segment.
#![no_main]

libfuzzer_sys::fuzz_target!(|path: &str| routed_snapshot::fuzz::path(path));
