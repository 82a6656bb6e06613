//! Bytes of an arena that were copied out of it.

use longarm_memory::Words;

/// Some bytes of an arena, from an offset on.
pub(crate) struct Window {
    pub at: u64,
    pub bytes: Vec<u8>,
}

impl Words for Window {
    fn bytes(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    fn load(&self, at: u64) -> u64 {
        let from = (at - self.at) as usize;
        u64::from_le_bytes(self.bytes[from..from + 8].try_into().expect("eight bytes"))
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        let from = (at - self.at) as usize;
        // An entry that says that it is longer than what was copied does not verify.
        let has = self.bytes.len().saturating_sub(from).min(into.len());
        into[..has].copy_from_slice(&self.bytes[from..from + has]);
        into[has..].fill(0);
    }
}
