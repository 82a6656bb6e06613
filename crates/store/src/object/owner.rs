//! Writing one entry into its room.
//!
//! The writer that holds the room writes every word but the superseded bit; that bit is written by the worker
//! that replaces the entry, under the lock of its key. Any party reads (`reader.rs`), at any moment of this.
//! (1) A room's checksum word is zero when the room is handed out (the claim of the segment wiped it, or it
//!     was never written to) and stays so until `finish`; the old bytes of a reused room are thereby void
//!     before the first new byte is written.
//! (2) `finish` stores the checksum last. From that store on the entry verifies, before it nothing does.
//! (3) `finish` hands out the place, so a party that can name the entry finds it whole (LoLKV 3.3.2).
//! (4) The mark is stored before the checksum and afterwards changes once, from clear to superseded.

use std::sync::Arc;

use longarm_base::{Csn, EntryRef, Term, UnixMillis};
use longarm_memory::{OwnedWords, SumKey};

use super::layout::{self, EntryKind, FIXED, HEADER_MAX, OperationId, VALUE_PIECE, ValueSum};
use crate::options::FillError;
use crate::segment::Lane;
use crate::sync::{Counter, Mutex};

/// The properties of an entry besides key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryMeta {
    /// Its kind.
    pub kind: EntryKind,
    /// When the item is gone, or [`UnixMillis::NEVER`].
    pub expiry: UnixMillis,
    /// The client operation, where the client numbers them.
    pub session: Option<OperationId>,
    pub(crate) moved: bool,
}

impl EntryMeta {
    /// A put that never expires.
    pub const PUT: EntryMeta = EntryMeta::of(EntryKind::Put);
    /// A delete.
    pub const TOMBSTONE: EntryMeta = EntryMeta::of(EntryKind::Tombstone);

    /// An entry of this kind with no other property.
    pub const fn of(kind: EntryKind) -> EntryMeta {
        EntryMeta { kind, expiry: UnixMillis::NEVER, session: None, moved: false }
    }

    /// The same with an expiry.
    pub const fn expiring(self, expiry: UnixMillis) -> EntryMeta {
        EntryMeta { expiry, ..self }
    }

    /// The same with a session.
    pub const fn by(self, session: OperationId) -> EntryMeta {
        EntryMeta { session: Some(session), ..self }
    }

    pub(crate) fn flags(&self) -> u64 {
        let expiry = if self.expiry == UnixMillis::NEVER { 0 } else { layout::EXPIRY };
        let session = if self.session.is_some() { layout::SESSION } else { 0 };
        expiry | session | if self.moved { layout::MOVED } else { 0 }
    }
}

/// Room for one entry in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    pub offset: u64,
    pub segment: u32,
    pub term: Term,
    pub generation: u32,
    pub lane: Lane,
    /// Class of the segment; `None` in a run.
    pub class: Option<u16>,
}

/// Rooms of drafts that were dropped, on their way back to the writer.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    pub waiting: Counter,
    pub rooms: Mutex<Vec<Room>>,
}

/// An entry in the making: it has its room, and no csn yet. Dropping it abandons it; the room goes back to
/// its writer.
#[derive(Debug)]
#[must_use = "a draft that is dropped is abandoned"]
pub struct Draft {
    pub(crate) room: Room,
    meta: EntryMeta,
    stream: u16,
    key_len: u32,
    value_len: u32,
    key_sum: u64,
    value_sum: ValueSum,
    /// Bytes of the value that are written, and bytes of it that are hashed.
    filled: usize,
    summed: usize,
    /// Where the room goes if the draft is dropped; `None` once the draft is finished.
    returns: Option<Arc<Returns>>,
}

impl Draft {
    /// Bytes of the value that are still missing.
    pub fn missing(&self) -> usize {
        self.value_len as usize - self.filled
    }

    /// Length of the entry in bytes.
    pub fn entry_len(&self) -> u32 {
        layout::entry_len(self.meta.flags(), self.key_len as usize, self.value_len as usize) as u32
    }

    fn value_at(&self) -> u64 {
        self.room.offset + layout::header_len(self.meta.flags()) as u64 + self.key_len as u64
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(returns) = self.returns.take() {
            returns.rooms.lock().push(self.room);
            returns.waiting.add(1);
        }
    }
}

/// What is known of an entry before its room is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    pub key: &'a [u8],
    pub value_len: usize,
    pub meta: EntryMeta,
}

/// Begins an entry in `room`: writes the key, and all words that are known by now.
pub(crate) fn begin<M: OwnedWords>(
    memory: &M,
    sums: &SumKey,
    room: Room,
    stream: u16,
    returns: &Arc<Returns>,
    entry: NewEntry<'_>,
) -> Draft {
    let NewEntry { key, value_len, meta } = entry;
    let draft = Draft {
        room,
        meta,
        stream,
        key_len: key.len() as u32,
        value_len: value_len as u32,
        key_sum: layout::key_sum(sums, key),
        value_sum: ValueSum::START,
        filled: 0,
        summed: 0,
        returns: Some(returns.clone()),
    };
    let at = room.offset;
    // The padding comes first: a copy keeps the other bytes of its last word, and without key and value that
    // word is one of those below.
    memory.store(at + draft.entry_len() as u64 - 8, 0);
    memory.store(at + layout::MARK, layout::mark_word(room.term, room.generation));
    memory.store(at + layout::LENGTHS, layout::lengths_word(key.len(), value_len, stream));
    let mut next = at + FIXED as u64;
    let expiry = (meta.expiry != UnixMillis::NEVER).then_some(meta.expiry.0);
    let session = meta.session.map(|s| [s.id, s.operation]);
    for word in expiry.into_iter().chain(session.into_iter().flatten()) {
        memory.store(next, word);
        next += 8;
    }
    memory.copy_in(next, key);
    draft
}

/// Writes the next piece of the value. `scratch` is only used to read back pieces that arrived in parts.
pub(crate) fn fill<M: OwnedWords>(
    memory: &M,
    sums: &SumKey,
    draft: &mut Draft,
    at: u64,
    bytes: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<(), FillError> {
    let (before, len) = (draft.filled, draft.value_len as usize);
    if at != before as u64 {
        return Err(FillError::Order { expected: before as u64, got: at });
    }
    if bytes.len() > len - before {
        return Err(FillError::Beyond { end: at.saturating_add(bytes.len() as u64), len: len as u64 });
    }
    copy_in_anywhere(memory, draft.value_at() + at, bytes);
    draft.filled += bytes.len();
    loop {
        let from = draft.summed;
        let to = (from + VALUE_PIECE).min(len);
        if from == to || to > draft.filled {
            return Ok(());
        }
        if from >= before {
            draft.value_sum.piece(sums, &bytes[from - before..to - before]);
        } else {
            // Its start came with an earlier call. No other thread writes the room, so it reads as it was
            // written.
            let start = draft.value_at() + from as u64;
            let skip = (start % 8) as usize;
            scratch.resize(skip + to - from, 0);
            memory.copy_out(start - skip as u64, scratch);
            draft.value_sum.piece(sums, &scratch[skip..]);
        }
        draft.summed = to;
    }
}

/// Copies to an offset that need not be a whole word; the room's other bytes stay.
fn copy_in_anywhere<M: OwnedWords>(memory: &M, at: u64, bytes: &[u8]) {
    let skip = (at % 8) as usize;
    if skip == 0 {
        return memory.copy_in(at, bytes);
    }
    let head = bytes.len().min(8 - skip);
    let mut word = memory.load(at - skip as u64).to_le_bytes();
    word[skip..skip + head].copy_from_slice(&bytes[..head]);
    memory.store(at - skip as u64, u64::from_le_bytes(word));
    if head < bytes.len() {
        memory.copy_in(at + head as u64, &bytes[head..]);
    }
}

/// Gives the entry its version and its position, and makes it valid with the last store.
pub(crate) fn finish<M: OwnedWords>(
    memory: &M,
    sums: &SumKey,
    mut draft: Draft,
    csn: Csn,
    position: u64,
) -> EntryRef {
    assert!(csn.is_valid(), "csn {} cannot name an entry", csn.0);
    assert_eq!(draft.missing(), 0, "a draft was finished before its value was complete");
    let (at, flags) = (draft.room.offset, draft.meta.flags());
    let mark = layout::mark_word(draft.room.term, draft.room.generation);
    let version = layout::version_word(csn, draft.meta.kind, flags);
    let lengths = layout::lengths_word(draft.key_len as usize, draft.value_len as usize, draft.stream);
    let session = draft.meta.session.unwrap_or(OperationId { id: 0, operation: 0 });
    let mut words = [0; HEADER_MAX - layout::VERSION as usize];
    let mut used = 0;
    let mut push = |there: bool, word: u64| {
        if there {
            words[used..used + 8].copy_from_slice(&word.to_le_bytes());
            used += 8;
        }
    };
    push(true, version);
    push(true, lengths);
    push(true, position);
    push(flags & layout::EXPIRY != 0, draft.meta.expiry.0);
    push(flags & layout::SESSION != 0, session.id);
    push(flags & layout::SESSION != 0, session.operation);
    let sum = layout::entry_sum(sums, at, mark, &words[..used], draft.key_sum, draft.value_sum);
    memory.store(at + layout::VERSION, version);
    memory.store(at + layout::POSITION, position);
    memory.store(at + layout::SUM, sum);
    draft.returns = None;
    EntryRef { offset: at, len: draft.entry_len() }
}

/// Sets the superseded bit of the entry of version `csn`. The one caller that did gets the entry's length in
/// whole cache lines, every later caller gets `None`.
pub(crate) fn supersede<M: OwnedWords>(memory: &M, place: EntryRef, csn: Csn) -> Option<u32> {
    let (found, _, flags) = layout::split_version(memory.load(place.offset + layout::VERSION));
    assert_eq!(found, csn, "the index names version {csn:?} at {place:?}, which holds {found:?}");
    let lengths = layout::split_lengths(memory.load(place.offset + layout::LENGTHS));
    let (key, value, _) = lengths.expect("lengths of an entry of ours");
    let entry = EntryRef { offset: place.offset, len: layout::entry_len(flags, key, value) as u32 };
    assert_eq!(entry.units(), place.units(), "the index names {place:?}, the entry is {entry:?}");
    let mark = memory.load(place.offset + layout::MARK);
    if mark & layout::SUPERSEDED != 0 {
        return None;
    }
    // Exactly one caller finds the clear mark: nothing but this bit changes while the entry lives.
    memory
        .compare_exchange(place.offset + layout::MARK, mark, mark | layout::SUPERSEDED)
        .ok()
        .map(|()| entry.units())
}
