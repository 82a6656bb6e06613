//! See `longarm_fuzz::scan_messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::scan_messages::run(bytes));
