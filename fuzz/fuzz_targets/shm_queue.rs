//! See `longarm_fuzz::shm_queue`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longarm_fuzz::shm_queue::run(bytes));
