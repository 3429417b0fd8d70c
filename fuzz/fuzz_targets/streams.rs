//! Fuzzes one reader, which is in `entry.rs`.
#![no_main]

#[path = "../entry.rs"]
#[allow(dead_code, reason = "each target drives one of them")]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::stream(bytes));
