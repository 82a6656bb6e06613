//! Tombstones and sessions found in an arena that another leader filled. They are known only when all entries
//! have been seen, in any order, and perhaps in parts.
//!
//! Of each delete and saved record one entry stays. Collection has copied some of them, and the originals are
//! found again if their segments were not freed before the term ended. If both counted, both would be copied
//! next, and a few short terms would fill the memory.

use std::collections::btree_map::{BTreeMap, Entry as Known};
use std::ops::Bound;

use longarm_base::{Csn, EntryRef, UnixMillis};
use longarm_memory::Hash;
use longarm_store::object::Age;
use longarm_store::{Entry, EntryKind};

use crate::outcome::Outcome;
use crate::recover::hashed_key::{HashedKey, Keyed};
use crate::session::Restored;
use crate::write::number::parse;

/// A version, how young a copy of it this is, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EntryCopy {
    /// The version.
    pub csn: Csn,
    /// How young a copy of the version it is.
    pub age: Age,
    /// Its place.
    pub place: EntryRef,
}

impl EntryCopy {
    /// The version of an entry at this place.
    pub fn of(place: EntryRef, entry: &Entry<'_>) -> EntryCopy {
        EntryCopy { csn: entry.csn, age: entry.age(), place }
    }

    fn lines(self) -> u64 {
        u64::from(self.place.units())
    }
}

/// The newest delete of each key that has one.
pub type FoundDeletes = Newest<HashedKey>;

/// Of each key, or operation, the newest entry.
#[derive(Debug)]
pub struct Newest<K> {
    /// The entries.
    pub entries: BTreeMap<K, EntryCopy>,
    /// Their cache lines.
    pub lines: u64,
}

impl<K> Default for Newest<K> {
    fn default() -> Newest<K> {
        Newest { entries: BTreeMap::new(), lines: 0 }
    }
}

impl<K: Ord> Newest<K> {
    /// Keeps the newest entry; the other one, if there are two, is superfluous.
    pub(crate) fn see(&mut self, key: K, at: EntryCopy) -> Option<EntryCopy> {
        self.lines += at.lines();
        let spare = match self.entries.entry(key) {
            Known::Vacant(none) => {
                none.insert(at);
                None
            }
            Known::Occupied(mut one) if at > *one.get() => Some(one.insert(at)),
            Known::Occupied(_) => Some(at),
        };
        self.lines -= spare.map_or(0, EntryCopy::lines);
        spare
    }

    /// The newest of all these entries. Superfluous ones go to `spare`.
    pub(crate) fn of_all(mut all: Vec<(K, EntryCopy)>, spare: &mut Vec<EntryCopy>) -> Newest<K> {
        all.sort_unstable_by(|one, other| one.cmp(other).reverse());
        all.dedup_by(|older, newest| {
            let same = older.0 == newest.0;
            spare.extend(same.then_some(older.1));
            same
        });
        let lines = all.iter().map(|(_, at)| at.lines()).sum();
        Newest { entries: all.into_iter().collect(), lines }
    }

    /// Takes what another part has seen: what is fewer goes to what is more. Superfluous entries go to
    /// `spare`.
    fn take(&mut self, mut other: Newest<K>, spare: &mut Vec<EntryCopy>) {
        if other.entries.len() > self.entries.len() {
            std::mem::swap(self, &mut other);
        }
        spare.extend(other.entries.into_iter().filter_map(|(key, at)| self.see(key, at)));
    }

    fn forget(&mut self, is_gone: impl Fn(EntryRef) -> bool) {
        self.entries.retain(|_, at| {
            let gone = is_gone(at.place);
            self.lines -= if gone { at.lines() } else { 0 };
            !gone
        });
    }
}

impl FoundDeletes {
    /// The newest delete of a key.
    pub fn of(&self, hash: Hash, key: &[u8]) -> Option<&EntryCopy> {
        self.entries.get::<dyn Keyed>(&(hash, key))
    }

    /// Drops the newest delete of a key, and returns it.
    pub fn remove(&mut self, hash: Hash, key: &[u8]) -> Option<EntryCopy> {
        let removed = self.entries.remove::<dyn Keyed>(&(hash, key));
        self.lines -= removed.map_or(0, EntryCopy::lines);
        removed
    }

    /// Forgets those of keys with one of these hashes that are gone.
    pub(crate) fn forget_of(&mut self, hashes: &mut Vec<Hash>, is_gone: impl Fn(EntryRef) -> bool) {
        hashes.sort_unstable_by_key(|hash| hash.0);
        hashes.dedup();
        let mut gone = Vec::new();
        for &mut hash in hashes {
            let from: &dyn Keyed = &(hash, &[][..]);
            let of_hash = self.entries.range::<dyn Keyed, _>((Bound::Included(from), Bound::Unbounded));
            let of_hash = of_hash.take_while(|(key, _)| key.hash() == hash);
            gone.extend(of_hash.filter(|(_, at)| is_gone(at.place)).map(|(key, _)| key.clone()));
        }
        for key in gone {
            self.remove(key.hash(), key.key());
        }
    }
}

/// What entries say that is known only when all have been seen; see the head of this file.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The highest version found.
    pub highest: Csn,
    /// The newest delete of each key that has one. Puts of the key may be found before and after.
    pub deleted: FoundDeletes,
    /// The saved records of each session's operations.
    pub saved: Newest<(u64, u64)>,
    /// The outcomes that sessions may ask for.
    pub sessions: Restored,
    /// Whether some item has a time to live.
    pub expires: bool,
}

impl Recovered {
    /// Sees an entry, whose key has this hash. Of two deletes of a key, or two records of an operation, the
    /// superfluous one is returned: this entry, or one that was seen before.
    pub fn see(&mut self, place: EntryRef, entry: &Entry<'_>, hash: Hash) -> Option<EntryCopy> {
        self.note(entry);
        let at = EntryCopy::of(place, entry);
        match entry.kind {
            EntryKind::Put | EntryKind::Move => None,
            EntryKind::Tombstone => self.deleted.see(HashedKey::of(hash, entry.key), at),
            EntryKind::Noop => {
                let by = entry.session.map_or((0, 0), |by| (by.id, by.operation));
                self.saved.see(by, at)
            }
        }
    }

    /// Takes the deletes among many entries that were only [noted](Self::note): put together at once they
    /// take a tenth of the time. Superfluous ones go to `spare`.
    pub fn take_deletes(&mut self, deletes: Vec<(HashedKey, EntryCopy)>, spare: &mut Vec<EntryCopy>) {
        self.deleted.take(Newest::of_all(deletes, spare), spare);
    }

    /// Notes what each entry says, of whatever kind.
    pub fn note(&mut self, entry: &Entry<'_>) {
        self.highest = self.highest.max(entry.csn);
        self.expires |= entry.expiry != UnixMillis::NEVER;
        // A completion record is part of its entry, or of the entry that saved it (`session_log.rs`).
        if let Some(by) = entry.session {
            let number = parse(entry.value).unwrap_or(0);
            self.sessions.note(by.id, by.operation, Outcome { number, ..Outcome::ok(entry.csn) });
        }
    }

    /// Whether the entry's key, of this hash, was deleted after it.
    pub fn is_deleted(&self, entry: &Entry<'_>, hash: Hash) -> bool {
        self.deleted.of(hash, entry.key).is_some_and(|delete| delete.csn > entry.csn)
    }

    /// Takes what another part has seen. Superfluous entries go to `spare`.
    pub fn take(&mut self, other: Recovered, spare: &mut Vec<EntryCopy>) {
        self.highest = self.highest.max(other.highest);
        self.expires |= other.expires;
        self.sessions.take(other.sessions);
        self.deleted.take(other.deleted, spare);
        self.saved.take(other.saved, spare);
    }

    /// Forgets deletes at places that are gone, of keys with these hashes.
    pub fn forget_deletes(&mut self, hashes: &mut Vec<Hash>, is_gone: impl Fn(EntryRef) -> bool) {
        self.deleted.forget_of(hashes, is_gone);
    }

    /// Forgets saved records at places that are gone.
    pub fn forget_saved(&mut self, is_gone: impl Fn(EntryRef) -> bool) {
        self.saved.forget(is_gone);
    }
}
