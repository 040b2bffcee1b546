//! Request heads, as lines: method, target, then header fields.
#![no_main]

libfuzzer_sys::fuzz_target!(|head: &[u8]| routed::parse::fuzz::head(head));
