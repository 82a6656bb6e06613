//! Memory that checks every access: the structures' traits over a vector of words.

use std::sync::atomic::{AtomicU64, Ordering};

use longarm_memory::{OwnedWords, Words};

/// Words of one thread. An access outside it panics with its offset.
pub struct Flat(Vec<AtomicU64>);

impl Flat {
    /// Zeroed memory.
    pub fn new(bytes: u64) -> Flat {
        Flat((0..bytes / 8).map(|_| AtomicU64::new(0)).collect())
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.bytes(), "word {at:#x} of {:#x} bytes", self.bytes());
        &self.0[(at / 8) as usize]
    }

    /// Fills the memory with `bytes`, again and again, or with zeroes if there are none.
    pub fn fill(&self, bytes: &[u8]) {
        let mut source = bytes.iter().copied().cycle();
        for word in &self.0 {
            let new = std::array::from_fn(|_| source.next().unwrap_or(0));
            word.store(u64::from_le_bytes(new), Ordering::Relaxed);
        }
    }

    /// A copy of a range.
    pub fn copy(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.copy_out(at, &mut bytes);
        bytes
    }
}

impl Words for Flat {
    fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    fn load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        let (from, words) = ((at / 8) as usize, into.len().div_ceil(8));
        let source = self.0.get(from..from + words).filter(|_| at.is_multiple_of(8));
        let source = source.unwrap_or_else(|| panic!("{} bytes at {at:#x} are outside", into.len()));
        for (chunk, word) in into.chunks_mut(8).zip(source) {
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..chunk.len()]);
        }
    }
}

impl OwnedWords for Flat {
    fn store(&self, at: u64, word: u64) {
        self.word(at).store(word, Ordering::Relaxed);
    }

    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64> {
        let word = self.word(at);
        word.compare_exchange(expected, new, Ordering::Relaxed, Ordering::Relaxed).map(drop)
    }

    fn fetch_add(&self, at: u64, more: u64) -> u64 {
        self.word(at).fetch_add(more, Ordering::Relaxed)
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let offset = at + 8 * i as u64;
            let mut word = self.load(offset).to_le_bytes();
            word[..chunk.len()].copy_from_slice(chunk);
            self.store(offset, u64::from_le_bytes(word));
        }
    }

    fn discard(&self, at: u64, len: u64) {
        (at..at + len).step_by(8).for_each(|word| self.store(word, 0));
    }
}
