//! See `longarm_fuzz::entry_reader`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::entry_reader::run(bytes));
