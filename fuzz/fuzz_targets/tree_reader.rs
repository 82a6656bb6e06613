//! See `longarm_fuzz::tree_reader`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::tree_reader::run(bytes));
