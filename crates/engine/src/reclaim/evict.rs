//! Eviction: approximate LRU by the clock algorithm, although most reads never touch this process.
//!
//! Each hash has a bit in a private array (several keys may share one). A write, and a read through the
//! server, sets it. One-sided readers report the keys that they read by a sample: a client sends the hashes
//! of some of its GETs as Hints, and those bits are set too. The evictor's hand sweeps the pairs: if the bit
//! of an item is set, it clears the bit and passes on, otherwise the item goes. So an item stays if it was
//! used since the hand last came by, as far as samples show. This is approximate: a key that is read seldom
//! may be missing from the sample, and keys share bits. Both only cost a miss of the cache, never a wrong
//! answer.

use std::sync::atomic::Ordering;

use longarm_base::EntryRef;
use longarm_index::hash::{Entries, Record};
use longarm_memory::{Hash, OwnedWords};

use crate::engine::{Engine, PairOf};
use crate::reclaim::cursor::Cursor;

impl<M: OwnedWords> Engine<M> {
    /// Sweeps so many pairs; returns how many items went.
    pub fn evict_some(&self, cursor: &mut Cursor, pairs: u64) -> u64 {
        let Some(marks) = &self.marks else { return 0 };
        let geometry = self.index.geometry();
        let mut gone = 0;
        for _ in 0..pairs {
            let (table, pair) = cursor.step(&geometry);
            let index = self.index.read();
            let Some(mut pair) = index.lock_nth(table, pair) else { continue };
            for found in pair.all() {
                if !marks.take(self.hash_of(&found.record())) {
                    self.remove(&mut pair, &found);
                    gone += 1;
                }
            }
        }
        self.evicted(gone);
        gone
    }

    /// Evicts in the pair where a key of this hash belongs until it has room for one more; unmarked items
    /// first.
    pub fn evict_near(&self, hash: Hash) -> bool {
        let Some(marks) = &self.marks else { return false };
        let index = self.index.read();
        let mut pair = index.lock(hash);
        let mut gone = 0;
        let mut room = false;
        let all = pair.all();
        let (idle, used): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|found| !marks.take(self.hash_of(&found.record())));
        for found in idle.iter().chain(&used) {
            room = self.has_room(&mut pair);
            if room {
                break;
            }
            self.remove(&mut pair, found);
            gone += 1;
        }
        room = room || self.has_room(&mut pair);
        self.evicted(gone);
        room
    }

    /// Whether the item at `place` of this hash is evicted rather than moved: writes find no memory and moves
    /// make none, its segment holds little, and it was not used lately. (In a small memory with values of
    /// many sizes the copies from a segment often take a whole one again, as no other entry has their size.)
    pub(super) fn evicts(&self, place: EntryRef, hash: Hash) -> bool {
        let marks = self.marks.as_ref().filter(|_| self.store.is_worth_clearing(place));
        marks.is_some_and(|marks| !marks.take(hash))
    }

    fn has_room(&self, pair: &mut PairOf<'_, M>) -> bool {
        pair.reserve(None).is_ok()
    }

    fn evicted(&self, items: u64) {
        // Relaxed: a counter.
        self.counts.evicted.fetch_add(items, Ordering::Relaxed);
    }

    fn hash_of(&self, record: &Record<'_>) -> Hash {
        match *record {
            Record::Inline { key, .. } => self.hash(key),
            Record::Entry { csn, entry, .. } => self
                .arena
                .hash_of(entry, csn, self.index.hasher())
                .unwrap_or_else(|| panic!("a slot names {entry:?} of csn {csn:?}, which is not there")),
        }
    }
}
