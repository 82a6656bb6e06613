//! The one-sided search as a value: it says which bytes to READ next and is fed what came. No I/O, no clock.
//! A hash table is right for that (HiStore 2.3), and readers change nothing (Cell 2.1). One READ sees every
//! place of a key, where others need one a probe (NoSQL landscape 3.8).
//!
//! Reads: copied-out bytes of pairs that workers change meanwhile; each cache line may be of another moment.
//! The paper takes a READ to be of one moment (continuity hashing IV.A; C1).
//! Why its answers are right (the order of stores is in `owner.rs`; the all-cuts tests enumerate it):
//! (1) A record that verifies was valid at some moment of its READ: each of its words was in memory at a
//!     moment of the READ, they are of one version, and a version's words are all there together between its
//!     last store and the first store of its successor. So a hit is final with one READ. Out of place the
//!     last store is the one that shows the record, and the first one that which hides it (decision 48).
//! (2) In place, a key that is there throughout stays in its slot: its bit and fingerprint are seen, and its
//!     slot shows the record or does not verify (TORN). Only a move to the next table wipes it, which changes
//!     the indicator. So a miss is final when a second look, posted after the first came, shows the same
//!     indicator.
//! (3) Out of place, a key that is there has a bit and its fingerprint in the header at each moment, but it
//!     changes its slot when it is replaced. So a miss is final when a second look, posted after the first
//!     came, shows the same indicator (its version count does not repeat within a READ), and the key in no
//!     slot either: the key would have stood in one slot between the two, and that is a candidate of one of
//!     the looks at least, since fingerprints are read at the moment of their indicator, or all before it, or
//!     all behind it (a copy by a processor goes word by word). Where there are candidates, each must hold
//!     the same record in both looks: the key may have come into one of them after that was read, and before
//!     the header was. And no miss is final if the first look shows the pair locked: the delete that it shows
//!     may not be persistent yet.
//! (4) A pair that has SPILLED keeps that, so a key that is there throughout was seen in its slot, or is the
//!     server's to find.
//! (5) A pair whose owner word is zero was never used, or its table was given back since: that is so if the
//!     epoch of the geometry, looked at after the pair, is above the one that the search began with. (A
//!     table's memory is given back after the epoch has changed.)

use longarm_base::{Csn, EntryRef, Mutant, Place, UnixMillis};
use longarm_memory::{Hash, SumKey, short_equal};

use super::layout::{Discipline, GROUPS_MAX, Geometry, Header, INDEX_REGION, SlotKind, Table, indicator};
use super::slot::{Record, SlotView, seed};
use crate::control::{HEARTBEAT_PLACE, Heartbeat};

/// How much one READ fetches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadGranularity {
    /// The window of the key, which the paper calls a segment: one round trip (networks).
    Window,
    /// The header line, then the line of each matching slot (shared memory, where a line costs a cache miss).
    Lines,
}

impl ReadGranularity {
    /// The first READ of a search.
    #[inline(always)]
    fn first_place(self, table: &Table, pair: u64, odd: bool) -> Place {
        match self {
            ReadGranularity::Window => table.window_place(pair, odd),
            ReadGranularity::Lines => table.header_place(pair),
        }
    }
}

/// An item that was found inline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InlineItem {
    /// Version.
    pub csn: Csn,
    /// First byte of the value in the bytes just fed.
    pub value_at: u32,
    /// Length of the value.
    pub value_len: u32,
    /// When it is gone.
    pub expiry: UnixMillis,
    /// Where the slot stands: a repeat GET may READ it alone and ask [`Search::check_slot`].
    pub slot: Place,
}

/// What the search wants or found. At most one kind of step carries something along: where several do, the
/// compiler keeps the step in memory and copies it in words that span fields, and a load that spans two
/// stores waits for both (decision 40).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SearchStep {
    /// READ [`Search::place`] and [`feed`](Search::feed) it.
    Read,
    /// The item is [`Search::item`], inline in the bytes just fed.
    Found,
    /// The item may be this entry: fetch and verify it, compare csn and key. If it is sound but of another
    /// key, go on with [`not_it`](Search::not_it); if it does not verify or has another csn, start again.
    Entry {
        /// Where.
        entry: EntryRef,
        /// The version it must carry.
        csn: Csn,
    },
    /// No such key.
    Absent,
    /// The server alone can tell: the item may stand beside the table, or too many keys look like it.
    Ask,
    /// The bytes are of different moments: start again.
    Torn,
    /// The key's pair moved to a table this geometry does not name, or the header is of another table:
    /// refresh it.
    Stale,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SearchStage {
    /// Waiting for header (or window).
    Header,
    /// Waiting for one slot's line.
    Slot(u8),
    /// Waiting for the header again.
    Confirm,
    /// The pair was never used, if its table still is: waiting for the epoch.
    Unused,
}

/// What it means that no candidate of a look is the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Miss {
    /// The key is absent if the header is still the same.
    SameHeader,
    /// It is if another look shows the same.
    SameLook,
    /// Nothing: the pair is being changed.
    Void,
}

/// A search in progress: three cache lines, as hundreds may be in flight.
#[derive(Clone, Debug)]
pub struct Search {
    hash: Hash,
    pair: u64,
    /// Indicator and groups of the header of this look.
    indicator: u64,
    groups: [u32; GROUPS_MAX],
    /// Slots still to be looked at in this look.
    candidates: u32,
    granularity: ReadGranularity,
    stage: SearchStage,
    table_at: u8,
    odd: bool,
    /// The READ that it waits for.
    place: Place,
    /// What it found.
    item: InlineItem,
    /// What it means if this look finds nothing.
    miss: Miss,
    /// Out of place: fold of the indicator and all candidate slots of this look, and of the one before.
    digest: u64,
    before: Option<u64>,
    /// Entries that were fetched and are of other keys (equal hash or tag: one in 2^24 slots or rarer).
    others: Option<Box<[Csn; OTHERS_MAX]>>,
}

/// A slot and where its bytes are.
#[derive(Clone, Copy)]
struct SlotBytes<'b> {
    /// Its number in the pair.
    slot: usize,
    /// Its offset in the index.
    at: u64,
    /// Bytes of a READ that has it...
    bytes: &'b [u8],
    /// ...from here on.
    within: usize,
}

/// Entries of other keys that a search steps over before it gives up with [`SearchStep::Ask`].
const OTHERS_MAX: usize = 4;

impl Search {
    /// Starts a search; the first step is always a READ.
    #[inline(always)]
    pub fn start(hash: Hash, geometry: &Geometry, granularity: ReadGranularity) -> (Search, SearchStep) {
        let table = geometry.tables[0].as_ref().expect("a geometry has a table");
        let (pair, odd) = table.home(hash);
        let place = granularity.first_place(table, pair, odd);
        let item =
            InlineItem { csn: Csn::NONE, value_at: 0, value_len: 0, expiry: UnixMillis::NEVER, slot: place };
        let search = Search {
            hash,
            pair,
            indicator: 0,
            groups: [0; GROUPS_MAX],
            candidates: 0,
            granularity,
            stage: SearchStage::Header,
            table_at: 0,
            odd,
            place,
            item,
            miss: Miss::Void,
            digest: 0,
            before: None,
            others: None,
        };
        (search, SearchStep::Read)
    }

    /// The READ that it waits for, after [`SearchStep::Read`].
    #[inline(always)]
    pub fn place(&self) -> Place {
        self.place
    }

    /// What it found, after [`SearchStep::Found`].
    #[inline(always)]
    pub fn item(&self) -> InlineItem {
        self.item
    }

    #[inline(always)]
    fn want(&mut self, place: Place) -> SearchStep {
        self.place = place;
        SearchStep::Read
    }

    /// The first READ again, to start over.
    pub fn restart(&mut self, geometry: &Geometry) -> Place {
        self.place = self.first_place(self.table(geometry));
        self.place
    }

    /// Hash of the key.
    #[inline(always)]
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Table in which the search is.
    #[inline(always)]
    pub fn table<'g>(&self, geometry: &'g Geometry) -> &'g Table {
        geometry.tables[self.table_at as usize].as_ref().expect("a search is in a live table")
    }

    #[inline(always)]
    fn first_place(&self, table: &Table) -> Place {
        self.granularity.first_place(table, self.pair, self.odd)
    }

    /// Takes the bytes of the READ that the last step asked for; `geometry` is the one it was started with.
    #[inline(always)]
    pub fn feed(&mut self, key: &[u8], bytes: &[u8], geometry: &Geometry, sums: &SumKey) -> SearchStep {
        let table = self.table(geometry);
        match self.stage {
            SearchStage::Header => self.feed_header(key, bytes, table, geometry, sums),
            SearchStage::Slot(slot) => self.feed_slot(key, slot as usize, bytes, table, sums),
            SearchStage::Confirm => self.feed_confirmation(bytes, table),
            SearchStage::Unused => feed_epoch(bytes, geometry),
        }
    }

    /// The entry of this version is sound but of another key: look again, and step over it.
    pub fn not_it(&mut self, csn: Csn, geometry: &Geometry) -> SearchStep {
        let others = self.others.get_or_insert_default();
        let Some(free) = others.iter_mut().find(|other| **other == Csn::NONE) else { return SearchStep::Ask };
        *free = csn;
        self.stage = SearchStage::Header;
        self.before = None;
        self.want(self.first_place(self.table(geometry)))
    }

    #[inline(always)]
    fn feed_header(
        &mut self,
        key: &[u8],
        bytes: &[u8],
        table: &Table,
        geometry: &Geometry,
        sums: &SumKey,
    ) -> SearchStep {
        let at = self.header_in_first(table);
        let Some(line) = bytes.get(at..at + 64).and_then(|line| line.try_into().ok()) else {
            return SearchStep::Torn;
        };
        let header = Header::parse(line);
        if header.table != table.id {
            return self.of_another_table(&header);
        }
        if header.moved() {
            return self.next_table(geometry);
        }
        let mask = table.shape.home_mask(self.odd);
        self.candidates = header.candidates(self.hash, mask);
        (self.indicator, self.groups) = (header.indicator, header.groups);
        self.miss = match table.discipline {
            Discipline::InPlace => Miss::SameHeader,
            Discipline::OutOfPlace if header.locked && !Mutant::MissLocked.is_on() => Miss::Void,
            Discipline::OutOfPlace if self.candidates == 0 => Miss::SameHeader,
            Discipline::OutOfPlace => Miss::SameLook,
        };
        self.digest = fold(0, header.indicator);
        self.next_candidate(key, bytes, table, sums)
    }

    /// The pair was never used, or belongs to another table by now.
    #[cold]
    fn of_another_table(&mut self, header: &Header) -> SearchStep {
        if header.table != 0 || header.indicator != 0 {
            return SearchStep::Stale;
        }
        self.stage = SearchStage::Unused;
        self.want(HEARTBEAT_PLACE)
    }

    #[inline(always)]
    fn header_in_first(&self, table: &Table) -> usize {
        if self.granularity == ReadGranularity::Window && !self.odd {
            table.shape.header_at() as usize
        } else {
            0
        }
    }

    fn next_table(&mut self, geometry: &Geometry) -> SearchStep {
        let next = self.table_at as usize + 1;
        let Some(Some(table)) = geometry.tables.get(next) else { return SearchStep::Stale };
        self.table_at = next as u8;
        (self.pair, self.odd) = table.home(self.hash);
        self.stage = SearchStage::Header;
        self.before = None;
        self.want(self.first_place(table))
    }

    /// Looks at candidates as long as their bytes are at hand.
    #[inline(always)]
    fn next_candidate(&mut self, key: &[u8], bytes: &[u8], table: &Table, sums: &SumKey) -> SearchStep {
        while self.candidates != 0 {
            let slot = self.candidates.trailing_zeros() as usize;
            self.candidates &= self.candidates - 1;
            let Some(at) = table.slot_at(self.pair, slot, &self.groups) else { return SearchStep::Torn };
            if let Some(within) = self.in_window(slot, bytes, table) {
                let there = SlotBytes { slot, at, bytes, within };
                if let Some(step) = self.look_at(key, there, table, sums) {
                    return step;
                }
            } else {
                self.stage = SearchStage::Slot(slot as u8);
                return self.want(slot_line(at));
            }
        }
        self.look_over(table)
    }

    /// Where a slot stands in the bytes of a window, if it is in there.
    #[inline(always)]
    fn in_window(&self, slot: usize, bytes: &[u8], table: &Table) -> Option<usize> {
        if self.granularity == ReadGranularity::Lines || slot >= table.shape.base_slots() {
            return None;
        }
        let from = if self.odd { table.shape.header_at() } else { 0 };
        let at = table.shape.slot_at(slot).checked_sub(from)? as usize;
        let len = table.shape.slot_bytes() as usize;
        (bytes.len() == table.shape.window_bytes() as usize && at + len <= bytes.len()).then_some(at)
    }

    #[inline(always)]
    fn feed_slot(
        &mut self,
        key: &[u8],
        slot: usize,
        bytes: &[u8],
        table: &Table,
        sums: &SumKey,
    ) -> SearchStep {
        let Some(at) = table.slot_at(self.pair, slot, &self.groups) else { return SearchStep::Torn };
        if bytes.len() != 64 {
            return SearchStep::Torn;
        }
        let within = (at & 63) as usize;
        match self.look_at(key, SlotBytes { slot, at, bytes, within }, table, sums) {
            Some(step) => step,
            None => self.next_candidate(key, &[], table, sums),
        }
    }

    /// Judges one slot: `None` if the search goes on.
    #[inline(always)]
    fn look_at(
        &mut self,
        key: &[u8],
        there: SlotBytes<'_>,
        table: &Table,
        sums: &SumKey,
    ) -> Option<SearchStep> {
        let SlotBytes { slot, at, bytes, within } = there;
        let view = view(table, at, bytes, within, sums);
        match view {
            // Out of place the record was there before the bit: what is read here is of another moment.
            SlotView::Empty if table.discipline == Discipline::InPlace || Mutant::SkipWiped.is_on() => None,
            SlotView::Empty | SlotView::Torn => Some(SearchStep::Torn),
            SlotView::Record(record) => {
                if table.discipline == Discipline::OutOfPlace {
                    // Collection may move a version away, and back into the slot: then its entry is another.
                    let entry = if let Record::Entry { entry, .. } = record { entry.offset } else { 0 };
                    self.digest = fold(fold(fold(self.digest, slot as u64), record.csn().0), entry);
                }
                self.judge(key, at, within, table, &record)
            }
        }
    }

    #[inline(always)]
    fn judge(
        &mut self,
        key: &[u8],
        at: u64,
        within: usize,
        table: &Table,
        record: &Record<'_>,
    ) -> Option<SearchStep> {
        match *record {
            Record::Inline { csn, key: have, value, expiry, .. } => {
                if !short_equal(have, key) {
                    return None;
                }
                let (value_at, value_len) = ((within + 16 + key.len()) as u32, value.len() as u32);
                let slot = Place::new(INDEX_REGION, at, 64);
                self.item = InlineItem { csn, value_at, value_len, expiry, slot };
                Some(SearchStep::Found)
            }
            Record::Entry { csn, entry, hash, .. } => {
                let same = match table.shape.kind {
                    SlotKind::Inline64 => hash == self.hash,
                    SlotKind::Pointer16 => hash.tag() == self.hash.tag(),
                };
                let other = self.others.as_ref().is_some_and(|others| others.contains(&csn));
                (same && !other).then_some(SearchStep::Entry { entry, csn })
            }
        }
    }

    /// All candidates were looked at and none answered.
    #[inline(always)]
    fn look_over(&mut self, table: &Table) -> SearchStep {
        if self.indicator & indicator::SPILLED != 0 {
            return SearchStep::Ask;
        }
        let out_of_place = table.discipline == Discipline::OutOfPlace;
        match self.miss {
            Miss::SameHeader | Miss::SameLook if out_of_place && Mutant::MissAtOnce.is_on() => {
                SearchStep::Absent
            }
            Miss::Void => SearchStep::Torn,
            Miss::SameHeader => {
                self.stage = SearchStage::Confirm;
                self.want(table.header_place(self.pair))
            }
            Miss::SameLook if self.before == Some(self.digest) => SearchStep::Absent,
            Miss::SameLook => {
                self.before = Some(self.digest);
                self.stage = SearchStage::Header;
                self.want(self.first_place(table))
            }
        }
    }

    fn feed_confirmation(&mut self, bytes: &[u8], table: &Table) -> SearchStep {
        let Some(line) = bytes.first_chunk::<64>() else { return SearchStep::Torn };
        let again = Header::parse(line);
        let mask = table.shape.home_mask(self.odd);
        let shown = table.discipline == Discipline::OutOfPlace && again.candidates(self.hash, mask) != 0;
        if again.indicator == self.indicator && again.table == table.id && !shown {
            SearchStep::Absent
        } else {
            SearchStep::Torn
        }
    }

    /// A repeat GET of a slot found before: the value, if the slot still holds the key.
    pub fn check_slot(
        table: u32,
        slot: Place,
        key: &[u8],
        bytes: &[u8; 64],
        sums: &SumKey,
    ) -> Option<InlineItem> {
        match SlotView::parse64(bytes, sums, seed(table, slot.offset)) {
            SlotView::Record(Record::Inline { csn, key: have, value, expiry, .. })
                if short_equal(have, key) =>
            {
                let (value_at, value_len) = (16 + key.len() as u32, value.len() as u32);
                Some(InlineItem { csn, value_at, value_len, expiry, slot })
            }
            _ => None,
        }
    }
}

/// The 64 bytes that hold a slot.
#[inline(always)]
fn slot_line(at: u64) -> Place {
    Place::new(INDEX_REGION, at & !63, 64)
}

/// Whether a pair that was never used is so still: its table is, if the epoch is that of the geometry.
#[cold]
fn feed_epoch(bytes: &[u8], geometry: &Geometry) -> SearchStep {
    match Heartbeat::parse(bytes) {
        Some(beat) if beat.epoch <= geometry.epoch => SearchStep::Absent,
        Some(_) => SearchStep::Stale,
        None => SearchStep::Torn,
    }
}

#[inline(always)]
fn view<'b>(table: &Table, at: u64, bytes: &'b [u8], within: usize, sums: &SumKey) -> SlotView<'b> {
    match table.shape.kind {
        SlotKind::Inline64 => {
            let slot = bytes[within..within + 64].try_into().expect("a slot's length");
            SlotView::parse64(slot, sums, seed(table.id, at))
        }
        SlotKind::Pointer16 => {
            SlotView::parse16(bytes[within..within + 16].try_into().expect("a slot's length"))
        }
    }
}

#[inline(always)]
fn fold(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}
