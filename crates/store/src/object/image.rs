//! The bytes of an entry, made from what it says: for an arena that no server runs on.

use longarm_base::{Csn, Term, UnixMillis};
use longarm_memory::SumKey;

use super::layout::{self, EntryKind, FIXED, VERSION, ValueSum};
use super::owner::EntryMeta;

/// An entry that stands nowhere yet. It carries no operation of a client, as it is for a store that no client
/// repeats an operation in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryImage<'a> {
    /// Its version.
    pub csn: Csn,
    /// Its kind.
    pub kind: EntryKind,
    /// Whether collection copied it.
    pub moved: bool,
    /// When the item is gone, or [`UnixMillis::NEVER`].
    pub expiry: UnixMillis,
    /// Its position in the stream.
    pub position: u64,
    /// The stream that wrote it.
    pub stream: u16,
    /// The term for which it was written.
    pub term: Term,
    /// Generation of its segment.
    pub generation: u32,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl EntryImage<'_> {
    /// Bytes of the entry, in whole words.
    pub fn bytes(&self) -> usize {
        layout::entry_len(self.meta().flags(), self.key.len(), self.value.len())
    }

    fn meta(&self) -> EntryMeta {
        EntryMeta { moved: self.moved, ..EntryMeta::of(self.kind).expiring(self.expiry) }
    }

    /// Writes the entry as it stands at this offset of an arena, not superseded.
    ///
    /// # Panics
    /// If `into` is shorter than the entry, which must be within the limits of any entry.
    pub fn write(&self, offset: u64, sums: &SumKey, into: &mut [u8]) {
        let flags = self.meta().flags();
        let mark = layout::mark_word(self.term, self.generation);
        let header = layout::header_len(flags);
        let fixed = [
            0,
            mark,
            layout::version_word(self.csn, self.kind, flags),
            layout::lengths_word(self.key.len(), self.value.len(), self.stream),
            self.position,
        ];
        for (chunk, word) in into[..FIXED].chunks_exact_mut(8).zip(fixed) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        if flags & layout::EXPIRY != 0 {
            into[FIXED..header].copy_from_slice(&self.expiry.0.to_le_bytes());
        }
        let (key, rest) = into[header..self.bytes()].split_at_mut(self.key.len());
        key.copy_from_slice(self.key);
        rest[..self.value.len()].copy_from_slice(self.value);
        rest[self.value.len()..].fill(0);
        let (key, value) = (layout::key_sum(sums, self.key), ValueSum::whole(sums, self.value));
        let sum = layout::entry_sum(sums, offset, mark, &into[VERSION as usize..header], key, value);
        into[..8].copy_from_slice(&sum.to_le_bytes());
    }
}
