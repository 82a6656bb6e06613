//! Entries in the replica's own arena, which its leader writes meanwhile, or its own workers.

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{Csn, EntryRef, Term, UnixMillis};
use longarm_index::tree::{Ages, EntryKind as TreeKind, TreeEntry};
use longarm_memory::{Mapped, SumKey, Words};
use longarm_store::object::{EntryKind, layout, read, total_len};
use longarm_store::segment::ArenaGeometry;
use longarm_store::segment::layout::segment_of;
use longarm_store::{ArenaView, Entry, SegmentUse};
use longarm_wire::FAR_FROM;

/// The longest entry whose value can travel with a page: that of a value that is not far, and of any key.
pub(crate) const INLINE_ENTRY: u32 = FAR_FROM as u32 + 2048;

/// The arena as the orderer sees it.
#[derive(Clone)]
pub(crate) struct OwnArena {
    memory: Mapped,
    sums: SumKey,
    geometry: Option<ArenaGeometry>,
    /// The use of the segment of the last entry that was looked for.
    last: Option<SegmentUse>,
    /// Room for an entry.
    bytes: Vec<u8>,
}

/// An entry, as far as the tree is concerned; its key lies in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// Where the key begins in the buffer, and its length.
    pub key: (usize, usize),
    pub kind: TreeKind,
    pub csn: Csn,
    pub age: u128,
    pub place: EntryRef,
    pub expiry: UnixMillis,
    /// Whether collection made this copy.
    pub copy: bool,
}

impl Seen {
    /// Notes an entry; its key goes to the end of `keys`.
    pub fn of(place: EntryRef, entry: &Entry<'_>, keys: &mut Vec<u8>) -> Seen {
        let kind = match entry.kind {
            EntryKind::Put => TreeKind::Put,
            EntryKind::Move => TreeKind::Move,
            EntryKind::Tombstone => TreeKind::Tombstone,
            EntryKind::Noop => TreeKind::Noop,
        };
        let key = (keys.len(), entry.key.len());
        keys.extend_from_slice(entry.key);
        let (csn, age, expiry) = (entry.csn, entry.age().bits(), entry.expiry);
        Seen { key, kind, csn, age, place, expiry, copy: entry.moved }
    }

    /// Its key.
    pub fn key<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.key.0..self.key.0 + self.key.1]
    }

    /// The entry for a tree.
    pub fn tree_entry<'k>(&self, keys: &'k [u8]) -> TreeEntry<'k> {
        let Seen { kind, csn, age, place, expiry, .. } = *self;
        TreeEntry { key: self.key(keys), kind, csn, age, entry: place, expiry }
    }

    /// Whether a tree that has, or will have, what it may be a copy of has a use for it. A saved outcome says
    /// nothing of a key, and the copy of a tombstone nothing that the tombstone did not.
    pub fn counts(&self) -> bool {
        self.kind != TreeKind::Noop && !(self.copy && self.kind == TreeKind::Tombstone)
    }

    /// Whether it is a tombstone, or the copy of one.
    pub fn is_tombstone(&self) -> bool {
        self.kind == TreeKind::Tombstone
    }

    /// Whether readers find something else once it is applied.
    pub fn shows(&self) -> bool {
        !self.copy && matches!(self.kind, TreeKind::Put | TreeKind::Tombstone)
    }
}

/// Which entry of a stream is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryName {
    pub term: Term,
    pub stream: usize,
    pub position: u64,
}

/// What a place that the tree names holds.
pub(crate) enum AtPlace<'b> {
    /// The entry, read into the buffer.
    Entry(Entry<'b>),
    /// An entry of that version that is longer than was asked for.
    Long,
    /// It is no longer there.
    Nothing,
}

impl OwnArena {
    /// The arena in this memory.
    pub fn new(memory: Mapped, sums: SumKey) -> OwnArena {
        OwnArena { memory, sums, geometry: None, last: None, bytes: Vec::new() }
    }

    /// The memory and the key of its checksums.
    pub fn view(&self) -> ArenaView<'_> {
        ArenaView { memory: &self.memory, sums: &self.sums }
    }

    /// The shape of the arena, once it is laid out.
    pub fn geometry(&mut self) -> Option<ArenaGeometry> {
        if self.geometry.is_none() {
            self.geometry = ArenaGeometry::read(&self.memory, &self.sums).ok();
        }
        self.geometry
    }

    /// The entry of this name at this offset, if it is here.
    pub fn find(&mut self, name: EntryName, offset: u64, keys: &mut Vec<u8>) -> Option<Seen> {
        let geometry = self.geometry()?;
        if offset >= u64::from(geometry.segments) * SEGMENT_BYTES {
            return None;
        }
        let segment = segment_of(offset);
        let known = self.last.filter(|last| last.segment == segment && last.stands(&self.memory));
        let use_of = match known {
            Some(known) => known,
            None => SegmentUse::read(self.view(), geometry, segment)?,
        };
        self.last = Some(use_of);
        let arena = ArenaView { memory: &self.memory, sums: &self.sums };
        let (place, entry) = use_of.entry(arena, offset, &mut self.bytes)?;
        let found = EntryName { term: entry.term, stream: entry.stream.into(), position: entry.position };
        (found == name).then(|| Seen::of(place, &entry, keys))
    }

    /// Asks for the first lines of the entries at these offsets, which are wanted soon: most entries have no
    /// more. A prefetch whose page is not in the TLB does not retire before its page walk ends, so the walks
    /// overlap only in a loop that does nothing else; the second lines come when the pages are known.
    pub fn prefetch(&self, offsets: impl Iterator<Item = u64> + Clone) {
        offsets.clone().for_each(|offset| self.memory.prefetch(offset));
        offsets.for_each(|offset| self.memory.prefetch(offset + LINE));
    }

    /// The length of the entry at a place, in whole words, by its own first line; `None` if none begins
    /// there.
    pub fn len_at(&self, place: EntryRef) -> Option<u32> {
        let mut line = [0; LINE as usize];
        self.memory.copy_out(place.offset, &mut line);
        total_len(&line).ok().map(|len| len.next_multiple_of(8))
    }

    /// What is at a place that a leaf names, if it is of that version; entries of more than `most` bytes are
    /// not copied.
    pub fn at<'b>(&self, place: EntryRef, csn: Csn, most: u32, bytes: &'b mut Vec<u8>) -> AtPlace<'b> {
        let line = LINE as usize;
        // As the leaf says, in whole lines: as a rule all of the entry.
        let told = (place.len as usize).clamp(line, (most as usize).max(line));
        bytes.resize(told, 0);
        self.memory.copy_out(place.offset, bytes);
        let Ok(len) = total_len(bytes) else { return AtPlace::Nothing };
        if place.offset + u64::from(len) > self.memory.bytes() {
            return AtPlace::Nothing;
        }
        if len > most {
            let (found, ..) = layout::split_version(self.memory.load(place.offset + layout::VERSION));
            return if found == csn { AtPlace::Long } else { AtPlace::Nothing };
        }
        if len as usize > told {
            bytes.resize(len as usize, 0);
            self.memory.copy_out(place.offset, bytes);
        }
        match read(bytes, place.offset, &self.sums) {
            Ok(entry) if entry.csn == csn => AtPlace::Entry(entry),
            _ => AtPlace::Nothing,
        }
    }
}

impl Ages for OwnArena {
    fn age_of(&mut self, entry: EntryRef, csn: Csn) -> Option<u128> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let age = match self.at(entry, csn, layout::ENTRY_MAX as u32, &mut bytes) {
            AtPlace::Entry(entry) => Some(entry.age().bits()),
            _ => None,
        };
        self.bytes = bytes;
        age
    }
}
