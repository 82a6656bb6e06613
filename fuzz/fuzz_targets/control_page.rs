//! See `longarm_fuzz::control_page`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::control_page::run(bytes));
