//! Documents from the network or a file: decoded, indexed, decided on.
#![no_main]

libfuzzer_sys::fuzz_target!(|document: &[u8]| routed_snapshot::fuzz::document(document));
