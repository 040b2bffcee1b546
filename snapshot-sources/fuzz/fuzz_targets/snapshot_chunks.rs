//! Chunks of deliveries, harmed on their way or made up.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| routed_sources::fuzz::chunks(input));
