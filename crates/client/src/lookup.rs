//! One GET as a value: it says which bytes to READ next, until there is an answer. It does no I/O and reads
//! no clock, and is the same for one key and for a batch, for every transport, and in tests. Its results and
//! the server's answers are of one history (Cell 2.4).
//!
//! It tries a remembered place first (one READ), else the index search, and the entry if the item is not
//! inline.

use longarm_base::{Csn, EntryRef, Mutant, Place, UnixMillis, limits};
use longarm_index::hash::{Geometry, ReadGranularity, Search, SearchStep};
use longarm_memory::{Hash, SumKey};
use longarm_store::object;
use longarm_wire::ARENA_REGION;

use crate::cache::Located;

/// The next step of a lookup, or its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LookupStep {
    /// READ this and feed it.
    Read(Place),
    /// Found: the value is in the bytes just fed ([`Lookup::located`] says where they came from).
    Hit { csn: Csn, at: u32, len: u32, expiry: UnixMillis },
    /// The entry is longer than one landing slot: fetch it separately and feed it whole.
    Large { entry: EntryRef },
    /// No such key.
    Miss,
    /// Only the server can tell.
    Ask,
    /// The bytes were of different moments, or the memory was reused: start again.
    Again,
    /// The geometry is out of date: refresh it, then start again.
    Refresh,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LookupStage {
    CachedSlot {
        table: u32,
        place: Place,
    },
    CachedEntry {
        entry: EntryRef,
        csn: Csn,
    },
    Search,
    /// Waits for the first line of an entry whose length the slot does not say.
    EntryHead {
        entry: EntryRef,
        csn: Csn,
    },
    Entry {
        entry: EntryRef,
        csn: Csn,
    },
}

/// A GET in progress.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    search: Search,
    stage: LookupStage,
    /// Slot of the inline item that the search found.
    slot: Place,
}

/// The state that every step needs to know.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) sums: &'a SumKey,
    pub(crate) arena_bytes: u64,
    /// Longest READ into a landing slot.
    pub(crate) slot_max: u32,
}

impl Lookup {
    #[inline(always)]
    pub(crate) fn start(
        hash: Hash,
        granularity: ReadGranularity,
        located: Option<Located>,
        view: &View<'_>,
    ) -> (Lookup, LookupStep) {
        let (search, step) = Search::start(hash, view.geometry, granularity);
        let SearchStep::Read(first) = step else { unreachable!("a search begins with a READ") };
        let mut lookup = Lookup { search, stage: LookupStage::Search, slot: first };
        let want = match located {
            Some(Located::Slot { table, place }) if view.geometry.live().any(|t| t.id == table) => {
                lookup.stage = LookupStage::CachedSlot { table, place };
                LookupStep::Read(place)
            }
            Some(Located::Entry { entry, csn }) => {
                lookup.stage = LookupStage::CachedEntry { entry, csn };
                lookup.entry_place(entry, view)
            }
            _ => LookupStep::Read(first),
        };
        (lookup, want)
    }

    /// Hash of the key.
    #[inline(always)]
    pub(crate) fn hash(&self) -> Hash {
        self.search.hash()
    }

    /// The place of a hit's value.
    #[inline]
    pub(crate) fn located(&self, view: &View<'_>) -> Located {
        match self.stage {
            LookupStage::CachedSlot { table, place } => Located::Slot { table, place },
            LookupStage::Search => {
                Located::Slot { table: self.search.table(view.geometry).id, place: self.slot }
            }
            LookupStage::CachedEntry { entry, csn }
            | LookupStage::EntryHead { entry, csn }
            | LookupStage::Entry { entry, csn } => Located::Entry { entry, csn },
        }
    }

    /// Searches from the start, as the remembered place did not answer.
    #[cold]
    fn start_search(&mut self, view: &View<'_>) -> LookupStep {
        self.stage = LookupStage::Search;
        LookupStep::Read(self.search.first(view.geometry))
    }

    /// Takes the bytes of the READ (or of the large entry) that the last step asked for.
    #[inline(always)]
    pub(crate) fn feed(&mut self, key: &[u8], bytes: &[u8], view: &View<'_>) -> LookupStep {
        match self.stage {
            LookupStage::Search => {
                let step = self.search.feed(key, bytes, view.geometry, view.sums);
                self.follow(step, view)
            }
            LookupStage::CachedSlot { table, place } => {
                let slot = bytes.first_chunk::<64>();
                let found = slot.and_then(|slot| Search::check_slot(table, place, key, slot, view.sums));
                match found {
                    Some(SearchStep::Found { csn, value_at, value_len, expiry, .. }) => {
                        LookupStep::Hit { csn, at: value_at, len: value_len, expiry }
                    }
                    _ => self.start_search(view),
                }
            }
            LookupStage::CachedEntry { entry, csn } => match object::read(bytes, entry.offset, view.sums) {
                Ok(e)
                    if e.csn == csn && e.key == key && (!e.superseded || Mutant::TrustSuperseded.is_on()) =>
                {
                    hit(bytes, &e)
                }
                _ => self.start_search(view),
            },
            LookupStage::EntryHead { entry, csn } => match object::total_len(bytes) {
                Ok(len) => {
                    let entry = EntryRef { offset: entry.offset, len: len.next_multiple_of(8) };
                    self.stage = LookupStage::Entry { entry, csn };
                    self.entry_place(entry, view)
                }
                Err(_) => LookupStep::Again,
            },
            LookupStage::Entry { entry, csn } => match object::read(bytes, entry.offset, view.sums) {
                Ok(e) if e.csn == csn && e.key == key => hit(bytes, &e),
                Ok(e) if e.csn == csn => {
                    let step = self.search.not_it(csn, view.geometry);
                    self.stage = LookupStage::Search;
                    self.follow(step, view)
                }
                _ => LookupStep::Again,
            },
        }
    }

    #[inline(always)]
    fn follow(&mut self, step: SearchStep, view: &View<'_>) -> LookupStep {
        match step {
            SearchStep::Read(place) => LookupStep::Read(place),
            SearchStep::Found { csn, value_at, value_len, expiry, slot } => {
                self.slot = slot;
                LookupStep::Hit { csn, at: value_at, len: value_len, expiry }
            }
            SearchStep::Entry { entry, csn } => {
                self.stage = if entry.len == 0 {
                    LookupStage::EntryHead { entry, csn }
                } else {
                    LookupStage::Entry { entry, csn }
                };
                self.entry_place(entry, view)
            }
            SearchStep::Absent => LookupStep::Miss,
            SearchStep::Ask => LookupStep::Ask,
            SearchStep::Torn => LookupStep::Again,
            SearchStep::Stale => LookupStep::Refresh,
        }
    }

    /// The READ of an entry, bounds-checked: its place came from remote memory (X2).
    fn entry_place(&self, entry: EntryRef, view: &View<'_>) -> LookupStep {
        let len = if entry.len == 0 { limits::LINE as u32 } else { entry.len };
        let inside = entry.offset.checked_add(u64::from(len)).is_some_and(|end| end <= view.arena_bytes);
        if !inside || len as usize > limits::KEY_MAX + limits::VALUE_MAX + 4096 || !len.is_multiple_of(8) {
            return LookupStep::Again;
        }
        if len > view.slot_max {
            return LookupStep::Large { entry };
        }
        LookupStep::Read(Place::new(ARENA_REGION, entry.offset, len))
    }
}

fn hit(bytes: &[u8], entry: &object::Entry<'_>) -> LookupStep {
    let at = entry.value.as_ptr() as usize - bytes.as_ptr() as usize;
    LookupStep::Hit { csn: entry.csn, at: at as u32, len: entry.value.len() as u32, expiry: entry.expiry }
}
