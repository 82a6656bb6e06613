//! The part of an entry that an index needs, and a writer's look at its own entry.
//!
//! A node that wrote an entry knows that it is whole. So its checksum is not computed again, and a long
//! value, which no slot holds, is not copied.

use longarm_base::{Csn, UnixMillis};
use longarm_memory::Words;

use super::follower::{Age, age_at};
use super::layout::{self, FIXED};
use super::reader::{Entry, claimed, word};

/// The part of an entry that an index needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored<'a> {
    /// Its version.
    pub csn: Csn,
    /// The key.
    pub key: &'a [u8],
    /// The value, unless it is longer than the caller wants.
    pub value: Option<&'a [u8]>,
    /// When the item is gone.
    pub expiry: UnixMillis,
    /// The age of this copy of its version.
    pub age: Age,
}

impl<'a> From<&Entry<'a>> for Stored<'a> {
    fn from(entry: &Entry<'a>) -> Stored<'a> {
        let Entry { csn, key, value, expiry, .. } = *entry;
        Stored { csn, key, value: Some(value), expiry, age: entry.age() }
    }
}

/// Reads the entry of version `csn` at `offset`, which the caller knows to be whole and to stay: it wrote the
/// entry, and no write has superseded it. A value of more than `longest` bytes is not copied.
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
