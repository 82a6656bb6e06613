//! Prefetches what entries that are about to be looked up will need of memory: each look alone would wait for
//! memory three times. Entries are announced a few together, and then looked up in the same order.

use std::collections::VecDeque;

use longarm_index::hash::{Entries, Owner, Table};
use longarm_memory::{Hash, OwnedWords};

/// How many keys are looked up after lines of all of them were fetched: so many at once take little longer
/// than one.
pub const TOGETHER: usize = 16;

/// The hashes of such entries, in order.
pub struct Prefetch {
    /// The index's newest table at the beginning: most keys will be there.
    table: Table,
    hashes: VecDeque<Hash>,
    /// How many of them, from the first on, have all fetched that they are known to need.
    fetched: usize,
}

impl Prefetch {
    pub fn of<M: OwnedWords, E: Entries>(index: &Owner<M, E>) -> Prefetch {
        Prefetch { table: index.newest(), hashes: VecDeque::new(), fetched: 0 }
    }

    /// Announces an entry with this key, which is going to be looked up: the header of its pair is fetched.
    pub fn announce<M: OwnedWords, E: Entries>(&mut self, index: &Owner<M, E>, key: &[u8]) {
        let hash = index.hasher().hash(key);
        index.prefetch(&self.table, hash);
        self.hashes.push_back(hash);
    }

    /// The hash of the entry that is looked up now. Before the first of those that were announced together,
    /// the slots of all are fetched. Where entries come in the order in which they were written, the headers
    /// of the entries that these slots name are fetched from `arena`, too: they are about to be superseded.
    pub fn next<M: OwnedWords, E: Entries>(&mut self, index: &Owner<M, E>, arena: Option<&M>) -> Hash {
        if self.fetched == 0 {
            self.hashes.iter().for_each(|&hash| index.prefetch_slot(&self.table, hash));
            if let Some(arena) = arena {
                let old = self.hashes.iter().filter_map(|&hash| index.likely_entry(&self.table, hash));
                old.for_each(|entry| arena.prefetch(entry.offset));
            }
            self.fetched = self.hashes.len();
        }
        self.fetched -= 1;
        self.hashes.pop_front().expect("each entry was announced")
    }

    /// Fetches the headers of the pairs of keys that are not announced, and then their slots.
    pub fn fetch<M: OwnedWords, E: Entries>(&self, index: &Owner<M, E>, hashes: &[Hash]) {
        hashes.iter().for_each(|&hash| index.prefetch(&self.table, hash));
        hashes.iter().for_each(|&hash| index.prefetch_slot(&self.table, hash));
    }
}
