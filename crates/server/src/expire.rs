//! Expiry in the background. Nobody needs it to be right: readers and writers judge an item's expiry
//! themselves. It gives the memory back.

use std::sync::atomic::Ordering;

use longarm_index::hash::{Entries, Found, Record};
use longarm_memory::OwnedWords;

use crate::clock::Moment;
use crate::engine::{Engine, Hand};
use crate::evict::Cursor;

impl<M: OwnedWords> Engine<M> {
    /// Looks at so many pairs; returns how many items were over.
    pub(crate) fn expire_some(&self, cursor: &mut Cursor, pairs: u64, moment: Moment) -> u64 {
        let geometry = self.index.geometry();
        let mut gone = 0;
        for _ in 0..pairs {
            let (table, pair) = cursor.step(&geometry);
            let Some(mut pair) = self.index.lock_nth(table, pair) else { continue };
            for found in pair.all() {
                if self.current(&found, moment).gone {
                    self.remove(&mut pair, &found);
                    gone += 1;
                }
            }
        }
        // Relaxed: a counter.
        self.counts.expired.fetch_add(gone, Ordering::Relaxed);
        gone
    }

    /// The same in a group, where an item goes by a delete that followers have too.
    pub(crate) fn expire_some_later(
        &self,
        hand: &mut Hand<M>,
        cursor: &mut Cursor,
        pairs: u64,
        moment: Moment,
    ) -> u64 {
        let geometry = self.index.geometry();
        let mut gone = 0;
        for _ in 0..pairs {
            let (table, pair) = cursor.step(&geometry);
            for key in self.expired_keys((table, pair), moment) {
                gone += u64::from(self.expire_later(hand, &key, moment));
            }
        }
        gone
    }

    fn expired_keys(&self, (table, pair): (usize, u64), moment: Moment) -> Vec<Vec<u8>> {
        let Some(pair) = self.index.lock_nth(table, pair) else { return Vec::new() };
        let over = |found: &Found| self.current(found, moment).gone;
        let key = |found: Found| match found.record() {
            Record::Inline { key, .. } => Some(key.to_vec()),
            Record::Entry { csn, entry, .. } => self.arena.key_of(entry, csn),
        };
        pair.all().into_iter().filter(over).filter_map(key).collect()
    }

    /// Pairs of all tables.
    pub(crate) fn pairs(&self) -> u64 {
        self.index.geometry().live().map(|table| table.pairs).sum()
    }
}
