//! See `longarm_fuzz::handshake`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::handshake::run(bytes));
