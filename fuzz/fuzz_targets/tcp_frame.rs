//! See `longarm_fuzz::tcp_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::tcp_frame::run(bytes));
