//! Entry: the bytes of an immutable key-value object. Frozen: clients and saved arenas depend on them.
//!
//! Little-endian words from a 64-byte aligned start:
//! ```text
//!  0  checksum   zero: the room holds no entry (yet)
//!  8  mark       generation u24 << 40 | term (39 bits) << 1 | bit 0 superseded
//! 16  version    csn (51 bits) | kind (4 bits) << 51 | flags (9 bits) << 55
//! 24  lengths    key length (11 bits) | value length (27 bits) << 11 | stream (16 bits) << 38
//! 32  position   in its stream
//! 40  [expiry]               unix milliseconds, with EXPIRY
//!     [session] [operation]  with SESSION
//!     key, then value, then zeroes up to a whole word
//! ```
//! The one writer that holds the room (`owner.rs`) writes the entry; the leader's worker that replaces the
//! entry writes the superseded bit, under the lock of its key. Any party reads, one-sidedly (`reader.rs`).
//! (1) The checksum covers term, generation, offset, every word from `version` to the payload, key and value,
//!     but not the superseded bit (L4, L5: never an end byte as in LoLKV 3.5, never the order of arrival). It
//!     is in the entry, not beside the pointer as in Cell 2.3.
//! (2) It is computed over hashes of key and value, so that a writer can hash them before it knows the csn
//!     and finish in nanoseconds under the lock of the index.
//! (3) The superseded bit goes from clear to set once in the life of an entry.
//! (4) Term and generation together name one use of a segment: a leader's term is its own, and in it every
//!     claim of a segment has the next generation. So bytes of an older use on a follower, which wipes
//!     nothing, are never taken for an entry of a younger use (L4, L16).

use longarm_base::limits::{
    CSN_BITS, CSN_MAX, ENTRY_SHARED_MAX, KEY_MAX, LINE, SEGMENT_BYTES, VALUE_MAX, WORD,
};
use longarm_base::{Csn, Term};
use longarm_memory::SumKey;

/// Offset of the checksum word.
pub const SUM: u64 = 0;
/// Offset of the mark word.
pub const MARK: u64 = 8;
/// Offset of the version word.
pub const VERSION: u64 = 16;
/// Offset of the word of lengths.
pub const LENGTHS: u64 = 24;
/// Offset of the position word.
pub const POSITION: u64 = 32;
/// Bytes of the words that every entry has.
pub const FIXED: usize = 40;
/// Bytes of an entry's words with every optional one.
pub const HEADER_MAX: usize = FIXED + 24;
/// Longest entry in bytes.
pub const ENTRY_MAX: usize = HEADER_MAX + (KEY_MAX + VALUE_MAX).next_multiple_of(8);

/// Mark bit: a newer write of the key, or a moved copy, stands elsewhere (NoSQL landscape 3.1, of HydraDB).
pub const SUPERSEDED: u64 = 1;

/// Bits of a segment's generation.
pub const GENERATION_BITS: u32 = 24;
/// The last generation before they start over at one; zero is left to segments that were never claimed.
pub const GENERATION_MAX: u32 = (1 << GENERATION_BITS) - 1;
const GENERATION_SHIFT: u32 = 64 - GENERATION_BITS;

/// Flag: the expiry word is there.
pub const EXPIRY: u64 = 1;
/// Flag: the session and operation words are there.
pub const SESSION: u64 = 2;
/// Flag: collection copied the entry; its position is younger than its csn (L11).
pub const MOVED: u64 = 4;
/// Every flag that has a meaning.
pub const FLAGS_KNOWN: u64 = EXPIRY | SESSION | MOVED;

const KEY_BITS: u32 = 11;
const VALUE_BITS: u32 = 27;
const STREAM_BITS: u32 = 16;
const KIND_BITS: u32 = 4;
const FLAG_BITS: u32 = 9;

/// A value is hashed in pieces of so many bytes, so that it can arrive in pieces and needs no second buffer.
pub const VALUE_PIECE: usize = 64 << 10;

const KEY_SEED: u64 = 0x6B65_7973;
const VALUE_SEED: u64 = 0x7661_6C75_6573;

const _: () = {
    assert!(FIXED as u64 == POSITION + WORD && FIXED as u64 <= LINE, "the fixed words share the first line");
    assert!(HEADER_MAX as u64 <= LINE, "one line tells an entry's length and all its words");
    assert!(KEY_MAX < 1 << KEY_BITS && VALUE_MAX < 1 << VALUE_BITS);
    assert!(KEY_BITS + VALUE_BITS + STREAM_BITS <= 64);
    assert!(GENERATION_BITS + Term::BITS + 1 == 64);
    assert!(CSN_BITS + KIND_BITS + FLAG_BITS == 64);
    assert!(FLAGS_KNOWN < 1 << FLAG_BITS);
    assert!(ENTRY_MAX < u32::MAX as usize, "a place's length is a u32");
    assert!(ENTRY_SHARED_MAX <= SEGMENT_BYTES / 2, "an entry shares its segment or fills one");
};

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has this value.
    Put = 1,
    /// The key does not exist (LoLKV 3.3.5). A moved tombstone stays one, with the MOVED flag.
    Tombstone = 2,
    /// A put that collection copied; it keeps its csn.
    Move = 3,
    /// Nothing: it only takes a position in its stream.
    Noop = 4,
}

impl EntryKind {
    /// The kind of these bits.
    pub const fn from_bits(bits: u64) -> Option<EntryKind> {
        Some(match bits {
            1 => EntryKind::Put,
            2 => EntryKind::Tombstone,
            3 => EntryKind::Move,
            4 => EntryKind::Noop,
            _ => return None,
        })
    }

    /// Whether the key has the entry's value.
    pub const fn is_value(self) -> bool {
        matches!(self, EntryKind::Put | EntryKind::Move)
    }
}

/// The client operation that made an entry, so that a retry is recognised (L17).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct OperationId {
    /// The client's session.
    pub id: u64,
    /// Number of the operation in it.
    pub operation: u64,
}

/// The mark of a fresh entry.
pub const fn mark_word(term: Term, generation: u32) -> u64 {
    debug_assert!(generation <= GENERATION_MAX);
    (generation as u64) << GENERATION_SHIFT | term.bits() << 1
}

/// Unpacks the mark word into term and generation of the use; [`SUPERSEDED`] is told apart by the caller.
pub const fn split_mark(word: u64) -> (Term, u32) {
    let term = word >> 1 & ((1 << Term::BITS) - 1);
    (Term::from_bits(term).expect("so many bits"), (word >> GENERATION_SHIFT) as u32)
}

/// Packs the version word.
pub const fn version_word(csn: Csn, kind: EntryKind, flags: u64) -> u64 {
    debug_assert!(csn.0 <= CSN_MAX && flags < 1 << FLAG_BITS);
    csn.0 | (kind as u64) << CSN_BITS | flags << (CSN_BITS + KIND_BITS)
}

/// Unpacks the version word into csn, kind bits and flags.
pub const fn split_version(word: u64) -> (Csn, u64, u64) {
    let kind = word >> CSN_BITS & ((1 << KIND_BITS) - 1);
    (Csn(word & CSN_MAX), kind, word >> (CSN_BITS + KIND_BITS))
}

/// Packs the word of lengths.
pub const fn lengths_word(key: usize, value: usize, stream: u16) -> u64 {
    key as u64 | (value as u64) << KEY_BITS | (stream as u64) << (KEY_BITS + VALUE_BITS)
}

/// Unpacks the word of lengths into key length, value length and stream; `None` if bits beyond them are set.
pub const fn split_lengths(word: u64) -> Option<(usize, usize, u16)> {
    if word >> (KEY_BITS + VALUE_BITS + STREAM_BITS) != 0 {
        return None;
    }
    let key = word & ((1 << KEY_BITS) - 1);
    let value = word >> KEY_BITS & ((1 << VALUE_BITS) - 1);
    Some((key as usize, value as usize, (word >> (KEY_BITS + VALUE_BITS)) as u16))
}

/// Bytes before the key, for these flags.
pub const fn header_len(flags: u64) -> usize {
    let mut len = FIXED;
    if flags & EXPIRY != 0 {
        len += 8;
    }
    if flags & SESSION != 0 {
        len += 16;
    }
    len
}

/// Bytes of the whole entry.
pub const fn entry_len(flags: u64, key: usize, value: usize) -> usize {
    header_len(flags) + (key + value).next_multiple_of(WORD as usize)
}

/// Hash of a key inside the checksum.
#[inline]
pub(crate) fn key_sum(sums: &SumKey, key: &[u8]) -> u64 {
    sums.sum(KEY_SEED, key)
}

/// Hash of a value inside the checksum, piece after piece: each piece's sum is seeded with the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueSum(pub(crate) u64);

impl ValueSum {
    pub(crate) const START: ValueSum = ValueSum(VALUE_SEED);

    /// Takes the next [`VALUE_PIECE`] bytes, or what is left.
    #[inline]
    pub(crate) fn piece(&mut self, sums: &SumKey, bytes: &[u8]) {
        self.0 = sums.sum(self.0, bytes);
    }

    /// Hash of a whole value.
    #[inline]
    pub(crate) fn whole(sums: &SumKey, value: &[u8]) -> ValueSum {
        let mut sum = ValueSum::START;
        value.chunks(VALUE_PIECE).for_each(|piece| sum.piece(sums, piece));
        sum
    }
}

/// Checksum of an entry from its mark without the superseded bit, its words after the mark, and the hashes of
/// key and value.
#[inline]
pub(crate) fn entry_sum(
    sums: &SumKey,
    offset: u64,
    mark: u64,
    words: &[u8],
    key: u64,
    value: ValueSum,
) -> u64 {
    let mut summed = [0; HEADER_MAX + 8];
    let used = 8 + words.len();
    summed[..8].copy_from_slice(&mark.to_le_bytes());
    summed[8..used].copy_from_slice(words);
    summed[used..used + 8].copy_from_slice(&key.to_le_bytes());
    summed[used + 8..used + 16].copy_from_slice(&value.0.to_le_bytes());
    // Zero says that a room is empty, so no entry has it.
    sums.sum(offset, &summed[..used + 16]).max(1)
}
