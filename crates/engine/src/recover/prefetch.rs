//! Prefetches the index lines of entries that are about to be looked up: each look alone would wait for
//! memory twice.

use std::collections::VecDeque;

use longarm_index::hash::{Entries, Owner, Table};
use longarm_memory::{Hash, OwnedWords};

/// How many entries ahead the slot is fetched: the header has arrived by then.
const SLOT: usize = 3;

/// The hashes of such entries, in order.
pub struct Prefetch {
    /// The index's newest table at the beginning: most keys will be there.
    table: Table,
    hashes: VecDeque<Hash>,
}

impl Prefetch {
    pub fn of<M: OwnedWords, E: Entries>(index: &Owner<M, E>) -> Prefetch {
        Prefetch { table: index.newest(), hashes: VecDeque::new() }
    }

    /// Announces an entry with this key, which is going to be looked up.
    pub fn announce<M: OwnedWords, E: Entries>(&mut self, index: &Owner<M, E>, key: &[u8]) {
        let hash = index.hasher().hash(key);
        index.prefetch(&self.table, hash);
        self.hashes.push_back(hash);
    }

    /// The hash of the entry that is looked up now.
    pub fn next<M: OwnedWords, E: Entries>(&mut self, index: &Owner<M, E>) -> Hash {
        let hash = self.hashes.pop_front().expect("each entry was announced");
        if let Some(&coming) = self.hashes.get(SLOT) {
            index.prefetch_slot(&self.table, coming);
        }
        hash
    }
}
