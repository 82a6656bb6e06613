//! The clock bits of eviction: which hashes were used lately.

use std::sync::atomic::{AtomicU8, Ordering};

use longarm_memory::Hash;

/// The fewest and most bits (a byte each): neither a tiny nor a huge expectation gives a useful number.
const MARKS_MIN: u64 = 1 << 16;
const MARKS_MAX: u64 = 1 << 24;

/// The clock bits.
pub struct ClockBits {
    bits: Box<[AtomicU8]>,
}

impl ClockBits {
    /// Clear bits for about so many items.
    pub fn new(expected_items: u64) -> ClockBits {
        let count = expected_items.clamp(MARKS_MIN, MARKS_MAX).next_power_of_two();
        ClockBits { bits: (0..count).map(|_| AtomicU8::new(0)).collect() }
    }

    fn bit(&self, hash: Hash) -> &AtomicU8 {
        // The middle bits: the high ones choose the pair, the low ones the fingerprint.
        &self.bits[(hash.0 >> 8) as usize & (self.bits.len() - 1)]
    }

    /// Notes that a key of this hash was used.
    #[inline]
    pub fn set(&self, hash: Hash) {
        let bit = self.bit(hash);
        // Relaxed: a hint. Stored only if clear, so that hot keys do not pull the line from core to core.
        if bit.load(Ordering::Relaxed) == 0 {
            bit.store(1, Ordering::Relaxed);
        }
    }

    /// Clears the bit; says whether it was set.
    pub fn take(&self, hash: Hash) -> bool {
        // Relaxed: a hint.
        self.bit(hash).swap(0, Ordering::Relaxed) != 0
    }
}
