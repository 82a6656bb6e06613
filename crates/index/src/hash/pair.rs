//! One locked pair: what a worker may do with a key while it holds the key's stripe.
//!
//! A [`LockedPair`] is the lock; look-up, compare and write through it are one step to everybody else. The
//! order of stores is in the head of `owner.rs`, which does them.

use std::sync::RwLockReadGuard;
use std::sync::atomic::Ordering;

use longarm_base::EntryRef;
use longarm_memory::{Hash, OwnedWords};

use super::found::Found;
use super::layout::{Discipline, Header, SlotKind, Table, indicator};
use super::owner::{Entries, IndexState, LiveTable, NoRoom, Owner};
use super::slot::Record;
use super::spill::{NO_SLOT, SpilledRecord};

/// The tables of an index as they are while the guard lives: none is added or taken out. A thread needs one
/// for all pairs that it locks at a time; a second one could wait for ever, behind a thread that waits to add
/// a table.
pub struct IndexGuard<'a, M: OwnedWords, E: Entries> {
    owner: &'a Owner<M, E>,
    state: RwLockReadGuard<'a, IndexState>,
}

/// One locked pair, and the slots where a key of one hash can be. Unlocks when dropped.
pub struct LockedPair<'a, M: OwnedWords, E: Entries> {
    pub(super) owner: &'a Owner<M, E>,
    pub(super) state: &'a IndexState,
    pub(super) at: usize,
    pub(super) pair: u64,
    pub(super) mask: u32,
    pub(super) odd: bool,
    pub(super) hash: Hash,
    pub(super) header: Header,
    /// A slot of the pair became free under this lock.
    pub(super) freed: bool,
}

impl<M: OwnedWords, E: Entries> LockedPair<'_, M, E> {
    fn live(&self) -> &LiveTable {
        &self.state.live[self.at]
    }

    /// Kind of the table's slots.
    pub fn kind(&self) -> SlotKind {
        self.live().table.shape.kind
    }

    /// The record of `key`, which has the hash the pair was locked with.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<Found> {
        let slot = self.records(self.candidates()).find(|found| match found.record() {
            Record::Inline { key: have, .. } => have == key,
            Record::Entry { csn, entry, hash, .. } => {
                let maybe = match found.kind {
                    SlotKind::Inline64 => hash == self.hash,
                    SlotKind::Pointer16 => hash.tag() == self.hash.tag(),
                };
                maybe && self.owner.entries.is_of(entry, csn, key)
            }
        });
        slot.or_else(|| self.header.spilled().then(|| self.owner.spilled.find(self.hash, key)).flatten())
    }

    /// Removes what the hash may have here, where the item stands in the arena at a place that is gone.
    pub fn remove_gone(&mut self, is_gone: impl Fn(EntryRef) -> bool) {
        let next = |pair: &Self| {
            let beside = pair.header.spilled().then(|| pair.owner.spilled.of_hash(pair.hash));
            let mut all = pair.records(pair.candidates()).chain(beside.into_iter().flatten());
            all.find(|found| found.entry().is_some_and(&is_gone))
        };
        while let Some(found) = next(self) {
            self.remove(&found);
        }
    }

    /// All items of the pair. The copies that a move under way has made are none: they are items of a pair of
    /// an older table, which the mover has locked, and it may take them back.
    pub fn all(&self) -> Vec<Found> {
        let beside = self.header.spilled().then(|| self.owner.spilled.of_pair(&self.live().table, self.pair));
        let beside = beside.into_iter().flatten().map(|(_, _, found)| found);
        let records = self.records(self.header.occupied()).chain(beside);
        records.filter(|found| self.has_moved_here(found)).collect()
    }

    /// Whether the pairs of older tables have MOVED where a record of this pair, or beside it, belongs.
    fn has_moved_here(&self, found: &Found) -> bool {
        let older = &self.state.live[..self.at];
        if older.is_empty() {
            return true;
        }
        let hash = match found.record() {
            Record::Entry { hash, .. } if found.kind == SlotKind::Inline64 => Some(hash),
            record => self.owner.known_hash_of(&record),
        };
        let moved = |live: &LiveTable, hash| self.owner.header(&live.table, live.table.home(hash).0).moved();
        // Entries are gone only where a leader writes the arena, and there one thread alone moves pairs.
        hash.is_none_or(|hash| older.iter().all(|live| moved(live, hash)))
    }

    /// Slots that the hash's records may be in.
    fn candidates(&self) -> u32 {
        self.header.candidates(self.hash, self.mask)
    }

    /// The records in these slots.
    fn records(&self, mut slots: u32) -> impl Iterator<Item = Found> {
        let each = move || {
            let slot = (slots != 0).then_some(slots.trailing_zeros() as usize)?;
            slots &= slots - 1;
            Some(slot)
        };
        let table = &self.live().table;
        std::iter::from_fn(each).map(|slot| self.owner.read_slot(table, self.pair, slot, &self.header))
    }

    /// Makes sure that a following insert (or the replace of `found`) has its slot; changes nothing a reader
    /// accepts.
    pub fn reserve(&mut self, found: Option<&Found>) -> Result<(), NoRoom> {
        let live = &self.state.live[self.at];
        let stays = |found: &Found| live.table.discipline == Discipline::InPlace || found.slot == NO_SLOT;
        if found.is_some_and(stays) {
            return Ok(());
        }
        self.owner.free_slot(live, self.pair, &mut self.header, self.odd).map(|_| ())
    }

    /// Adds a record for a key that [`find`](Self::find) did not find.
    pub fn insert(&mut self, record: &Record<'_>) -> Result<(), NoRoom> {
        let live = &self.state.live[self.at];
        self.owner.insert(live, self.pair, &mut self.header, self.hash, record)?;
        // Relaxed: a counter that publishes nothing else.
        self.owner.items.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The same where there is no room for it, nor will be: it stands beside the table (`spill.rs`).
    pub fn spill(&mut self, key: &[u8], record: &Record<'_>) {
        let live = &self.state.live[self.at];
        self.owner.spill(&live.table, self.pair, &mut self.header, key, record);
        // Relaxed: a counter that publishes nothing else.
        self.owner.items.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the found record of the same key. Out of place that takes a free slot of the pair.
    pub fn replace(&mut self, found: &Found, record: &Record<'_>) -> Result<(), NoRoom> {
        let live = &self.state.live[self.at];
        let (table, owner) = (&live.table, self.owner);
        if found.slot == NO_SLOT {
            let there = owner.hash_beside(&found.record());
            let is_here = owner.spilled.replace_version(there, found.record().csn(), owner.beside(record));
            assert!(is_here, "what was found beside the table stays there while its pair is locked");
            return Ok(());
        }
        match table.discipline {
            Discipline::InPlace => owner.write_slot(table, self.pair, found.slot, &self.header, record),
            Discipline::OutOfPlace => {
                let slot = owner.free_slot(live, self.pair, &mut self.header, self.odd)?;
                self.freed = true;
                let byte = self.header.fingerprints[found.slot / 8] >> (8 * (found.slot % 8));
                owner.set_fingerprint(table, self.pair, &mut self.header, slot, byte as u8);
                owner.write_slot(table, self.pair, slot, &self.header, record);
                owner.hide_slot(table, self.pair, found.slot, &self.header);
                let flipped = self.header.indicator ^ (1 << slot | 1 << found.slot);
                owner.switch_on(table, self.pair, slot, &mut self.header, flipped);
                owner.wipe_slot(table, self.pair, found.slot, &self.header);
            }
        }
        Ok(())
    }

    /// The same of a record that stands in the arena, and so is not lost: where no slot is free, it goes, and
    /// the other one gets its slot. A loss of power in between leaves a pair that says so (SPILLED), and of
    /// which an entry is in no slot: who calls this in persistent memory notes that first.
    pub fn replace_anyway(&mut self, found: &Found, record: &Record<'_>) {
        assert!(matches!(record, Record::Entry { .. }), "an item that is nowhere else is not taken away");
        if self.replace(found, record).is_ok() {
            return;
        }
        let (owner, live) = (self.owner, &self.state.live[self.at]);
        owner.mark_spilled(&live.table, self.pair, &mut self.header);
        owner.empty_slot(&live.table, self.pair, found.slot, &mut self.header);
        let stored = owner.insert(live, self.pair, &mut self.header, self.hash, record);
        assert!(stored.is_ok(), "a slot of the key was freed, and the lock of its pair is held");
    }

    /// Removes the found record.
    pub fn remove(&mut self, found: &Found) {
        // Relaxed: a counter that publishes nothing else.
        self.owner.items.fetch_sub(1, Ordering::Relaxed);
        if found.slot == NO_SLOT {
            let there = self.owner.hash_beside(&found.record());
            let was_here = self.owner.spilled.take_version(there, found.record().csn());
            assert!(was_here, "what was found beside the table stays there while its pair is locked");
            return;
        }
        let live = &self.state.live[self.at];
        let table = &live.table;
        self.owner.empty_slot(table, self.pair, found.slot, &mut self.header);
        self.freed = true;
        if found.slot >= table.shape.base_slots() {
            self.owner.give_back(live, self.pair, &mut self.header);
        }
    }
}

impl<M: OwnedWords, E: Entries> IndexGuard<'_, M, E> {
    /// Locks the pair where a key of this hash belongs, following moved pairs.
    #[inline]
    pub fn lock(&self, hash: Hash) -> LockedPair<'_, M, E> {
        let (owner, state) = (self.owner, &*self.state);
        for at in 0..state.live.len() {
            let table = state.live[at].table;
            let (pair, odd) = table.home(hash);
            let header = owner.lock_pair(&table, pair);
            if !header.moved() {
                return LockedPair {
                    owner,
                    state,
                    at,
                    pair,
                    mask: table.shape.home_mask(odd),
                    odd,
                    hash,
                    header,
                    freed: false,
                };
            }
            owner.unlock_pair(&table, pair);
        }
        unreachable!("the newest table has a moved pair");
    }

    /// Locks pair `pair` of the `at`-th oldest table, to walk its [items](LockedPair::all). `None` past the
    /// last, or if it has moved.
    pub fn lock_nth(&self, at: usize, pair: u64) -> Option<LockedPair<'_, M, E>> {
        let (owner, state) = (self.owner, &*self.state);
        let table = state.live.get(at)?.table;
        if pair >= table.pairs {
            return None;
        }
        let header = owner.lock_pair(&table, pair);
        if header.moved() {
            owner.unlock_pair(&table, pair);
            return None;
        }
        let (mask, odd, hash) = (u32::MAX, false, Hash(0));
        Some(LockedPair { owner, state, at, pair, mask, odd, hash, header, freed: false })
    }
}

impl<M: OwnedWords, E: Entries> Owner<M, E> {
    /// Keeps the tables as they are while the guard lives.
    pub fn read(&self) -> IndexGuard<'_, M, E> {
        IndexGuard { owner: self, state: self.state.read().expect("index state") }
    }

    /// Puts a record beside the table, in place of an older one if there is one. The pair is locked.
    pub(super) fn spill(
        &self,
        table: &Table,
        pair: u64,
        header: &mut Header,
        key: &[u8],
        record: &Record<'_>,
    ) {
        self.mark_spilled(table, pair, header);
        self.spilled.put(self.hash_beside(record), key, self.beside(record));
    }

    /// Has readers that find nothing in a locked pair ask the server.
    pub(super) fn mark_spilled(&self, table: &Table, pair: u64, header: &mut Header) {
        if !header.spilled() {
            let word = header.indicator | indicator::SPILLED;
            self.set_indicator(table, pair, header, word);
        }
    }

    /// A record as it stands beside the table.
    fn beside(&self, record: &Record<'_>) -> SpilledRecord {
        let beside = match record {
            Record::Inline { entry, .. } => *entry,
            Record::Entry { .. } => None,
        };
        // What stands in no shared memory needs no seed.
        SpilledRecord { bytes: record.pack64(&self.sums, 0), beside }
    }

    /// The hash of what stands beside the table. It says itself what that is: its entry may be gone, where
    /// the arena is a leader's to write (`remove_gone`).
    fn hash_beside(&self, record: &Record<'_>) -> Hash {
        match *record {
            Record::Inline { key, .. } => self.hash.hash(key),
            Record::Entry { hash, .. } => hash,
        }
    }

    /// A record's key.
    pub(super) fn key_of(&self, record: &Record<'_>) -> Vec<u8> {
        match *record {
            Record::Inline { key, .. } => key.to_vec(),
            Record::Entry { csn, entry, .. } => self
                .entries
                .key_of(entry, csn)
                .unwrap_or_else(|| panic!("a slot names {entry:?} of csn {csn:?}, which is not there")),
        }
    }
}

impl<M: OwnedWords, E: Entries> Drop for LockedPair<'_, M, E> {
    fn drop(&mut self) {
        let live = &self.state.live[self.at];
        if self.freed {
            self.owner.compact_freed(live, self.pair, &mut self.header);
        }
        self.owner.unlock_pair(&live.table, self.pair);
    }
}
