//! A number that stands for a source of items, so that another source is told from the same one.

use longarm_memory::SumKey;

/// Size and time of change.
pub fn stamp(about: &std::fs::Metadata) -> [u64; 3] {
    use std::os::unix::fs::MetadataExt;
    [about.len(), about.mtime() as u64, about.mtime_nsec() as u64]
}

/// A number that stands for all that was fed to it, the same in every run.
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
    /// Of nothing.
    pub fn new() -> Digest {
        Digest(0)
    }

    /// And of these bytes.
    pub fn bytes(self, bytes: &[u8]) -> Digest {
        Digest(SumKey::new(0x4C4F_4144).sum(self.0, bytes))
    }

    /// And of these words.
    pub fn words(self, words: &[u64]) -> Digest {
        words.iter().fold(self, |digest, word| digest.bytes(&word.to_le_bytes()))
    }
}
