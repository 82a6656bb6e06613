//! Values that prove themselves: a reader can tell whether the bytes it got were ever written for that key.
//!
//! All values are windows of one pseudo-random pattern. The window of a record is fixed by its number, up to
//! a few variants, so that an update changes the bytes. Making a value therefore costs nothing (no copy, no
//! generator in the timed loop), and checking one is a comparison.

use longarm_base::random::mix64;
use longarm_workload::random::stream;

/// Different values of one record.
pub const VARIANTS: u64 = 4;
/// Windows that records are spread over: a value of another record passes a check once in so many times.
const WINDOWS: u64 = 1024;
const WORD: usize = 8;

/// The values of one run, all of the same size.
pub struct Values {
    pattern: Vec<u8>,
    bytes: usize,
}

impl Values {
    /// Values of `bytes` bytes under `seed`.
    pub fn new(bytes: usize, seed: u64) -> Values {
        let words = (WINDOWS * VARIANTS) as usize + bytes.div_ceil(WORD);
        let mut random = stream(seed, 0x76616C756573);
        let pattern = (0..words).flat_map(|_| random.draw().to_le_bytes()).collect();
        Values { pattern, bytes }
    }

    /// Size of each value.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Value number `variant` (any number; taken modulo [`VARIANTS`]) of `record`.
    #[inline]
    pub fn value(&self, record: u64, variant: u64) -> &[u8] {
        let window = (mix64(record) % WINDOWS) * VARIANTS + variant % VARIANTS;
        let at = window as usize * WORD;
        &self.pattern[at..at + self.bytes]
    }

    /// Whether `found` is a value that was written for `record`.
    pub fn is_valid(&self, record: u64, found: &[u8]) -> bool {
        found.len() == self.bytes && (0..VARIANTS).any(|variant| self.value(record, variant) == found)
    }
}
