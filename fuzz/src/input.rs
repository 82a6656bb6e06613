//! Fuzz bytes as a stream of numbers: zeroes once they are used up.

/// What is left of an input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether everything was used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most `n` bytes.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes with their length in front: one byte, or three that begin with 255.
    pub fn counted(&mut self) -> &'a [u8] {
        let n = match self.u8() {
            255 => self.u16() as usize,
            n => n as usize,
        };
        self.bytes(n)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.bytes(N);
        let mut array = [0; N];
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        let raw = if n <= 256 { u64::from(self.u8()) } else { u64::from(self.u32()) };
        raw % n
    }

    /// Mostly a number below `n`, now and then any number: what a hostile peer would say.
    pub fn near(&mut self, n: u64) -> u64 {
        if self.u8() >= 240 { self.u64() } else { self.below(n) }
    }
}
