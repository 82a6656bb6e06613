//! Answers the questions of the index about entries, from the arena, which only this process changes.
//!
//! An entry that a slot names, seen under the lock of its pair, is whole and stays where it is: its segment
//! is not freed before the slot names another entry. So headers are trusted here, and checked only against
//! the csn.
//! the csn.

use longarm_base::limits::KEY_MAX;
use longarm_base::{Csn, EntryRef, UnixMillis};
use longarm_index::hash::Entries;
use longarm_memory::{Hash, HashKey, OwnedWords};
use longarm_store::object::{Age, age_at, layout, total_len};

/// The memory that the entries are in.
#[derive(Clone, Debug)]
pub struct Arena<M> {
    /// The arena.
    pub memory: M,
}

impl<M: OwnedWords> Arena<M> {
    /// Flags, key length and value length of the entry, if it is of this version.
    fn header(&self, offset: u64, csn: Csn) -> Option<(u64, usize, usize)> {
        let (found, _, flags) = layout::split_version(self.memory.load(offset + layout::VERSION));
        let (key, value, _) = layout::split_lengths(self.memory.load(offset + layout::LENGTHS))?;
        (found == csn && key <= KEY_MAX).then_some((flags, key, value))
    }

    /// Calls `look` with the key of the entry, if it is of this version.
    fn with_key<T>(&self, entry: EntryRef, csn: Csn, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let (flags, key, _) = self.header(entry.offset, csn)?;
        let mut bytes = [0; KEY_MAX];
        self.memory.copy_out(entry.offset + layout::header_len(flags) as u64, &mut bytes[..key]);
        Some(look(&bytes[..key]))
    }

    /// Length of the value of the entry that a slot names.
    pub fn value_len(&self, entry: EntryRef, csn: Csn) -> usize {
        match self.header(entry.offset, csn) {
            Some((_, _, value)) => value,
            None => panic!("a slot names {entry:?} of csn {csn:?}, which is not there"),
        }
    }

    /// When the item of the entry is gone.
    pub fn expiry(&self, entry: EntryRef, csn: Csn) -> UnixMillis {
        match self.header(entry.offset, csn) {
            Some((flags, ..)) if flags & layout::EXPIRY == 0 => UnixMillis::NEVER,
            Some(_) => UnixMillis(self.memory.load(entry.offset + layout::FIXED as u64)),
            None => panic!("a slot names {entry:?} of csn {csn:?}, which is not there"),
        }
    }

    /// How young a copy of its version the entry there is.
    pub fn age(&self, place: EntryRef) -> Age {
        age_at(&self.memory, place.offset)
    }

    /// The entry with its length; a 16-byte slot has no room for the length of a very long one.
    pub fn with_len(&self, entry: EntryRef) -> EntryRef {
        if entry.len != 0 {
            return entry;
        }
        let mut line = [0; 64];
        self.memory.copy_out(entry.offset, &mut line);
        let len = total_len(&line).unwrap_or_else(|e| panic!("a slot names {entry:?}: {e}"));
        EntryRef { offset: entry.offset, len }
    }
}

impl<M: OwnedWords> Entries for Arena<M> {
    fn is_of(&self, entry: EntryRef, csn: Csn, key: &[u8]) -> bool {
        self.with_key(entry, csn, |have| have == key).unwrap_or(false)
    }

    fn hash_of(&self, entry: EntryRef, csn: Csn, hash: &HashKey) -> Option<Hash> {
        self.with_key(entry, csn, |key| hash.hash(key))
    }

    fn key_of(&self, entry: EntryRef, csn: Csn) -> Option<Vec<u8>> {
        self.with_key(entry, csn, <[u8]>::to_vec)
    }
}
