//! Growth: a larger table beside the old one, and the move of pairs between them (continuity hashing III.C,
//! M11).
//!
//! A pair moves as one step: under its lock its records are put into the next table, then one store sets
//! MOVED and clears all bits, then its slots are wiped. Readers follow MOVED; they know the next table
//! because its geometry is published before the first pair moves. An old table's memory is given back when
//! every lease that names it is over. Where even the next table has no group for a key, another table follows
//! it, up to `limits::TABLES_MAX`. Keys that a larger table would not part do not make it grow: see
//! `spill.rs`. A table out of place at least doubles, as the paper's does: then all keys of a pair are of one
//! bucket of the older table, so they have room where they had room, and none is ever put beside the table,
//! where nothing is persistent.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::limits::{PAIR_SLOTS_MAX, TABLES_MAX};
use longarm_base::{Csn, Mutant, Nanos};
use longarm_memory::{HUGE_PAGE, Hash, OwnedWords};

use super::layout::{Discipline, EXTENDED_SHARE, PairShape, Table, indicator};
use super::owner::{Bound, Entries, Full, IndexState, LiveTable, NoRoom, Owner, Retired, Since};
use super::slot::Record;

/// Tables in place below this size double; larger ones grow by a third, which keeps the memory of an item
/// below that of Redis.
const DOUBLE_BELOW: u64 = 16 << 20;
/// Small tables grow faster, so that a burst of inserts does not outrun the moves.
const QUADRUPLE_BELOW: u64 = 1 << 20;
/// A pair that can take no more keys makes a table grow only if one of so many of its slots is taken: where
/// nobody chose the keys, so full a pair is not found in so empty a table.
const GROWS_FROM: u64 = 4;
/// Pairs that a writer without room moves at a time.
const HELP_PAIRS: u64 = 256;

/// Bytes of a table out of place that are wiped at a time.
const WIPED: u64 = 16 << 20;

/// Bytes for which one thread takes memory at a time, and the most threads.
const PART: u64 = 32 << 20;
const THREADS_MAX: usize = 8;

/// What a step of the background move found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// No move is going on.
    Idle,
    /// There is more to move.
    More,
    /// The next table cannot take a pair and no further table is to be had: memory is full.
    Blocked,
}

impl<M: OwnedWords, E: Entries> Owner<M, E> {
    /// Appends a table of `pairs` pairs if the newest is still `after` (an id; 0 for none).
    pub(super) fn add_table(&self, pairs: u64, after: u32, bound: Bound) -> Result<(), Full> {
        let mut state = self.state.write().expect("index state");
        if state.live.last().map_or(0, |live| live.table.id) != after {
            return Ok(());
        }
        if state.live.len() == TABLES_MAX {
            return Err(Full);
        }
        let shape = PairShape::of(self.options.slots);
        let discipline = self.options.discipline;
        let mut table = Table { id: 0, shape, discipline, base: 0, pairs, groups: Table::groups_for(pairs) };
        let bytes = self.bytes_of(&table);
        table.base = self.free_extent(&state, bytes).ok_or(Full)?;
        match bound {
            Bound::Budget if !self.budget.take(bytes) => return Err(Full),
            Bound::Budget => {}
            Bound::Region => self.budget.take_anyway(bytes),
        }
        // Relaxed: the state's lock orders ids.
        table.id = self.next_id.fetch_add(1, Ordering::Relaxed) as u32;
        state.live.push(Arc::new(LiveTable::new(table)));
        if state.live.len() == 1 && self.options.populate {
            self.populate(&state.live[0], bytes);
        }
        self.republish(&mut state);
        Ok(())
    }

    pub(super) fn republish(&self, state: &mut IndexState) {
        state.geometry.epoch += 1;
        state.geometry.tables = [None; TABLES_MAX];
        for (place, live) in state.geometry.tables.iter_mut().zip(&state.live) {
            *place = Some(live.table);
        }
        (self.publish)(&state.geometry);
    }

    /// Takes memory for the first `bytes` of a table.
    fn populate(&self, live: &LiveTable, bytes: u64) {
        let until = bytes.next_multiple_of(HUGE_PAGE).min(self.bytes_of(&live.table));
        // Relaxed: who takes a block twice does no harm.
        let from = live.populated.fetch_max(until, Ordering::Relaxed);
        if from < until {
            let base = live.table.base;
            self.populate_range(base + from..base + until, live);
        }
    }

    /// Takes memory for these bytes, by several cores if they are many: the system clears each page.
    fn populate_range(&self, range: Range<u64>, live: &LiveTable) {
        let parts = (range.end - range.start).div_ceil(PART);
        let next = AtomicU64::new(0);
        longarm_host::at_once(longarm_host::cores().min(THREADS_MAX).min(parts as usize), |_| {
            loop {
                // Relaxed: the thread that draws a number does that part.
                let from = range.start + next.fetch_add(1, Ordering::Relaxed) * PART;
                if from >= range.end {
                    return;
                }
                let taken = self.memory.populate(from, PART.min(range.end - from));
                // Relaxed: a figure for people.
                live.huge.fetch_add(taken, Ordering::Relaxed);
            }
        });
    }

    /// Takes memory for a part of the first table that has none yet. `false` if there was none left.
    pub fn populate_some(&self) -> bool {
        let state = self.state.read().expect("index state");
        let live = &state.live[0];
        // Relaxed: who takes a block twice does no harm.
        let from = live.populated.load(Ordering::Relaxed);
        let any = from < self.bytes_of(&live.table);
        if any {
            self.populate(live, from + HUGE_PAGE);
        }
        any
    }

    /// Takes memory for that part of the second table into which the first `pairs` pairs of the oldest move.
    /// Both place keys in the order of their hashes, so the move sweeps over the second table once, and what
    /// is before it is hardly in use yet.
    fn populate_ahead(&self, state: &IndexState, pairs: u64) {
        let (oldest, next) = (&state.live[0].table, &state.live[1]);
        let reach = (u128::from(pairs) * u128::from(next.table.pairs)).div_ceil(u128::from(oldest.pairs));
        let all = pairs == oldest.pairs;
        let bytes =
            if all { self.bytes_of(&next.table) } else { reach as u64 * next.table.shape.pair_bytes() };
        self.populate(next, bytes);
    }

    /// First fit between the tables that are live or still in quarantine.
    fn free_extent(&self, state: &IndexState, bytes: u64) -> Option<u64> {
        let retired = self.retired.lock().expect("retired tables");
        let live = state.live.iter().map(|live| live.table);
        let mut taken: Vec<_> = live
            .chain(retired.iter().map(|retired| retired.table))
            .map(|t| (t.base, t.base + self.bytes_of(&t)))
            .collect();
        taken.sort_unstable();
        let mut at = 0;
        for (from, to) in taken {
            if at + bytes <= from {
                return Some(at);
            }
            // Large tables begin where a huge page does.
            at = at.max(if bytes < HUGE_PAGE { to } else { to.next_multiple_of(HUGE_PAGE) });
        }
        (at + bytes <= self.memory.bytes()).then_some(at)
    }

    /// Makes room for a key for which an insert found none: grows the table and moves the key's pair now.
    /// Where as many tables are live as may be, it first helps to finish the oldest move.
    pub fn make_room(&self, hash: Hash) -> Result<(), NoRoom> {
        self.room_within(hash, Bound::Budget)
    }

    /// The same for a key that must not be refused any more: the memory limit is exceeded if need be.
    pub fn make_room_anyway(&self, hash: Hash) -> Result<(), NoRoom> {
        self.room_within(hash, Bound::Region)
    }

    fn room_within(&self, hash: Hash, bound: Bound) -> Result<(), NoRoom> {
        // Each round moves the pair, adds a table, or retires one; other writers' rounds may undo ours,
        // rarely.
        for _ in 0..4 * TABLES_MAX {
            while self.state.read().expect("index state").live.len() == TABLES_MAX {
                if self.move_some(HELP_PAIRS) == Moved::Blocked {
                    return Err(NoRoom::Table);
                }
            }
            let newest = {
                let state = self.state.read().expect("index state");
                let at = self.table_of(&state, hash);
                let live = &state.live[at];
                let (pair, _) = live.table.home(hash);
                if at + 1 == state.live.len() {
                    if self.is_crowded(&live.table, pair) {
                        return Err(NoRoom::Pair);
                    }
                } else if self.move_pair(&state, at, pair).is_ok() {
                    return Ok(());
                }
                state.live.last().expect("an index has a table").table
            };
            if self.add_table(Self::grown(&newest), newest.id, bound).is_err() {
                return if self.compact_some() > 0 { Ok(()) } else { Err(NoRoom::Table) };
            }
        }
        Err(NoRoom::Table)
    }

    /// Whether the pair can take no more keys, and it is the keys that are to blame.
    fn is_crowded(&self, table: &Table, pair: u64) -> bool {
        let slots = table.pairs * table.shape.base_slots() as u64;
        self.header(table, pair).is_whole() && self.items() * GROWS_FROM < slots
    }

    fn grown(table: &Table) -> u64 {
        let doubles = table.discipline == Discipline::OutOfPlace;
        match table.bytes() {
            bytes if bytes < QUADRUPLE_BELOW => table.pairs * 4,
            bytes if bytes < DOUBLE_BELOW || doubles => table.pairs * 2,
            _ => table.pairs + table.pairs / 3,
        }
    }

    fn table_of(&self, state: &IndexState, hash: Hash) -> usize {
        let moved = |live: &Arc<LiveTable>| {
            let (pair, _) = live.table.home(hash);
            self.header(&live.table, pair).moved()
        };
        state.live.iter().position(|live| !moved(live)).expect("the newest table has a moved pair")
    }

    /// Whether so many pairs have added groups that the table should grow (and none is growing yet).
    pub fn should_grow(&self) -> bool {
        let state = self.state.read().expect("index state");
        let live = &state.live[state.live.len() - 1];
        // Relaxed: a counter that publishes nothing else.
        state.live.len() == 1 && live.extended.load(Ordering::Relaxed) * EXTENDED_SHARE >= live.table.pairs
    }

    /// Starts to grow. Writers go on; [`move_some`](Self::move_some) does the work.
    pub fn grow(&self) -> Result<(), Full> {
        let newest = self.state.read().expect("index state").live.last().expect("an index has a table").table;
        self.add_table(Self::grown(&newest), newest.id, Bound::Budget)
    }

    /// Moves up to `pairs` pairs out of the oldest table; retires it when that was the last.
    pub fn move_some(&self, pairs: u64) -> Moved {
        let done = {
            let state = self.state.read().expect("index state");
            if state.live.len() < 2 {
                return Moved::Idle;
            }
            let oldest = &state.live[0];
            // Relaxed: several threads may move the same pairs; the pair locks make that harmless.
            let from = oldest.cursor.load(Ordering::Relaxed);
            let to = (from + pairs).min(oldest.table.pairs);
            self.populate_ahead(&state, to);
            for pair in from..to {
                if self.move_pair(&state, 0, pair).is_err() {
                    drop(state);
                    let has_room = self.grow().is_ok() || self.compact_some() > 0;
                    return if has_room { Moved::More } else { Moved::Blocked };
                }
                // Relaxed: as above.
                oldest.cursor.store(pair + 1, Ordering::Relaxed);
            }
            (to == oldest.table.pairs).then_some(oldest.table.id)
        };
        let Some(done) = done else { return Moved::More };
        let mut state = self.state.write().expect("index state");
        // A writer that helps may have retired it already.
        if done == state.live[0].table.id && state.live.len() > 1 {
            let oldest = state.live.remove(0);
            self.republish(&mut state);
            let retired = Retired { table: oldest.table, since: Since::New, wiped: 0 };
            self.retired.lock().expect("retired tables").push(retired);
        }
        Moved::More
    }

    /// Gives back the memory of tables that have been out of use for `quarantine`, a part of a large one at a
    /// time where it is written to for that; returns how many are left.
    /// One thread calls this, each time with a time that it took after the last call: so whatever a call
    /// found, was out of use by the time that the next one is given, however long anybody was kept from the
    /// processor meanwhile.
    pub fn reclaim(&self, now: Nanos, quarantine: Nanos) -> usize {
        let mut retired = self.retired.lock().expect("retired tables");
        retired.retain_mut(|Retired { table, since, wiped }| {
            match *since {
                Since::New => *since = Since::Seen,
                Since::Seen => *since = Since::At(now),
                Since::At(then) if now.since(then) < quarantine => {}
                Since::At(_) => {
                    let bytes = self.bytes_of(table);
                    let doubles = table.discipline == Discipline::OutOfPlace;
                    // Pages of ordinary memory go back at once; what is persistent is written to.
                    let part = if doubles { WIPED.min(bytes - *wiped) } else { bytes };
                    self.memory.discard(table.base + *wiped, part);
                    if doubles {
                        // The next table here begins with zeros, also after a loss of power.
                        self.memory.flush(table.base + *wiped, part);
                        self.memory.fence();
                    }
                    *wiped += part;
                    if *wiped == bytes {
                        self.budget.give(bytes);
                        return false;
                    }
                }
            }
            true
        });
        retired.len()
    }

    /// Moves one pair of table `at` into the next. On failure nothing has changed that a reader could see.
    fn move_pair(&self, state: &IndexState, at: usize, pair: u64) -> Result<(), NoRoom> {
        let table = &state.live[at].table;
        let mut header = self.lock_pair(table, pair);
        let mut copies = Vec::new();
        let mut outcome = Ok(());
        let mut bits = if header.moved() { 0 } else { header.occupied() };
        if bits != 0 && Mutant::MoveFirst.is_on() {
            let early = header.indicator | indicator::MOVED;
            self.set_indicator(table, pair, &mut header, early);
        }
        while bits != 0 && outcome.is_ok() {
            let slot = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let found = self.read_slot(table, pair, slot, &header);
            let record = found.record();
            // Once: of an entry it is read from the arena.
            let hash = self.hash_of(&record);
            match self.put_into_next(state, at + 1, hash, &record) {
                Ok(()) => copies.push((hash, record.csn())),
                Err(no_room) => outcome = Err(no_room),
            }
        }
        if outcome.is_ok() && header.spilled() && !header.moved() {
            self.move_spilled(state, at, pair);
        }
        match outcome {
            Ok(()) if !header.moved() || Mutant::MoveFirst.is_on() => {
                let occupied = header.occupied();
                let moved = header.indicator & !indicator::OCCUPIED | indicator::MOVED;
                self.set_indicator(table, pair, &mut header, moved);
                for slot in 0..PAIR_SLOTS_MAX {
                    if occupied & 1 << slot != 0 && !Mutant::LeaveSlots.is_on() {
                        self.wipe_slot(table, pair, slot, &header);
                    }
                }
            }
            Ok(()) => {}
            Err(_) => self.take_back(state, at + 1, &copies),
        }
        self.unlock_pair(table, pair);
        outcome
    }

    fn hash_of(&self, record: &Record<'_>) -> Hash {
        self.known_hash_of(record).unwrap_or_else(|| panic!("a slot names {record:?}, which is not there"))
    }

    /// Hash of the key of a record; `None` if its entry is gone.
    pub(super) fn known_hash_of(&self, record: &Record<'_>) -> Option<Hash> {
        match record {
            Record::Inline { key, .. } => Some(self.hash.hash(key)),
            Record::Entry { csn, entry, .. } => self.entries.hash_of(*entry, *csn, &self.hash),
        }
    }

    /// Copies a record into table `at` or a later one, or puts it beside the last of them.
    fn put_into_next(
        &self,
        state: &IndexState,
        at: usize,
        hash: Hash,
        record: &Record<'_>,
    ) -> Result<(), NoRoom> {
        let record = rehashed(record, hash);
        for at in at..state.live.len() {
            let live = &state.live[at];
            let last = at + 1 == state.live.len();
            let (pair, _) = live.table.home(hash);
            let mut header = self.lock_pair(&live.table, pair);
            let mut outcome =
                if header.moved() { None } else { Some(self.insert(live, pair, &mut header, hash, &record)) };
            if last && outcome == Some(Err(NoRoom::Pair)) {
                let key = self.key_of(&record);
                self.spill(&live.table, pair, &mut header, &key, &record);
                outcome = Some(Ok(0));
            }
            self.unlock_pair(&live.table, pair);
            match outcome {
                Some(Ok(_)) => return Ok(()),
                // The next table has no room here either: its pair moves on, then its successor takes the
                // record.
                Some(Err(_)) if !last => self.move_pair(state, at, pair)?,
                Some(Err(no_room)) => return Err(no_room),
                None => {}
            }
        }
        Err(NoRoom::Table)
    }

    /// What stands beside a locked pair of table `at` gets a slot in the next table, or stands beside that.
    fn move_spilled(&self, state: &IndexState, at: usize, pair: u64) {
        for (hash, key, found) in self.spilled.of_pair(&state.live[at].table, pair) {
            let record = rehashed(&found.record(), hash);
            for live in &state.live[at + 1..] {
                let (pair, _) = live.table.home(hash);
                let mut header = self.lock_pair(&live.table, pair);
                if !header.moved() {
                    match self.insert(live, pair, &mut header, hash, &record) {
                        Ok(_) => self.spilled.take(hash, &key),
                        Err(_) => self.spill(&live.table, pair, &mut header, &key, &record),
                    }
                }
                let here = !header.moved();
                self.unlock_pair(&live.table, pair);
                if here {
                    break;
                }
            }
        }
    }

    /// Removes copies that a move which failed had made; readers never looked at them (their pair has not
    /// MOVED). Groups that were added for them go back. A copy may itself have moved on, so it is looked up
    /// by its version, which is used once.
    fn take_back(&self, state: &IndexState, at: usize, copies: &[(Hash, Csn)]) {
        for &(hash, csn) in copies {
            let found = (at..state.live.len()).any(|at| {
                let live = &state.live[at];
                let table = &live.table;
                let (pair, _) = table.home(hash);
                let mut header = self.lock_pair(table, pair);
                let copy = (0..PAIR_SLOTS_MAX).find(|&slot| {
                    header.occupied() & 1 << slot != 0
                        && self.read_slot(table, pair, slot, &header).record().csn() == csn
                });
                if let Some(slot) = copy {
                    self.empty_slot(table, pair, slot, &mut header);
                    self.give_back(live, pair, &mut header);
                    self.compact_freed(live, pair, &mut header);
                }
                self.unlock_pair(table, pair);
                copy.is_some()
            });
            let found = found || self.spilled.take_version(hash, csn);
            assert!(found, "the copy of csn {csn:?} is gone");
        }
    }
}

/// The record with its full hash, of which a 16-byte slot keeps only the tag.
pub(super) fn rehashed<'r>(record: &Record<'r>, hash: Hash) -> Record<'r> {
    match *record {
        Record::Entry { csn, entry, expiry, .. } => Record::Entry { csn, entry, hash, expiry },
        inline => inline,
    }
}
