//! The owner's side of the hash table: changing a pair under its lock.
//!
//! Writes: any worker of the server (continuity hashing III.B), one at a time a pair. Reads: anyone, at
//! any moment (`reader.rs`).
//! The order of stores is the protocol (the store rule of longarm-memory makes it the order of sight):
//! (1) In place, a record is valid exactly while its slot verifies. INSERT: fingerprint, then bit and
//!     version, then the record; a reader that misses bit or record ran before it. REMOVE: the record is
//!     wiped first, then the bit goes. REPLACE: the slot's words change; a reader sees the old record, the
//!     new one, or one that does not verify. So a record that verified was valid at some moment of the READ,
//!     whatever order its lines came in.
//! (2) Out of place, a record is persistent while its bit is, and valid to readers exactly while its slot
//!     verifies, as in place. The record is written hidden, flush, fence; then the old one is hidden; one
//!     store of the indicator switches from the old slot to the new (continuity hashing III.C), flush, fence;
//!     and only then is the new record shown, and the old slot wiped. INSERT and REMOVE are its halves. So
//!     what a reader takes is persistent, and a loss of power undoes no store but those that hide and show.
//! (3) Every change of the indicator takes one step of its version count.
//! (4) MOVED is set by the store that clears all bits, after the records stand in the next table; the slots
//!     are wiped before the lock goes, so no update in the next table can be missed by a reader of a leftover
//!     record.
//! (5) A key is in one slot of one pair (stripe lock per pair: C3; continuity hashing IV.A has a lock a
//!     slot); the indicator is changed only under the lock (C2).
//! (6) Locks of pairs are taken in the order of the tables, oldest first; nothing waits on a network while
//!     holding one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use longarm_base::{Csn, EntryRef, Mutant, Nanos, limits};
use longarm_memory::{Budget, Hash, HashKey, OwnedWords, SumKey};

use super::found::{Found, view};
use super::layout::{
    Discipline, GROUPS_MAX, Geometry, Header, PairShape, SlotKind, Table, header, indicator,
};
use super::slot::{Record, SlotView, seed, turned};
use super::spill::Spilled;

/// What the index must know of entries, which it does not read itself.
pub trait Entries: Send + Sync {
    /// Whether the entry there is of this version and key.
    fn is_of(&self, entry: EntryRef, csn: Csn, key: &[u8]) -> bool;
    /// Hash of the key of the entry there; `None` if it is not of this version (a broken invariant).
    fn hash_of(&self, entry: EntryRef, csn: Csn, hash: &HashKey) -> Option<Hash>;
    /// Key of the entry there; `None` as above.
    fn key_of(&self, entry: EntryRef, csn: Csn) -> Option<Vec<u8>>;
}

/// How to build an index.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Kind of slots.
    pub slots: SlotKind,
    /// How records are replaced.
    pub discipline: Discipline,
    /// Items to have room for before the first growth.
    pub expected_items: u64,
    /// Items that are about to be put in, if more: they get room within the memory limit or beyond it, if the
    /// region has it, since growing meanwhile takes several times as long.
    pub found_items: u64,
    /// The first table takes its memory at once, rather than by [`Owner::populate_some`].
    pub populate: bool,
    /// Key of the placing hash, drawn at random.
    pub hash_key: u64,
    /// Inline items stand in the arena too (`places.rs`).
    pub places: bool,
}

/// No slot is free for this key: call [`Owner::make_room`] and try again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRoom {
    /// The pair has as many slots as a pair can have. A larger table would have room, unless the keys were
    /// chosen so that they stay together.
    Pair,
    /// The table has no group left to add, or the memory limit is reached.
    Table,
}

/// The table cannot grow: the memory limit is reached, or too many tables are still being moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the hash index cannot grow within the memory limit")]
pub struct Full;

/// What a new table must fit into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bound {
    /// The memory limit.
    Budget,
    /// Only the region.
    Region,
}

/// A table in use, with what only its owner knows.
pub(super) struct LiveTable {
    pub(super) table: Table,
    /// Groups handed out of the pool, and of them those that came back.
    pub(super) groups: AtomicU64,
    pub(super) back: Mutex<Vec<u32>>,
    /// Pairs that have added groups.
    pub(super) extended: AtomicU64,
    /// Pairs that have as many as a pair may have.
    pub(super) whole: AtomicU64,
    /// First pair that the background move has not visited.
    pub(super) cursor: AtomicU64,
    /// Pairs that were looked at for groups to give back, since the table could not grow (`compact.rs`).
    pub(super) compacted: AtomicU64,
    /// Bytes from its start for which memory was taken.
    pub(super) populated: AtomicU64,
    /// Bytes of it in huge pages.
    pub(super) huge: AtomicU64,
}

impl LiveTable {
    /// A table in which nothing stands yet.
    pub(super) fn new(table: Table) -> LiveTable {
        LiveTable {
            table,
            groups: AtomicU64::new(0),
            back: Mutex::default(),
            extended: AtomicU64::new(0),
            whole: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            populated: AtomicU64::new(0),
            huge: AtomicU64::new(0),
        }
    }
}

pub(super) struct IndexState {
    pub(super) geometry: Geometry,
    pub(super) live: Vec<Arc<LiveTable>>,
}

/// A table out of use.
pub(super) struct Retired {
    pub(super) table: Table,
    pub(super) since: Since,
    /// Bytes of it that were wiped.
    pub(super) wiped: u64,
}

/// Since when a table is out of use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Since {
    /// Nobody has looked since.
    New,
    /// Since before the last look at it ended.
    Seen,
    /// At the latest since then.
    At(Nanos),
}

/// Is told every geometry before any reader can need it.
pub(super) type Publish = Box<dyn Fn(&Geometry) + Send + Sync>;

/// Owner of all hash tables of a region.
pub struct Owner<M: OwnedWords, E: Entries> {
    pub(super) memory: M,
    pub(super) entries: E,
    pub(super) sums: SumKey,
    pub(super) hash: HashKey,
    pub(super) budget: Arc<Budget>,
    pub(super) options: Options,
    pub(super) state: RwLock<IndexState>,
    pub(super) retired: Mutex<Vec<Retired>>,
    pub(super) spilled: Spilled,
    pub(super) publish: Publish,
    pub(super) next_id: AtomicU64,
    pub(super) items: AtomicU64,
}

impl<M: OwnedWords, E: Entries> Owner<M, E> {
    /// An empty index at the start of `memory`, which is zeroed. `publish` is told every geometry before any
    /// reader can need it, and is called with the index locked.
    pub fn create(
        memory: M,
        entries: E,
        sums: SumKey,
        budget: Arc<Budget>,
        options: Options,
        publish: impl Fn(&Geometry) + Send + Sync + 'static,
    ) -> Result<Owner<M, E>, Full> {
        let shape = PairShape::of(options.slots);
        let most = memory.bytes() / limits::LINE;
        // Two thirds full with so many items, below the load at which tables grow.
        let add_table = |owner: &Owner<M, E>, items: u64, bound| {
            let pairs = (items.saturating_mul(3) / 2).div_ceil(shape.base_slots() as u64).max(16);
            if pairs > most { Err(Full) } else { owner.add_table(pairs, 0, bound) }
        };
        let geometry = Geometry { epoch: 0, tables: [None; limits::TABLES_MAX], hash_key: options.hash_key };
        let owner = Owner::over(memory, entries, sums, budget, options, geometry, Box::new(publish));
        let (expected, found) = (options.expected_items, options.found_items);
        if found <= expected || add_table(&owner, found, Bound::Region).is_err() {
            add_table(&owner, expected, Bound::Budget)?;
        }
        Ok(owner)
    }

    /// The owner of no tables yet, after those of this geometry.
    pub(super) fn over(
        memory: M,
        entries: E,
        sums: SumKey,
        budget: Arc<Budget>,
        options: Options,
        geometry: Geometry,
        publish: Publish,
    ) -> Owner<M, E> {
        let last = geometry.live().map(|table| u64::from(table.id)).max().unwrap_or(0);
        Owner {
            memory,
            entries,
            sums,
            hash: HashKey::new(geometry.hash_key),
            budget,
            options,
            state: RwLock::new(IndexState { geometry, live: Vec::new() }),
            retired: Mutex::new(Vec::new()),
            spilled: Spilled::default(),
            publish,
            next_id: AtomicU64::new(last + 1),
            items: AtomicU64::new(0),
        }
    }

    /// Bytes of a table, and of what stands behind it.
    pub(super) fn bytes_of(&self, table: &Table) -> u64 {
        table.bytes() + if self.options.places { table.places_for() } else { 0 }
    }

    /// The memory of the tables.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The hash that places keys.
    pub fn hasher(&self) -> &HashKey {
        &self.hash
    }

    /// Bytes of the tables in use that stand in huge pages.
    pub fn huge_bytes(&self) -> u64 {
        let state = self.state.read().expect("index state");
        // Relaxed: a figure for people.
        state.live.iter().map(|live| live.huge.load(Ordering::Relaxed)).sum()
    }

    /// Number of items.
    pub fn items(&self) -> u64 {
        // Relaxed: a counter that publishes nothing else.
        self.items.load(Ordering::Relaxed)
    }

    /// Items of them that stand beside the tables (`spill.rs`).
    pub fn spilled(&self) -> usize {
        self.spilled.count()
    }

    /// Their keys, those after `last` or all, at most so many bytes of them.
    pub fn spilled_keys(&self, last: Option<&[u8]>, bytes: usize) -> Vec<Box<[u8]>> {
        self.spilled.keys(last.map(|key| (self.hash.hash(key), key)), bytes)
    }

    /// Whether a new key of this hash may find no slot in its pair. A hint, which costs a cache line where
    /// some pair has all slots that a pair can have, and nothing elsewhere: each write of a group asks.
    #[inline]
    pub fn is_tight(&self, hash: Hash) -> bool {
        let state = self.state.read().expect("index state");
        // Relaxed: a hint.
        if state.live.iter().all(|live| live.whole.load(Ordering::Relaxed) == 0) {
            return false;
        }
        let headers = state.live.iter().map(|live| self.header(&live.table, live.table.home(hash).0));
        headers.into_iter().find(|header| !header.moved()).is_some_and(|header| header.is_whole())
    }

    /// The tables in use.
    pub fn geometry(&self) -> Geometry {
        self.state.read().expect("index state").geometry
    }

    /// The newest table, where most keys are.
    pub fn newest(&self) -> Table {
        let state = self.state.read().expect("index state");
        state.live.last().expect("an index has a table").table
    }

    /// Has the header of a key's pair in this table fetched, as a hint: the key will be inserted soon.
    #[inline]
    pub fn prefetch(&self, table: &Table, hash: Hash) {
        self.memory.prefetch(table.header_at(table.home(hash).0));
    }

    /// The same, a little later, of the slot that it likely has or will get.
    #[inline]
    pub fn prefetch_slot(&self, table: &Table, hash: Hash) {
        let (pair, odd) = table.home(hash);
        let header = self.header(table, pair);
        if let Some(slot) =
            likely(&table.shape, &header, hash, odd).or_else(|| first_free(&table.shape, &header, odd))
        {
            self.memory.prefetch(table.pair_at(pair) + table.shape.slot_at(slot));
            if self.options.places {
                table.prefetch_place(&self.memory, pair, slot);
            }
        }
    }

    /// The entry where a key of this hash likely stands, by its place beside the slot: a hint, to have that
    /// fetched as well.
    #[inline]
    pub fn likely_entry(&self, table: &Table, hash: Hash) -> Option<EntryRef> {
        let (pair, odd) = table.home(hash);
        let header = self.header(table, pair);
        let slot = likely(&table.shape, &header, hash, odd).filter(|_| self.options.places)?;
        table.load_place(&self.memory, pair, slot, &[0; GROUPS_MAX])
    }

    #[inline]
    pub(super) fn lock_pair(&self, table: &Table, pair: u64) -> Header {
        let at = table.header_at(pair);
        let id = u64::from(table.id) << 32;
        let mut tries = 0u32;
        loop {
            let word = self.memory.load(at + header::OWNER);
            let free = word == id || word == 0;
            assert!(free || word == id | 1, "pair {pair} of table {} has owner word {word:#x}", table.id);
            if free && self.memory.compare_exchange(at + header::OWNER, word, id | 1).is_ok() {
                break;
            }
            tries += 1;
            if tries.is_multiple_of(64) {
                longarm_host::relax();
            } else {
                std::hint::spin_loop();
            }
        }
        self.header(table, pair)
    }

    #[inline]
    pub(super) fn unlock_pair(&self, table: &Table, pair: u64) {
        self.memory.store(table.header_at(pair) + header::OWNER, u64::from(table.id) << 32);
    }

    #[inline]
    pub(super) fn header(&self, table: &Table, pair: u64) -> Header {
        let mut line = [0; 64];
        self.memory.copy_out(table.header_at(pair), &mut line);
        Header::parse(&line)
    }

    /// Reads and verifies an occupied slot of a locked pair.
    #[inline]
    pub(super) fn read_slot(&self, table: &Table, pair: u64, slot: usize, header: &Header) -> Found {
        self.look_at_slot(table, pair, slot, header).unwrap_or_else(|bytes| {
            panic!("slot {slot} of pair {pair} in table {} does not verify: {bytes:02x?}", table.id)
        })
    }

    /// The same of a slot that may not verify: then its bytes.
    #[inline]
    pub(super) fn look_at_slot(
        &self,
        table: &Table,
        pair: u64,
        slot: usize,
        header: &Header,
    ) -> Result<Found, [u8; 64]> {
        let at = self.slot_place(table, pair, slot, header);
        let mut bytes = [0; 64];
        let kind = table.shape.kind;
        self.memory.copy_out(at, &mut bytes[..table.shape.slot_bytes() as usize]);
        if !self.is_sound(table, at, &bytes) {
            return Err(bytes);
        }
        let beside = match self.options.places {
            true => table.load_place(&self.memory, pair, slot, &header.groups),
            false => None,
        };
        Ok(Found { slot, kind, bytes, beside })
    }

    /// Whether the bytes of the slot at `at` are a record that is shown.
    #[inline]
    pub(super) fn is_sound(&self, table: &Table, at: u64, bytes: &[u8; 64]) -> bool {
        match table.shape.kind {
            SlotKind::Inline64 => {
                matches!(SlotView::parse64(bytes, &self.sums, seed(table.id, at)), SlotView::Record(_))
            }
            SlotKind::Pointer16 => view(SlotKind::Pointer16, bytes).is_some(),
        }
    }

    #[inline]
    pub(super) fn slot_place(&self, table: &Table, pair: u64, slot: usize, header: &Header) -> u64 {
        table.slot_at(pair, slot, &header.groups).expect("an existing slot has a place")
    }

    /// Writes a record into a slot. In place it verifies then; out of place it is hidden, and persistent.
    pub(super) fn write_slot(
        &self,
        table: &Table,
        pair: u64,
        slot: usize,
        header: &Header,
        record: &Record<'_>,
    ) {
        if let Record::Inline { entry, .. } = *record {
            assert!(entry.is_none() || self.options.places, "this index has nowhere to note {entry:?}");
            if self.options.places {
                table.store_place(&self.memory, pair, slot, &header.groups, entry);
            }
        }
        let at = self.slot_place(table, pair, slot, header);
        let kind = table.shape.kind;
        let first = |word| if table.discipline == Discipline::InPlace { word } else { turned(kind, word) };
        match kind {
            SlotKind::Inline64 => {
                let mut bytes = record.pack64(&self.sums, seed(table.id, at));
                let sum = bytes.first_chunk_mut().expect("a slot's first word");
                *sum = first(u64::from_le_bytes(*sum)).to_le_bytes();
                self.memory.copy_in(at, &bytes);
            }
            SlotKind::Pointer16 => {
                let (csn, place) = record.pack16();
                self.memory.store(at + 8, place);
                self.memory.store(at, first(csn));
            }
        }
        if table.discipline == Discipline::OutOfPlace {
            self.memory.flush(at, table.shape.slot_bytes());
            self.memory.fence();
        }
    }

    /// Hides the record of a slot of a locked pair, or shows it (`slot.rs` (3)).
    pub(super) fn turn_slot(&self, table: &Table, pair: u64, slot: usize, header: &Header) {
        let at = self.slot_place(table, pair, slot, header);
        self.memory.store(at, turned(table.shape.kind, self.memory.load(at)));
    }

    /// Out of place: hides the record of a slot, which goes.
    pub(super) fn hide_slot(&self, table: &Table, pair: u64, slot: usize, header: &Header) {
        if !Mutant::StayShown.is_on() {
            self.turn_slot(table, pair, slot, header);
        }
    }

    /// Out of place: stores the indicator that has the bit of a hidden record, and shows that once the
    /// indicator is persistent.
    pub(super) fn switch_on(&self, table: &Table, pair: u64, slot: usize, header: &mut Header, word: u64) {
        if Mutant::ShowEarly.is_on() {
            self.turn_slot(table, pair, slot, header);
        }
        self.set_indicator(table, pair, header, word);
        if !Mutant::ShowEarly.is_on() {
            self.turn_slot(table, pair, slot, header);
        }
    }

    pub(super) fn wipe_slot(&self, table: &Table, pair: u64, slot: usize, header: &Header) {
        let at = self.slot_place(table, pair, slot, header);
        let csn_at = if table.shape.kind == SlotKind::Inline64 { at + 8 } else { at };
        self.memory.store(csn_at, 0);
        for word in (at..at + table.shape.slot_bytes()).step_by(8) {
            self.memory.store(word, 0);
        }
    }

    /// Takes a record out of its slot of a locked pair.
    pub(super) fn empty_slot(&self, table: &Table, pair: u64, slot: usize, header: &mut Header) {
        let cleared = header.indicator & !(1 << slot);
        if table.discipline == Discipline::InPlace {
            self.wipe_slot(table, pair, slot, header);
            self.set_indicator(table, pair, header, cleared);
        } else {
            self.hide_slot(table, pair, slot, header);
            self.set_indicator(table, pair, header, cleared);
            self.wipe_slot(table, pair, slot, header);
        }
    }

    pub(super) fn set_indicator(&self, table: &Table, pair: u64, header: &mut Header, word: u64) {
        let at = table.header_at(pair);
        header.indicator = word.wrapping_add(indicator::STEP);
        self.memory.store(at + header::INDICATOR, header.indicator);
        if table.discipline == Discipline::OutOfPlace {
            self.memory.flush(at, header::BYTES);
            self.memory.fence();
        }
    }

    /// Puts a new record into a free slot of a locked pair, adding a group where that is allowed.
    pub(super) fn insert(
        &self,
        live: &LiveTable,
        pair: u64,
        header: &mut Header,
        hash: Hash,
        record: &Record<'_>,
    ) -> Result<usize, NoRoom> {
        let table = &live.table;
        let (_, odd) = table.home(hash);
        let slot = self.free_slot(live, pair, header, odd)?;
        self.set_fingerprint(table, pair, header, slot, hash.fingerprint());
        let bit = header.indicator | 1 << slot;
        match table.discipline {
            Discipline::InPlace => {
                self.set_indicator(table, pair, header, bit);
                self.write_slot(table, pair, slot, header, record);
            }
            Discipline::OutOfPlace => {
                self.write_slot(table, pair, slot, header, record);
                self.switch_on(table, pair, slot, header, bit);
            }
        }
        Ok(slot)
    }

    pub(super) fn set_fingerprint(
        &self,
        table: &Table,
        pair: u64,
        header: &mut Header,
        slot: usize,
        byte: u8,
    ) {
        let word = &mut header.fingerprints[slot / 8];
        let shift = 8 * (slot % 8);
        *word = *word & !(0xFF << shift) | u64::from(byte) << shift;
        self.memory.store(table.header_at(pair) + header::FINGERPRINTS + (slot / 8 * 8) as u64, *word);
    }
}

/// Slots of a pair, groups aside, for keys of this parity, as bits.
fn home_base(shape: &PairShape, odd: bool) -> u32 {
    shape.home_mask(odd) & ((1u32 << shape.base_slots()) - 1)
}

/// The first slot of a pair, groups aside, that a key of this hash may be in.
fn likely(shape: &PairShape, header: &Header, hash: Hash, odd: bool) -> Option<usize> {
    let slots = header.candidates(hash, home_base(shape, odd));
    (slots != 0).then_some(slots.trailing_zeros() as usize)
}

/// The slot of a pair, groups aside, that a key of this parity gets.
pub(super) fn first_free(shape: &PairShape, header: &Header, odd: bool) -> Option<usize> {
    let free = home_base(shape, odd) & !header.occupied();
    let slot = if odd { 31u32.checked_sub(free.leading_zeros())? } else { free.trailing_zeros() };
    (free != 0).then_some(slot as usize)
}
