//! Digests a source of items to a number, which tells whether the source is still the same.

use longarm_memory::SumKey;

/// The size of a file, and its time of change in seconds and nanoseconds.
pub fn stamp(about: &std::fs::Metadata) -> [u64; 3] {
    use std::os::unix::fs::MetadataExt;
    [about.len(), about.mtime() as u64, about.mtime_nsec() as u64]
}

/// A number that stands for all words and bytes that it was fed. It is the same in every run.
pub struct Digest(
    /// The number.
    pub u64,
);

impl Default for Digest {
    fn default() -> Digest {
        Digest::new()
    }
}

impl Digest {
    /// The digest of nothing.
    pub fn new() -> Digest {
        Digest(0)
    }

    /// Adds these bytes.
    pub fn bytes(self, bytes: &[u8]) -> Digest {
        Digest(SumKey::new(0x4C4F_4144).sum(self.0, bytes))
    }

    /// Adds these words.
    pub fn words(self, words: &[u64]) -> Digest {
        words.iter().fold(self, |digest, word| digest.bytes(&word.to_le_bytes()))
    }
}
