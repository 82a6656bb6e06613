//! Of each key the newest version counts, in whatever order versions come: as a stream commits them, or as
//! they lie in the segments that an earlier leader left. Of copies of one version the youngest counts: the
//! segment of the original is freed first.

use std::cmp::Ordering;

use longarm_base::{Csn, EntryRef, Mutant};
use longarm_index::hash::{Found, Record, SlotKind};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::Stored;

use crate::engine::Engine;
use crate::timestamps::Timestamps;

impl<M: OwnedWords> Engine<M> {
    /// In a group, the record of the item of an entry.
    pub fn record_of<'a>(&self, place: EntryRef, entry: &Stored<'a>, hash: Hash) -> Record<'a> {
        record_of(self.options.slots, place, entry, hash)
    }

    /// Gives the key this entry's value, unless it has a newer one (LoLKV 3.3.3), or a younger copy of the
    /// same. That cannot fail: an item without a slot, even beyond the memory limit, is stored beside the
    /// table. Returns whether it replaced an expired item.
    pub fn set_newest(&self, times: Timestamps, place: EntryRef, entry: &Stored<'_>, hash: Hash) -> bool {
        let record = self.record_of(place, entry, hash);
        let mut spills = false;
        loop {
            let index = self.index.read();
            let mut pair = index.lock(hash);
            let Some(found) = pair.find(entry.key) else {
                if pair.insert(&record).is_ok() {
                    return false;
                }
                if spills {
                    pair.spill(entry.key, &record);
                    return false;
                }
                drop(pair);
                drop(index);
                spills = self.index.make_room_anyway(hash).is_err();
                continue;
            };
            let current = self.current(&found, times);
            let is_older = match current.csn.cmp(&entry.csn) {
                Ordering::Equal => current.place.is_some_and(|place| self.arena.age(place) >= entry.age),
                order => order == Ordering::Greater,
            };
            if is_older {
                // A later write came sooner: this entry was the key's value just before it.
                drop(pair);
                self.store.supersede(place, entry.csn);
                return false;
            }
            let late = Mutant::LateSupersede.is_on();
            if let Some(old) = current.place.filter(|_| !late) {
                self.store.supersede(old, current.csn);
            }
            let switched = pair.replace(&found, &record);
            assert!(switched.is_ok(), "a record that is replaced in place needs no room");
            if let Some(old) = current.place.filter(|_| late) {
                drop(pair);
                self.store.supersede(old, current.csn);
            }
            return current.gone;
        }
    }

    /// Removes the key's item, unless it is newer than the delete.
    pub fn remove_older(&self, key: &[u8], hash: Hash, csn: Csn) {
        let index = self.index.read();
        let mut pair = index.lock(hash);
        if let Some(found) = pair.find(key)
            && found.record().csn() < csn
        {
            self.remove(&mut pair, &found);
        }
    }
}

/// In a group, the record of the item of an entry: the item itself, where it fits a slot.
pub fn record_of<'a>(slots: SlotKind, place: EntryRef, entry: &Stored<'a>, hash: Hash) -> Record<'a> {
    let Stored { csn, key, value, expiry, .. } = *entry;
    match value.filter(|value| Record::fits_inline(slots, key.len(), value.len(), expiry)) {
        Some(value) => Record::Inline { csn, key, value, expiry, entry: Some(place) },
        None => Record::Entry { csn, entry: place, hash, expiry },
    }
}

/// Whether a found item is exactly this entry.
pub fn names(found: &Found, csn: Csn, place: EntryRef) -> bool {
    let here = found.entry().is_some_and(|entry| entry.offset == place.offset);
    here && found.record().csn() == csn
}
