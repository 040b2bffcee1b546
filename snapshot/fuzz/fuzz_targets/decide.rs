//! A small table and a request, both made of the input.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| routed_snapshot::fuzz::request(input));
