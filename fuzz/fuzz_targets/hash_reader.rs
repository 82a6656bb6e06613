//! See `longarm_fuzz::hash_reader`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::hash_reader::run(bytes));
