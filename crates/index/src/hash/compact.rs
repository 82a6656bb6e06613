//! Records of added groups move back into slots of their pair that became free, and the groups go back to the
//! pool. Groups are for a share of the pairs (continuity hashing IV.B); where the table cannot grow, pairs
//! whose older keys were deleted would keep them from pairs that need one, however empty the table is.
//!
//! (1) It is done where a group is needed and the table cannot grow, not at each delete: a slot that becomes
//!     free is mostly taken by the next new key.
//! (2) The record has its new slot before it loses the old one, under the lock of the pair. A READ may have
//!     seen the new slot before that and the header after it, and would find the key nowhere. So the pair has
//!     SPILLED before the first record moves (`spill.rs` (2)): a reader that finds nothing asks the server.

use std::sync::atomic::Ordering;

use longarm_base::Mutant;
use longarm_memory::OwnedWords;

use super::layout::{Header, indicator};
use super::owner::{Entries, LiveTable, Owner, first_free};
use super::resize::rehashed;

impl<M: OwnedWords, E: Entries> Owner<M, E> {
    /// Looks at the next so many pairs of the newest table; how many groups came back.
    pub fn compact_some(&self, pairs: u64) -> usize {
        let state = self.state.read().expect("index state");
        let live = state.live.last().expect("an index has a table");
        let table = &live.table;
        // Relaxed: two threads may look at the same pairs; the locks make that harmless.
        let from = live.compacted.fetch_add(pairs, Ordering::Relaxed);
        let extended = (from..from + pairs.min(table.pairs)).map(|pair| pair % table.pairs);
        extended.map(|pair| self.compact(live, pair)).sum()
    }

    /// Moves the records of added groups of one pair that a free slot of the pair can take; how many groups
    /// came back.
    fn compact(&self, live: &LiveTable, pair: u64) -> usize {
        let table = &live.table;
        if !self.header(table, pair).is_extended() {
            return 0;
        }
        let mut header = self.lock_pair(table, pair);
        let base = (1u32 << table.shape.base_slots()) - 1;
        let mut slots = if header.moved() { 0 } else { header.occupied() & !base };
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            self.move_back(live, pair, slot, &mut header);
        }
        let back = if header.moved() { 0 } else { self.give_back(live, pair, &mut header) };
        self.unlock_pair(table, pair);
        back
    }

    /// Moves one record of a locked pair into a slot of the pair, if there is a free one for its key.
    fn move_back(&self, live: &LiveTable, pair: u64, slot: usize, header: &mut Header) {
        let table = &live.table;
        let found = self.read_slot(table, pair, slot, header);
        let record = found.record();
        // An index whose arena a leader writes may name entries that are gone.
        let Some(hash) = self.known_hash_of(&record) else { return };
        if first_free(&table.shape, header, table.home(hash).1).is_none() {
            return;
        }
        if !header.spilled() && !Mutant::MoveUnseen.is_on() {
            let word = header.indicator | indicator::SPILLED;
            self.set_indicator(table, pair, header, word);
        }
        let moved = self.insert(live, pair, header, hash, &rehashed(&record, hash));
        assert!(moved.is_ok(), "a slot of the pair was free, and its lock is held");
        self.empty_slot(table, pair, slot, header);
    }
}
