//! One GET as a value: it says which bytes to READ next, until there is an answer. It does no I/O and reads
//! no clock, and is the same for one key and for a batch, for every transport, and in tests. Its results and
//! the server's answers are of one history (Cell 2.4).
//!
//! It tries a remembered place first (one READ), else the index search, and the entry if the item is not
//! inline.

use longarm_base::{Csn, EntryRef, Mutant, Place, UnixMillis, limits};
use longarm_index::hash::{Geometry, InlineItem, ReadGranularity, Search, SearchStep};
use longarm_memory::{Hash, SumKey};
use longarm_store::object;
use longarm_wire::ARENA_REGION;

use crate::cache::Located;

/// The next step of a lookup, or its result.
///
/// What belongs to it is a field of the lookup. A step that carried its fields along would be copied in words
/// that span several of them, and a load that spans two stores waits until both have left the core (decision
/// 40).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LookupStep {
    /// READ [`Lookup::place`] and feed it.
    Read,
    /// [`Lookup::found`]: the value is in the bytes just fed ([`Lookup::located`] says where they came from).
    Hit,
    /// The entry at [`Lookup::place`] is longer than one landing slot: fetch it separately and feed it whole.
    Large,
    /// No such key.
    Miss,
    /// Only the server can tell.
    Ask,
    /// The bytes were of different moments, or the memory was reused: start again.
    Again,
    /// The geometry is out of date: refresh it, then start again.
    Refresh,
}

/// The value of a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Version.
    pub(crate) csn: Csn,
    /// First byte of the value in the bytes just fed.
    pub(crate) at: u32,
    /// Length of the value.
    pub(crate) len: u32,
    /// When the item is gone.
    pub(crate) expiry: UnixMillis,
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
    /// The READ that it wants.
    place: Place,
    /// What was found elsewhere than by the search, which knows itself.
    found: Found,
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
        let (search, _) = Search::start(hash, view.geometry, granularity);
        let found = Found { csn: Csn::NONE, at: 0, len: 0, expiry: UnixMillis::NEVER };
        let place = search.place();
        let mut lookup = Lookup { search, stage: LookupStage::Search, place, found };
        let step = match located {
            Some(Located::Slot { table, place }) if view.geometry.live().any(|t| t.id == table) => {
                lookup.stage = LookupStage::CachedSlot { table, place };
                lookup.place = place;
                LookupStep::Read
            }
            Some(Located::Entry { entry, csn }) => {
                lookup.stage = LookupStage::CachedEntry { entry, csn };
                lookup.want_entry(entry, view)
            }
            _ => LookupStep::Read,
        };
        (lookup, step)
    }

    /// The READ that it wants, or the entry that is to be fetched.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// What was found, after [`LookupStep::Hit`].
    #[inline(always)]
    pub(crate) fn found(&self) -> Found {
        match self.stage {
            LookupStage::Search => inline(self.search.item()),
            _ => self.found,
        }
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
                Located::Slot { table: self.search.table(view.geometry).id, place: self.search.item().slot }
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
        self.place = self.search.restart(view.geometry);
        LookupStep::Read
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
                    Some(item) => self.hit(inline(item)),
                    None => self.start_search(view),
                }
            }
            LookupStage::CachedEntry { entry, csn } => match object::read(bytes, entry.offset, view.sums) {
                Ok(e)
                    if e.csn == csn && e.key == key && (!e.superseded || Mutant::TrustSuperseded.is_on()) =>
                {
                    self.hit(in_entry(bytes, &e))
                }
                _ => self.start_search(view),
            },
            LookupStage::EntryHead { entry, csn } => match object::total_len(bytes) {
                Ok(len) => {
                    let entry = EntryRef { offset: entry.offset, len: len.next_multiple_of(8) };
                    self.stage = LookupStage::Entry { entry, csn };
                    self.want_entry(entry, view)
                }
                Err(_) => LookupStep::Again,
            },
            LookupStage::Entry { entry, csn } => match object::read(bytes, entry.offset, view.sums) {
                Ok(e) if e.csn == csn && e.key == key => self.hit(in_entry(bytes, &e)),
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
            SearchStep::Read => {
                self.place = self.search.place();
                LookupStep::Read
            }
            SearchStep::Found => LookupStep::Hit,
            SearchStep::Entry { entry, csn } => {
                self.stage = if entry.len == 0 {
                    LookupStage::EntryHead { entry, csn }
                } else {
                    LookupStage::Entry { entry, csn }
                };
                self.want_entry(entry, view)
            }
            SearchStep::Absent => LookupStep::Miss,
            SearchStep::Ask => LookupStep::Ask,
            SearchStep::Torn => LookupStep::Again,
            SearchStep::Stale => LookupStep::Refresh,
        }
    }

    /// Has an entry be READ, bounds-checked: its place came from remote memory (X2).
    fn want_entry(&mut self, entry: EntryRef, view: &View<'_>) -> LookupStep {
        let len = if entry.len == 0 { limits::LINE as u32 } else { entry.len };
        let inside = entry.offset.checked_add(u64::from(len)).is_some_and(|end| end <= view.arena_bytes);
        if !inside || len as usize > limits::KEY_MAX + limits::VALUE_MAX + 4096 || !len.is_multiple_of(8) {
            return LookupStep::Again;
        }
        self.place = Place::new(ARENA_REGION, entry.offset, len);
        if len > view.slot_max { LookupStep::Large } else { LookupStep::Read }
    }

    #[inline(always)]
    fn hit(&mut self, found: Found) -> LookupStep {
        self.found = found;
        LookupStep::Hit
    }
}

/// The value of an item that a slot has.
#[inline(always)]
fn inline(item: InlineItem) -> Found {
    Found { csn: item.csn, at: item.value_at, len: item.value_len, expiry: item.expiry }
}

/// The value of an entry that was just fed.
fn in_entry(bytes: &[u8], entry: &object::Entry<'_>) -> Found {
    let at = entry.value.as_ptr() as usize - bytes.as_ptr() as usize;
    Found { csn: entry.csn, at: at as u32, len: entry.value.len() as u32, expiry: entry.expiry }
}
