//! See `longarm_fuzz::ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::ring::run(bytes));
