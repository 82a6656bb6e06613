//! Expiry in the background, which gives memory back. No answer depends on it: readers and writers judge an
//! item's expiry themselves.

use std::sync::atomic::Ordering;

use longarm_index::hash::{Entries, Found, Record};
use longarm_memory::OwnedWords;

use crate::commit::Commit;
use crate::engine::Engine;
use crate::reclaim::cursor::Cursor;
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;

impl<M: OwnedWords> Engine<M> {
    /// Looks at so many pairs; returns how many items went because their time is over.
    pub fn expire_some(
        &self,
        context: &mut WorkerContext<M>,
        cursor: &mut Cursor,
        pairs: u64,
        times: Timestamps,
    ) -> u64 {
        let geometry = self.index.geometry();
        let mut gone = 0;
        for _ in 0..pairs {
            let (table, pair) = cursor.step(&geometry);
            gone += match &self.commit {
                Commit::Direct => self.expire_pair(table, pair, times),
                // In a group an item goes by a delete, which followers have too.
                Commit::Replicated(group) => {
                    let keys = self.expired_keys(table, pair, times).into_iter();
                    let went =
                        keys.filter(|key| self.expire_replicated(group, context, key, self.hash(key), times));
                    went.count() as u64
                }
            };
        }
        gone
    }

    /// Removes the expired items of a pair; returns how many.
    fn expire_pair(&self, table: usize, pair: u64, times: Timestamps) -> u64 {
        let index = self.index.read();
        let Some(mut pair) = index.lock_nth(table, pair) else { return 0 };
        let all = pair.all();
        let over = all.iter().filter(|found| self.current(found, times).gone);
        let gone = over.map(|found| self.remove(&mut pair, found)).count() as u64;
        // Relaxed: a counter.
        self.counts.expired.fetch_add(gone, Ordering::Relaxed);
        gone
    }

    fn expired_keys(&self, table: usize, pair: u64, times: Timestamps) -> Vec<Vec<u8>> {
        let index = self.index.read();
        let Some(pair) = index.lock_nth(table, pair) else { return Vec::new() };
        let over = |found: &Found| self.current(found, times).gone;
        let key = |found: Found| match found.record() {
            Record::Inline { key, .. } => Some(key.to_vec()),
            Record::Entry { csn, entry, .. } => self.arena.key_of(entry, csn),
        };
        pair.all().into_iter().filter(over).filter_map(key).collect()
    }

    /// The number of pairs of all tables.
    pub fn pairs(&self) -> u64 {
        self.index.geometry().live().map(|table| table.pairs).sum()
    }
}
