//! Where an entry lies in the arena, as store, index slots and location caches name it.

use crate::limits::{LINE, SEGMENT_BYTES, SEGMENTS_MAX};

/// The bytes of one entry, by an offset that is the same at every replica (LoLKV 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EntryRef {
    /// Offset in the arena; a multiple of 64, below 1 TiB.
    pub offset: u64,
    /// Length in bytes; 0 where a slot has no room to say. A slot may name the same entry by more bytes than
    /// it has, rounded up to a multiple of 8 or of 64: a reader accepts them.
    pub len: u32,
}

impl EntryRef {
    /// The length in whole cache lines.
    pub const fn units(self) -> u32 {
        self.len.div_ceil(LINE as u32)
    }

    /// The entry whose offset and length are given in cache lines; `None` if no arena reaches so far.
    pub const fn from_units(line: u64, units: u32) -> Option<EntryRef> {
        let end = (line as u128 + units as u128) * LINE as u128;
        if end > (SEGMENTS_MAX * SEGMENT_BYTES) as u128 || units as u64 > u32::MAX as u64 / LINE {
            return None;
        }
        Some(EntryRef { offset: line * LINE, len: units * LINE as u32 })
    }

    /// The offset in cache lines, as slots store it.
    pub const fn line(self) -> u64 {
        self.offset / LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_round_up_and_back() {
        let entry = EntryRef { offset: 640, len: 65 };
        assert_eq!((entry.line(), entry.units()), (10, 2));
        assert_eq!(EntryRef::from_units(10, 2), Some(EntryRef { offset: 640, len: 128 }));
        let last = SEGMENTS_MAX * SEGMENT_BYTES / LINE - 1;
        assert!(EntryRef::from_units(last, 1).is_some());
        assert!(EntryRef::from_units(last, 2).is_none());
        assert!(EntryRef::from_units(u64::MAX, u32::MAX).is_none());
    }
}
