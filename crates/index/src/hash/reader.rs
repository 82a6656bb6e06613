//! The one-sided search as a value: it says which bytes to READ next and is fed what came. No I/O, no clock.
//!
//! Reads: copied-out bytes of pairs that workers change meanwhile; each cache line may be of another moment.
//! Why its answers are right (the order of stores is in `owner.rs`; the all-cuts tests enumerate it):
//! (1) In place, a record that verifies was valid at some moment of its READ: each of its words was in memory
//!     at a moment of the READ, they are of one version, and a version's words are all there together between
//!     its last store and the first store of its successor. So a hit is final with one READ.
//! (2) In place, a key that is there throughout stays in its slot: its bit and fingerprint are seen, and its
//!     slot shows the record or does not verify (TORN). Only a move to the next table wipes it, which changes
//!     the indicator. So a miss is final when a second look, posted after the first came, shows the same
//!     indicator.
//! (3) Out of place, what counts is the bit, so header and slot must be of one moment: two equal looks, the
//!     second posted after the first came. If both show the same indicator (its version count does not repeat
//!     within a READ) and the same candidate slots (a csn is used once), header and slots stood together at
//!     the moment of the first header.
//! (4) A pair whose owner word is zero was never used; the client's lease proves that its geometry is
//!     current.

use longarm_base::{Csn, Place, UnixMillis};
use longarm_memory::{Hash, SumKey};

use super::layout::{Discipline, Geometry, Header, INDEX_REGION, SlotKind, Table, header};
use super::slot::{EntryRef, Record, SlotView, seed};

/// How much one READ fetches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// The whole segment: one round trip (networks).
    Segment,
    /// The header line, then the line of each matching slot (shared memory, where a line costs a cache miss).
    Lines,
}

/// What the search wants or found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// READ this and [`feed`](Search::feed) it.
    Read(Place),
    /// The item, inline in the bytes just fed.
    Found {
        /// Version.
        csn: Csn,
        /// First byte of the value in the bytes just fed.
        value_at: u32,
        /// Length of the value.
        value_len: u32,
        /// When it is gone.
        expiry: UnixMillis,
        /// Where the slot stands: a repeat GET may READ it alone and ask [`Search::check_slot`].
        slot: Place,
    },
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
    /// The bytes are of different moments: start again.
    Torn,
    /// The key's pair moved to a table this geometry does not name, or the header is of another table:
    /// refresh it.
    Stale,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Waiting for header (or segment).
    Header,
    /// Waiting for one slot's line.
    Slot(u8),
    /// Waiting for the header again.
    Confirm,
}

/// A search in progress. Small and `Copy`-cheap; hundreds may be in flight.
#[derive(Clone, Debug)]
pub struct Search {
    hash: Hash,
    look: Look,
    table_at: u8,
    stage: Stage,
    table: Table,
    pair: u64,
    odd: bool,
    header: Header,
    /// Slots still to be looked at in this look.
    candidates: u32,
    /// Out of place: fold of the indicator and all candidate slots of this look, and of the one before.
    digest: u64,
    before: Option<u64>,
    /// Out of place: the entry that this look found.
    pending: Option<Step>,
    /// Entries that were fetched and are of other keys (equal hash or tag: one in 2^24 slots or rarer).
    others: [Csn; OTHERS_MAX],
}

/// Entries of other keys that a search steps over before it gives up with [`Step::Torn`].
const OTHERS_MAX: usize = 4;

impl Search {
    /// Starts a search; the first step is always a READ.
    #[inline]
    pub fn start(hash: Hash, geometry: &Geometry, look: Look) -> (Search, Step) {
        let table = geometry.tables[0].expect("a geometry has a table");
        let (pair, odd) = table.home(hash);
        let header = Header { indicator: 0, table: 0, groups: [0; 4], fingerprints: [0; 4] };
        let search = Search {
            hash,
            look,
            table_at: 0,
            stage: Stage::Header,
            table,
            pair,
            odd,
            header,
            candidates: 0,
            digest: 0,
            before: None,
            pending: None,
            others: [Csn::NONE; OTHERS_MAX],
        };
        let place = search.first_place();
        (search, Step::Read(place))
    }

    #[inline(always)]
    fn first_place(&self) -> Place {
        match self.look {
            Look::Segment => self.table.segment_place(self.pair, self.odd),
            Look::Lines => self.table.header_place(self.pair),
        }
    }

    /// Takes the bytes of the READ that the last step asked for.
    #[inline]
    pub fn feed(&mut self, key: &[u8], bytes: &[u8], geometry: &Geometry, sums: &SumKey) -> Step {
        match self.stage {
            Stage::Header => self.feed_header(key, bytes, geometry, sums),
            Stage::Slot(slot) => self.feed_slot(key, slot as usize, bytes, sums),
            Stage::Confirm => self.feed_confirmation(bytes),
        }
    }

    /// The entry of this version is sound but of another key: look again, and step over it.
    pub fn not_it(&mut self, csn: Csn) -> Step {
        let Some(free) = self.others.iter_mut().find(|other| **other == Csn::NONE) else { return Step::Torn };
        *free = csn;
        self.stage = Stage::Header;
        self.before = None;
        Step::Read(self.first_place())
    }

    fn feed_header(&mut self, key: &[u8], bytes: &[u8], geometry: &Geometry, sums: &SumKey) -> Step {
        let at = self.header_in_first();
        let Some(line) = bytes.get(at..at + 64).and_then(|line| line.try_into().ok()) else {
            return Step::Torn;
        };
        self.header = Header::parse(line);
        if self.header.table != self.table.id && (self.header.table != 0 || self.header.indicator != 0) {
            return Step::Stale;
        }
        if self.header.moved() {
            return self.next_table(geometry);
        }
        let mask = self.table.shape.home_mask(self.odd);
        self.candidates = self.header.matching(self.hash.fingerprint()) & self.header.occupied() & mask;
        self.digest = fold(0, self.header.indicator);
        self.pending = None;
        self.next_candidate(key, bytes, sums)
    }

    #[inline(always)]
    fn header_in_first(&self) -> usize {
        if self.look == Look::Segment && !self.odd { self.table.shape.header_at() as usize } else { 0 }
    }

    fn next_table(&mut self, geometry: &Geometry) -> Step {
        let next = self.table_at as usize + 1;
        let Some(Some(table)) = geometry.tables.get(next) else { return Step::Stale };
        self.table_at = next as u8;
        self.table = *table;
        (self.pair, self.odd) = table.home(self.hash);
        self.stage = Stage::Header;
        self.before = None;
        Step::Read(self.first_place())
    }

    /// Looks at candidates as long as their bytes are at hand.
    fn next_candidate(&mut self, key: &[u8], bytes: &[u8], sums: &SumKey) -> Step {
        while self.candidates != 0 {
            let slot = self.candidates.trailing_zeros() as usize;
            self.candidates &= self.candidates - 1;
            let Some(at) = self.table.slot_at(self.pair, slot, &self.header.groups) else {
                return Step::Torn;
            };
            if let Some(within) = self.in_segment(slot, bytes) {
                if let Some(step) = self.look_at(key, slot, at, bytes, within, sums) {
                    return step;
                }
            } else {
                self.stage = Stage::Slot(slot as u8);
                return Step::Read(self.slot_line(at));
            }
        }
        self.look_over()
    }

    /// The 64 bytes that hold a slot.
    #[inline(always)]
    fn slot_line(&self, at: u64) -> Place {
        Place::new(INDEX_REGION, at & !63, 64)
    }

    /// Where a slot stands in the bytes of a segment READ, if it is in there.
    #[inline(always)]
    fn in_segment(&self, slot: usize, bytes: &[u8]) -> Option<usize> {
        if self.look == Look::Lines || slot >= self.table.shape.base_slots() {
            return None;
        }
        let from = if self.odd { self.table.shape.header_at() } else { 0 };
        let at = self.table.shape.slot_at(slot).checked_sub(from)? as usize;
        let len = self.table.shape.slot_bytes() as usize;
        (bytes.len() == self.table.shape.segment_bytes() as usize && at + len <= bytes.len()).then_some(at)
    }

    fn feed_slot(&mut self, key: &[u8], slot: usize, bytes: &[u8], sums: &SumKey) -> Step {
        let Some(at) = self.table.slot_at(self.pair, slot, &self.header.groups) else { return Step::Torn };
        if bytes.len() != 64 {
            return Step::Torn;
        }
        let within = (at & 63) as usize;
        match self.look_at(key, slot, at, bytes, within, sums) {
            Some(step) => step,
            None => self.next_candidate(key, &[], sums),
        }
    }

    /// Judges one slot: `None` if the search goes on.
    #[inline(always)]
    fn look_at(
        &mut self,
        key: &[u8],
        slot: usize,
        at: u64,
        bytes: &[u8],
        within: usize,
        sums: &SumKey,
    ) -> Option<Step> {
        let view = self.view(at, bytes, within, sums);
        let step = match view {
            SlotView::Empty => None,
            SlotView::Torn => Some(Step::Torn),
            SlotView::Record(record) => self.judge(key, at, within, &record),
        };
        if self.table.discipline == Discipline::InPlace {
            return step;
        }
        // A set bit means a written slot; nothing there is of another moment (and, unlike a csn, repeats).
        let SlotView::Record(record) = view else { return Some(Step::Torn) };
        let csn = record.csn();
        self.digest = fold(fold(self.digest, slot as u64), csn.0);
        self.pending = self.pending.or(step);
        None
    }

    #[inline(always)]
    fn view<'b>(&self, at: u64, bytes: &'b [u8], within: usize, sums: &SumKey) -> SlotView<'b> {
        match self.table.shape.kind {
            SlotKind::Inline64 => {
                let slot = bytes[within..within + 64].try_into().expect("a slot's length");
                SlotView::parse64(slot, sums, seed(self.table.id, at))
            }
            SlotKind::Pointer16 => {
                SlotView::parse16(bytes[within..within + 16].try_into().expect("a slot's length"))
            }
        }
    }

    #[inline(always)]
    fn judge(&self, key: &[u8], at: u64, within: usize, record: &Record<'_>) -> Option<Step> {
        match *record {
            Record::Inline { csn, key: have, value, expiry } => (have == key).then(|| Step::Found {
                csn,
                value_at: (within + 16 + key.len()) as u32,
                value_len: value.len() as u32,
                expiry,
                slot: Place::new(INDEX_REGION, at, 64),
            }),
            Record::Entry { csn, entry, hash, .. } => {
                let same = match self.table.shape.kind {
                    SlotKind::Inline64 => hash == self.hash,
                    SlotKind::Pointer16 => hash.tag() == self.hash.tag(),
                };
                (same && !self.others.contains(&csn)).then_some(Step::Entry { entry, csn })
            }
        }
    }

    /// All candidates were looked at and none answered.
    fn look_over(&mut self) -> Step {
        match self.table.discipline {
            Discipline::InPlace => {
                self.stage = Stage::Confirm;
                Step::Read(self.table.header_place(self.pair))
            }
            Discipline::OutOfPlace => {
                let (digest, pending) = (self.digest, self.pending.take());
                if self.before == Some(digest) {
                    return pending.unwrap_or(Step::Absent);
                }
                self.before = Some(digest);
                self.stage = Stage::Header;
                Step::Read(self.first_place())
            }
        }
    }

    fn feed_confirmation(&mut self, bytes: &[u8]) -> Step {
        let Some(line) = bytes.first_chunk::<64>() else { return Step::Torn };
        let again = Header::parse(line);
        if again.indicator == self.header.indicator && again.table == self.header.table {
            Step::Absent
        } else {
            Step::Torn
        }
    }

    /// A repeat GET of a slot found before: the value, if the slot still holds the key. Tables updated in
    /// place only.
    pub fn check_slot(table: u32, slot: Place, key: &[u8], bytes: &[u8; 64], sums: &SumKey) -> Option<Step> {
        match SlotView::parse64(bytes, sums, seed(table, slot.offset)) {
            SlotView::Record(Record::Inline { csn, key: have, value, expiry }) if have == key => {
                let (value_at, value_len) = (16 + key.len() as u32, value.len() as u32);
                Some(Step::Found { csn, value_at, value_len, expiry, slot })
            }
            _ => None,
        }
    }

    /// Table in which the search is.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

#[inline(always)]
fn fold(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

const _: () = assert!(header::BYTES == 64);
