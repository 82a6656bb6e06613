//! The one-sided reader of an entry: from copied-out, untrusted bytes to a verified [`Entry`], or a refusal.
//!
//! (1) Every length is checked against the limits and the bytes at hand before it is used.
//! (2) Nothing is returned before the checksum holds; it covers every returned field but `superseded`.
//! (3) `superseded` is the bit of the first cache line at the moment it was sampled: a reader that saw it
//!     clear saw it before the owner's store that set it.

use longarm_base::limits::{KEY_MAX, VALUE_MAX};
use longarm_base::{Csn, Term, UnixMillis};
use longarm_memory::SumKey;

use super::layout::{self, EntryKind, FIXED, OperationId, ValueSum};

/// A verified entry, borrowed from the bytes it was read into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its version.
    pub csn: Csn,
    /// Its kind.
    pub kind: EntryKind,
    /// The key; empty only in a no-op.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// When the item is gone; [`UnixMillis::NEVER`] if it has no expiry.
    pub expiry: UnixMillis,
    /// The client operation that wrote it, if the client numbered it.
    pub session: Option<OperationId>,
    /// Its position in the stream.
    pub position: u64,
    /// The stream that wrote it.
    pub stream: u16,
    /// The term in which its segment was claimed, for which it was written.
    pub term: Term,
    /// Generation of the segment in which it was written.
    pub generation: u32,
    /// Whether it has been replaced, as far as this READ saw.
    pub superseded: bool,
    /// Whether collection copied it.
    pub moved: bool,
}

/// Why bytes are not an entry. For a one-sided reader each reason means: look at the index again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EntryError {
    /// Fewer bytes than an entry has, or than this entry says it has.
    #[error("the entry says {need} bytes, {have} were read")]
    Short {
        /// Bytes needed.
        need: u32,
        /// Bytes there.
        have: u32,
    },
    /// The room has no entry, or an unfinished one.
    #[error("no finished entry is here")]
    Empty,
    /// A field has a value that no entry has.
    #[error("not an entry: {0} out of range")]
    Malformed(&'static str),
    /// The checksum does not hold: a torn READ, reused memory, another key of checksums, or corruption.
    #[error("the checksum does not hold: torn, reused or damaged")]
    Torn,
    /// The place does not lie in the arena.
    #[error("{len} bytes at {offset:#x} are outside the arena")]
    Outside {
        /// First byte.
        offset: u64,
        /// Length.
        len: u32,
    },
    /// A whole entry, but of another version.
    #[error("the entry here has another version: {0:?}")]
    Other(Csn),
}

#[inline(always)]
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The fixed words of a room that is not empty, range-checked but not verified.
pub(super) struct UnverifiedHeader {
    pub csn: Csn,
    pub kind: EntryKind,
    pub flags: u64,
    pub key_len: usize,
    pub value_len: usize,
    pub stream: u16,
}

#[inline]
pub(super) fn claimed(bytes: &[u8]) -> Result<UnverifiedHeader, EntryError> {
    if bytes.len() < FIXED {
        return Err(EntryError::Short { need: FIXED as u32, have: bytes.len() as u32 });
    }
    if word(bytes, layout::SUM as usize) == 0 {
        return Err(EntryError::Empty);
    }
    let (csn, kind, flags) = layout::split_version(word(bytes, layout::VERSION as usize));
    let kind = EntryKind::from_bits(kind).ok_or(EntryError::Malformed("kind"))?;
    if flags & !layout::FLAGS_KNOWN != 0 {
        return Err(EntryError::Malformed("flags"));
    }
    let (key_len, value_len, stream) = layout::split_lengths(word(bytes, layout::LENGTHS as usize))
        .ok_or(EntryError::Malformed("word of lengths"))?;
    if key_len > KEY_MAX || (key_len == 0 && kind != EntryKind::Noop) {
        return Err(EntryError::Malformed("key length"));
    }
    if value_len > VALUE_MAX {
        return Err(EntryError::Malformed("value length"));
    }
    if !csn.is_valid() {
        return Err(EntryError::Malformed("csn"));
    }
    Ok(UnverifiedHeader { csn, kind, flags, key_len, value_len, stream })
}

/// The length of the entry that starts with these bytes (its first cache line is enough): unverified, but
/// within the limits of any entry.
pub fn total_len(first_line: &[u8]) -> Result<u32, EntryError> {
    let claimed = claimed(first_line)?;
    Ok(layout::entry_len(claimed.flags, claimed.key_len, claimed.value_len) as u32)
}

/// The length of the entry that starts with these bytes without the zeroes at its end, which its checksum
/// does not cover: unverified, as [`total_len`].
pub(crate) fn covered_len(first_line: &[u8]) -> Result<u32, EntryError> {
    let claimed = claimed(first_line)?;
    Ok((layout::header_len(claimed.flags) + claimed.key_len + claimed.value_len) as u32)
}

/// Parses the entry in `bytes`, which were copied out of the arena at `offset`. They may be more bytes than
/// the entry has.
#[inline]
pub fn read<'a>(bytes: &'a [u8], offset: u64, sums: &SumKey) -> Result<Entry<'a>, EntryError> {
    let UnverifiedHeader { csn, kind, flags, key_len, value_len, stream } = claimed(bytes)?;
    let need = layout::entry_len(flags, key_len, value_len);
    if need > bytes.len() {
        return Err(EntryError::Short { need: need as u32, have: bytes.len().min(u32::MAX as usize) as u32 });
    }
    let sum = word(bytes, layout::SUM as usize);
    let mark = word(bytes, layout::MARK as usize);
    let (term, generation) = layout::split_mark(mark);
    if generation == 0 {
        return Err(EntryError::Malformed("generation"));
    }
    let header = layout::header_len(flags);
    let (key, rest) = bytes[header..].split_at(key_len);
    let value = &rest[..value_len];
    let words = &bytes[layout::VERSION as usize..header];
    let key_sum = layout::key_sum(sums, key);
    let clear = mark & !layout::SUPERSEDED;
    if layout::entry_sum(sums, offset, clear, words, key_sum, ValueSum::whole(sums, value)) != sum {
        return Err(EntryError::Torn);
    }
    let mut at = FIXED;
    let mut optional = |there: bool| {
        there.then(|| {
            at += 8;
            word(bytes, at - 8)
        })
    };
    let expiry = UnixMillis(optional(flags & layout::EXPIRY != 0).unwrap_or(0));
    let id = optional(flags & layout::SESSION != 0);
    let operation = optional(flags & layout::SESSION != 0);
    Ok(Entry {
        csn,
        kind,
        key,
        value,
        expiry,
        session: id.zip(operation).map(|(id, operation)| OperationId { id, operation }),
        position: word(bytes, layout::POSITION as usize),
        stream,
        term,
        generation,
        superseded: mark & layout::SUPERSEDED != 0,
        moved: flags & layout::MOVED != 0,
    })
}
