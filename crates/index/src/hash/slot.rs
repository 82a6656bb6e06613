//! Records in slots: packed for the owner, taken apart and verified for a reader.
//!
//! Slot of 64 bytes, one cache line:
//! `[checksum][csn:51 | expires:1 | key length:6 | value length:6][48 bytes]`, the 48 bytes being key, value
//! and (if it expires) the expiry as last word. Key length 0 means that the item is an entry elsewhere:
//! `[..][offset][length][expiry][hash of the key][0][0]`.
//! Slot of 16 bytes: `[csn][offset/64:34 | length/64:14 | tag:16]`; length 0 means "read the entry's first
//! line".
//! (1) The checksum covers everything else in the slot and is seeded with table and offset: a record verifies
//!     only where the owner wrote it, whole (L4, L5; B1: where Cell 2.3 has versions at both ends).
//! (2) A 16-byte slot needs none: the entry it names must carry the slot's csn, and a csn is used once.
//! (3) A record that is whole and that readers must not take is *hidden*: the checksum, or the csn of a
//!     16-byte slot, stands there in a form that does not verify. One store hides it or shows it (decision
//!     48).

use longarm_base::{Csn, EntryRef, UnixMillis, limits};
use longarm_memory::{Hash, SumKey};

use super::layout::SlotKind;

/// Bytes of key and value together that fit into a 64-byte slot (8 fewer if the item expires).
pub const INLINE_MAX: usize = 48;

/// Of the csn of a 16-byte slot: the record is hidden.
const HIDDEN: u64 = 1 << 63;
const EXPIRES: u64 = 1 << 51;
const KEY_SHIFT: u32 = 52;
const VALUE_SHIFT: u32 = 58;
const UNIT: u64 = limits::LINE;

const _: () = assert!(limits::CSN_BITS == 51 && 16 + INLINE_MAX == 64);

/// A record to store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// Key and value in the slot.
    Inline {
        /// Version.
        csn: Csn,
        /// The key, not empty.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When it is gone, or never.
        expiry: UnixMillis,
        /// Where it stands as an entry too, as its owner knows (`places.rs`). Not in the slot.
        entry: Option<EntryRef>,
    },
    /// An entry in the arena.
    Entry {
        /// Version; the entry carries the same.
        csn: Csn,
        /// Where.
        entry: EntryRef,
        /// Hash of its key.
        hash: Hash,
        /// When it is gone, or never (the entry says it too).
        expiry: UnixMillis,
    },
}

impl Record<'_> {
    /// Whether an item fits into a slot of this kind.
    pub fn fits_inline(kind: SlotKind, key: usize, value: usize, expiry: UnixMillis) -> bool {
        let room = if expiry == UnixMillis::NEVER { INLINE_MAX } else { INLINE_MAX - 8 };
        kind == SlotKind::Inline64 && key > 0 && key + value <= room
    }

    /// Version of the record.
    pub fn csn(&self) -> Csn {
        match self {
            Record::Inline { csn, .. } | Record::Entry { csn, .. } => *csn,
        }
    }

    /// The bytes of a 64-byte slot at `seed` (see [`seed`]).
    pub fn pack64(&self, sums: &SumKey, seed: u64) -> [u8; 64] {
        let mut bytes = [0; 64];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        match *self {
            Record::Inline { csn, key, value, expiry, .. } => {
                assert!(
                    Record::fits_inline(SlotKind::Inline64, key.len(), value.len(), expiry) && csn.is_valid()
                );
                let lengths = (key.len() as u64) << KEY_SHIFT | (value.len() as u64) << VALUE_SHIFT;
                let expires = if expiry == UnixMillis::NEVER { 0 } else { EXPIRES };
                put(8, csn.0 | expires | lengths);
                if expires != 0 {
                    put(56, expiry.0);
                }
                bytes[16..16 + key.len()].copy_from_slice(key);
                bytes[16 + key.len()..16 + key.len() + value.len()].copy_from_slice(value);
            }
            Record::Entry { csn, entry, hash, expiry } => {
                assert!(csn.is_valid() && entry.offset.is_multiple_of(UNIT));
                put(8, csn.0);
                put(16, entry.offset);
                put(24, entry.len as u64);
                put(32, expiry.0);
                put(40, hash.0);
            }
        }
        let sum = sums.sum(seed, &bytes[8..]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The two words of a 16-byte slot. An inline record is a broken invariant: such tables hold none.
    pub fn pack16(&self) -> (u64, u64) {
        let Record::Entry { csn, entry, hash, .. } = *self else {
            panic!("a 16-byte slot holds places of entries only");
        };
        assert!(csn.is_valid() && entry.offset.is_multiple_of(UNIT) && entry.offset / UNIT < 1 << 34);
        let units = u64::from(entry.len).div_ceil(UNIT);
        let units = if units < 1 << 14 { units } else { 0 };
        (csn.0, entry.offset / UNIT | units << 34 | u64::from(hash.tag()) << 48)
    }
}

/// Seed of a slot's checksum: its table and where it stands.
#[inline(always)]
pub fn seed(table: u32, at: u64) -> u64 {
    at ^ (table as u64) << 40
}

/// The first word of a slot when its record is hidden, from the one when it is shown, or the other way
/// round.
#[inline(always)]
pub(super) const fn turned(kind: SlotKind, word: u64) -> u64 {
    match kind {
        SlotKind::Inline64 => !word,
        SlotKind::Pointer16 => word ^ HIDDEN,
    }
}

/// What copied-out slot bytes turn out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotView<'a> {
    /// Nothing.
    Empty,
    /// Bytes of different moments, a hidden record, or no record at all: look again.
    Torn,
    /// A verified record (a 16-byte slot: one whose entry has yet to confirm it). `hash` is known for 64-byte
    /// slots; for 16-byte ones only its tag is.
    Record(Record<'a>),
}

impl<'a> SlotView<'a> {
    /// Verifies a 64-byte slot.
    #[inline(always)]
    pub fn parse64(bytes: &'a [u8; 64], sums: &SumKey, seed: u64) -> SlotView<'a> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let meta = word(8);
        let csn = Csn(meta & limits::CSN_MAX);
        if csn == Csn::NONE {
            return SlotView::Empty;
        }
        if word(0) != sums.sum(seed, &bytes[8..64]) {
            return SlotView::Torn;
        }
        SlotView::parse_verified(bytes)
    }

    /// Takes a 64-byte slot apart whose checksum held.
    #[inline(always)]
    pub(super) fn parse_verified(bytes: &'a [u8; 64]) -> SlotView<'a> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let meta = word(8);
        let csn = Csn(meta & limits::CSN_MAX);
        let key = (meta >> KEY_SHIFT & 63) as usize;
        let value = (meta >> VALUE_SHIFT) as usize;
        let expiry = if meta & EXPIRES != 0 { UnixMillis(word(56)) } else { UnixMillis::NEVER };
        if key == 0 {
            let entry = EntryRef { offset: word(16), len: word(24) as u32 };
            return SlotView::Record(Record::Entry {
                csn,
                entry,
                hash: Hash(word(40)),
                expiry: UnixMillis(word(32)),
            });
        }
        if key + value > INLINE_MAX {
            return SlotView::Torn;
        }
        SlotView::Record(Record::Inline {
            csn,
            key: &bytes[16..16 + key],
            value: &bytes[16 + key..16 + key + value],
            expiry,
            entry: None,
        })
    }

    /// Takes a 16-byte slot apart. Its entry must carry the same csn.
    #[inline(always)]
    pub fn parse16(bytes: &[u8; 16]) -> SlotView<'static> {
        let csn = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let place = u64::from_le_bytes(bytes[8..].try_into().expect("eight bytes"));
        if csn == 0 {
            return SlotView::Empty;
        }
        if !Csn(csn).is_valid() || place == 0 {
            return SlotView::Torn;
        }
        let offset = (place & ((1 << 34) - 1)) * UNIT;
        let len = ((place >> 34 & ((1 << 14) - 1)) * UNIT) as u32;
        let hash = Hash(place >> 48 << 8);
        SlotView::Record(Record::Entry {
            csn: Csn(csn),
            entry: EntryRef { offset, len },
            hash,
            expiry: UnixMillis::NEVER,
        })
    }
}
