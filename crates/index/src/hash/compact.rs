//! Records of added groups move back into slots of their pair that became free, and the groups go back to the
//! pool. Groups are for a share of the pairs (continuity hashing IV.B); where the table cannot grow, pairs
//! whose older keys were deleted would keep them from pairs that need one, however empty the table is.
//!
//! (1) It is begun when a group is needed and the table cannot grow, not before: a slot that becomes free is
//!     mostly taken by the next new key. From then on each pair is looked at once, by those who need a group,
//!     and again whenever one of its slots becomes free, by whoever freed it, as the lock is released. So
//!     what a refusal costs does not depend on the size of the table.
//! (2) The record has its new slot before it loses the old one, under the lock of the pair. A READ may have
//!     seen the new slot before that and the header after it, and would find the key nowhere. So the pair has
//!     SPILLED before the first record moves (`spill.rs` (2)): a reader that finds nothing asks the server.

use std::sync::atomic::Ordering;

use longarm_base::Mutant;
use longarm_memory::OwnedWords;

use super::layout::Header;
use super::owner::{Entries, LiveTable, Owner, first_free};
use super::resize::rehashed;

/// Pairs that are looked at in one step for groups to give back, where the table cannot grow.
pub(super) const COMPACT_PAIRS: u64 = 4096;

impl<M: OwnedWords, E: Entries> Owner<M, E> {
    /// Looks at the next [pairs](COMPACT_PAIRS) of the newest table, if there are some that were not looked
    /// at yet; how many groups came back.
    pub fn compact_some(&self) -> usize {
        let state = self.state.read().expect("index state");
        let live = state.live.last().expect("an index has a table");
        // Relaxed: the lock of a pair orders this before what is freed in the pair later.
        if live.compacted.load(Ordering::Relaxed) >= live.table.pairs {
            return 0;
        }
        // Relaxed: as above.
        let from = live.compacted.fetch_add(COMPACT_PAIRS, Ordering::Relaxed);
        let compact = |pair| {
            let mut header = self.lock_pair(&live.table, pair);
            let back = self.compact(live, pair, &mut header);
            self.unlock_pair(&live.table, pair);
            back
        };
        (from..live.table.pairs.min(from + COMPACT_PAIRS)).map(compact).sum()
    }

    /// Looks at a locked pair in which a slot became free, if the table needs groups.
    pub(super) fn compact_freed(&self, live: &LiveTable, pair: u64, header: &mut Header) {
        // Relaxed: as above.
        if header.is_extended() && live.compacted.load(Ordering::Relaxed) > 0 {
            self.compact(live, pair, header);
        }
    }

    /// Moves the records of added groups of a locked pair that a free slot of the pair can take; how many
    /// groups came back.
    fn compact(&self, live: &LiveTable, pair: u64, header: &mut Header) -> usize {
        if header.moved() || !header.is_extended() {
            return 0;
        }
        let base = (1u32 << live.table.shape.base_slots()) - 1;
        let mut slots = header.occupied() & !base;
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            self.move_back(live, pair, slot, header);
        }
        self.give_back(live, pair, header)
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
        if !Mutant::MoveUnseen.is_on() {
            self.mark_spilled(table, pair, header);
        }
        let moved = self.insert(live, pair, header, hash, &rehashed(&record, hash));
        assert!(moved.is_ok(), "a slot of the pair was free, and its lock is held");
        self.empty_slot(table, pair, slot, header);
    }
}
