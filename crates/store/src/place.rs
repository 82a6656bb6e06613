//! The place of an entry in the arena, as index slots and location caches name it.

use longarm_base::limits::{LINE, SEGMENT_BYTES, SEGMENTS_MAX};

/// The bytes of one entry. Offsets count from the start of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EntryPlace {
    /// First byte; a multiple of 64, below 1 TiB.
    pub offset: u64,
    /// Length in bytes. A slot that only has room for [`units`](Self::units) names the same entry: a reader
    /// accepts more bytes than the entry has.
    pub len: u32,
}

impl EntryPlace {
    /// The length in whole cache lines.
    pub const fn units(self) -> u32 {
        self.len.div_ceil(LINE as u32)
    }

    /// The place whose offset and length are given in cache lines; `None` if no arena reaches so far.
    pub const fn from_units(line: u64, units: u32) -> Option<EntryPlace> {
        let end = (line as u128 + units as u128) * LINE as u128;
        if end > (SEGMENTS_MAX * SEGMENT_BYTES) as u128 || units as u64 > u32::MAX as u64 / LINE {
            return None;
        }
        Some(EntryPlace { offset: line * LINE, len: units * LINE as u32 })
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
        let place = EntryPlace { offset: 640, len: 65 };
        assert_eq!((place.line(), place.units()), (10, 2));
        assert_eq!(EntryPlace::from_units(10, 2), Some(EntryPlace { offset: 640, len: 128 }));
        let last = SEGMENTS_MAX * SEGMENT_BYTES / LINE - 1;
        assert!(EntryPlace::from_units(last, 1).is_some());
        assert!(EntryPlace::from_units(last, 2).is_none());
        assert!(EntryPlace::from_units(u64::MAX, u32::MAX).is_none());
    }
}
