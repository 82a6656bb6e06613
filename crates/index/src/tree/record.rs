//! Records of nodes: what a leaf says of a key, and the bytes that stand before a suffix.

use longarm_base::limits::{CSN_BITS, CSN_MAX, LINE};
use longarm_base::{Csn, EntryRef, UnixMillis};

use super::layout::{PAYLOAD_MAX, Pointer};

const MARKER: u64 = 1 << CSN_BITS;
const EXPIRES: u64 = 1 << (CSN_BITS + 1);
const UNITS_SHIFT: u32 = 34;
const UNITS_MAX: u64 = (1 << 14) - 1;

/// What a leaf says of a key: its version, and where the entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafRecord {
    /// Version.
    pub csn: Csn,
    /// Where the entry is, its length rounded up to whole lines, or 0 if it is longer than a MiB; `None` for
    /// a marker: the key was deleted by this version.
    pub entry: Option<EntryRef>,
    /// When the item is gone.
    pub expiry: UnixMillis,
}

/// The bytes of a record without its suffix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload {
    bytes: [u8; PAYLOAD_MAX],
    len: usize,
}

impl Payload {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn of(words: &[u64]) -> Payload {
        let mut bytes = [0; PAYLOAD_MAX];
        for (into, word) in bytes.chunks_exact_mut(8).zip(words) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        Payload { bytes, len: words.len() * 8 }
    }

    /// The record of an inner node.
    pub fn child(pointer: Pointer) -> Payload {
        Payload::of(&[pointer.pack()])
    }
}

impl LeafRecord {
    /// Whether it is the marker of a deleted key.
    pub fn is_marker(&self) -> bool {
        self.entry.is_none()
    }

    /// The bytes before the suffix.
    pub fn pack(&self) -> Payload {
        assert!(self.csn.is_valid(), "a record has a version");
        let Some(entry) = self.entry else { return Payload::of(&[self.csn.0 | MARKER, 0]) };
        assert!(entry.offset.is_multiple_of(LINE) && entry.line() < 1 << UNITS_SHIFT);
        let units = u64::from(entry.units());
        let place = entry.line() | (if units <= UNITS_MAX { units } else { 0 }) << UNITS_SHIFT;
        match self.expiry {
            UnixMillis::NEVER => Payload::of(&[self.csn.0, place]),
            expiry => Payload::of(&[self.csn.0 | EXPIRES, place, expiry.0]),
        }
    }

    /// Takes the bytes apart that [`LeafRecord::len`] words say are there; `None` if nobody packed them.
    pub fn unpack(bytes: &[u8]) -> Option<LeafRecord> {
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (first, place) = (word(0)?, word(8)?);
        let csn = Csn(first & CSN_MAX);
        let known = first & !(CSN_MAX | MARKER | EXPIRES) == 0 && csn.is_valid();
        if !known || bytes.len() != LeafRecord::len(first) {
            return None;
        }
        if first & MARKER != 0 {
            return (place == 0 && first & EXPIRES == 0).then_some(LeafRecord {
                csn,
                entry: None,
                expiry: UnixMillis::NEVER,
            });
        }
        let units = (place >> UNITS_SHIFT) as u32;
        if u64::from(units) > UNITS_MAX {
            return None;
        }
        let entry = EntryRef::from_units(place & ((1 << UNITS_SHIFT) - 1), units)?;
        let expiry = if first & EXPIRES != 0 { UnixMillis(word(16)?) } else { UnixMillis::NEVER };
        Some(LeafRecord { csn, entry: Some(entry), expiry })
    }

    /// Bytes before the suffix of a leaf's record that begins with this word.
    pub const fn len(first: u64) -> usize {
        if first & EXPIRES != 0 { PAYLOAD_MAX } else { PAYLOAD_MAX - 8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_packed() {
        let entry = EntryRef { offset: 640, len: 128 };
        for (entry, expiry) in [
            (Some(entry), UnixMillis::NEVER),
            (Some(entry), UnixMillis(77)),
            (Some(EntryRef { offset: (1 << 40) - 64, len: 64 }), UnixMillis(u64::MAX)),
            (None, UnixMillis::NEVER),
        ] {
            let record = LeafRecord { csn: Csn(CSN_MAX), entry, expiry };
            assert_eq!(LeafRecord::unpack(record.pack().bytes()), Some(record));
        }
    }

    #[test]
    fn an_entry_too_long_for_its_bits_has_no_length() {
        let entry = EntryRef { offset: 0, len: 2 << 20 };
        let record = LeafRecord { csn: Csn(1), entry: Some(entry), expiry: UnixMillis::NEVER };
        let back = LeafRecord::unpack(record.pack().bytes()).expect("a record");
        assert_eq!(back.entry, Some(EntryRef { offset: 0, len: 0 }));
    }

    #[test]
    fn what_nobody_packed_is_no_record() {
        let good = LeafRecord { csn: Csn(9), entry: None, expiry: UnixMillis::NEVER }.pack();
        assert!(LeafRecord::unpack(&good.bytes()[..8]).is_none());
        for bit in [53, 63] {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(good.bytes());
            bytes[bit / 8] |= 1 << (bit % 8);
            assert!(LeafRecord::unpack(&bytes).is_none(), "bit {bit}");
        }
        assert!(LeafRecord::unpack(&[0; 16]).is_none(), "no version");
    }
}
