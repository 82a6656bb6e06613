//! Bytes of a memory that were copied out of it, as words.

use crate::Words;

/// Some bytes of a memory, from an offset on. Nothing changes them any more.
#[derive(Clone, Debug)]
pub struct CopiedWords {
    /// Where they were in the memory.
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Words for CopiedWords {
    fn bytes(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.copy_out(at, &mut word);
        u64::from_le_bytes(word)
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        let from = (at - self.at) as usize;
        // What says that it is longer than what was copied is zeros there, and does not verify.
        let has = self.bytes.len().saturating_sub(from).min(into.len());
        into[..has].copy_from_slice(&self.bytes[from..from + has]);
        into[has..].fill(0);
    }
}
