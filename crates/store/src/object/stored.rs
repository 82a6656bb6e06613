//! What an entry says of its item, as far as an index wants to know it; and the look of a writer at its own
//! entry.
//!
//! Who wrote an entry knows that it is whole: its checksum is not computed again, and a long value, which no
//! slot holds, is not copied.

use longarm_base::{Csn, UnixMillis};
use longarm_memory::Words;

use super::follower::{Age, age_at};
use super::layout::{self, FIXED};
use super::reader::{Entry, claimed, word};

/// What an entry says of its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored<'a> {
    /// Its version.
    pub csn: Csn,
    /// The key.
    pub key: &'a [u8],
    /// The value, unless it is too long to be wanted.
    pub value: Option<&'a [u8]>,
    /// When the item is gone.
    pub expiry: UnixMillis,
    /// How young a copy of its version the entry is.
    pub age: Age,
}

impl<'a> From<&Entry<'a>> for Stored<'a> {
    fn from(entry: &Entry<'a>) -> Stored<'a> {
        let Entry { csn, key, value, expiry, .. } = *entry;
        Stored { csn, key, value: Some(value), expiry, age: entry.age() }
    }
}

/// What the entry of version `csn` at `offset` says, of which the caller knows that it is whole and stays: it
/// wrote it, and nothing has superseded it. A value of more than `longest` bytes is not copied.
///
/// # Panics
/// If there is no such entry: a broken invariant of the caller.
pub(crate) fn own<'a>(
    memory: &dyn Words,
    offset: u64,
    csn: Csn,
    bytes: &'a mut Vec<u8>,
    longest: usize,
) -> Stored<'a> {
    bytes.resize(layout::HEADER_MAX, 0);
    memory.copy_out(offset, bytes);
    let there = match claimed(bytes) {
        Ok(there) if there.csn == csn => there,
        other => panic!("our own entry at {offset:#x} of csn {csn:?} is not there: {:?}", other.err()),
    };
    let header = layout::header_len(there.flags);
    let has_expiry = there.flags & layout::EXPIRY != 0;
    let expiry = if has_expiry { UnixMillis(word(bytes, FIXED)) } else { UnixMillis::NEVER };
    let value_len = Some(there.value_len).filter(|len| *len <= longest);
    bytes.resize(there.key_len + value_len.unwrap_or(0), 0);
    memory.copy_out(offset + header as u64, bytes);
    let (key, value) = bytes.split_at(there.key_len);
    Stored { csn, key, value: value_len.map(|_| value), expiry, age: age_at(memory, offset) }
}
