//! Tombstones and sessions found in an arena that another leader filled. They are known only when all entries
//! have been seen, in any order, and perhaps in parts.
//!
//! Of each delete and saved record one entry stays. Collection has copied some of them, and the originals are
//! found again if their segments were not freed before the term ended. If both counted, both would be copied
//! next, and a few short terms would fill the memory.

use std::collections::btree_map::{BTreeMap, Entry as Known};

use longarm_base::{Csn, EntryRef, UnixMillis};
use longarm_store::object::Age;
use longarm_store::{Entry, EntryKind};

use crate::outcome::Outcome;
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
    fn see(&mut self, key: K, at: EntryCopy) -> Option<EntryCopy> {
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

    /// Takes what another part has seen. Superfluous entries go to `spare`.
    fn take(&mut self, other: Newest<K>, spare: &mut Vec<EntryCopy>) {
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

/// What entries say that is known only when all have been seen; see the head of this file.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The highest version found.
    pub highest: Csn,
    /// The newest delete of each key that has one. Puts of the key may be found before and after.
    pub deleted: Newest<Box<[u8]>>,
    /// The saved records of each session's operations.
    pub saved: Newest<(u64, u64)>,
    /// The outcomes that sessions may ask for.
    pub sessions: Restored,
    /// Whether some item has a time to live.
    pub expires: bool,
}

impl Recovered {
    /// Sees an entry. Of two deletes of a key, or two records of an operation, the superfluous one is
    /// returned: this entry, or one that was seen before.
    pub fn see(&mut self, place: EntryRef, entry: &Entry<'_>) -> Option<EntryCopy> {
        self.highest = self.highest.max(entry.csn);
        self.expires |= entry.expiry != UnixMillis::NEVER;
        // A completion record is part of its entry, or of the entry that saved it (`session_log.rs`).
        if let Some(by) = entry.session {
            let number = parse(entry.value).unwrap_or(0);
            self.sessions.note(by.id, by.operation, Outcome { number, ..Outcome::ok(entry.csn) });
        }
        let at = EntryCopy::of(place, entry);
        match entry.kind {
            EntryKind::Put | EntryKind::Move => None,
            EntryKind::Tombstone => self.deleted.see(entry.key.into(), at),
            EntryKind::Noop => {
                let by = entry.session.map_or((0, 0), |by| (by.id, by.operation));
                self.saved.see(by, at)
            }
        }
    }

    /// Whether the entry's key was deleted after it.
    pub fn is_deleted(&self, entry: &Entry<'_>) -> bool {
        self.deleted.entries.get(entry.key).is_some_and(|delete| delete.csn > entry.csn)
    }

    /// Takes what another part has seen. Superfluous entries go to `spare`.
    pub fn take(&mut self, other: Recovered, spare: &mut Vec<EntryCopy>) {
        self.highest = self.highest.max(other.highest);
        self.expires |= other.expires;
        self.sessions.take(other.sessions);
        self.deleted.take(other.deleted, spare);
        self.saved.take(other.saved, spare);
    }

    /// Forgets entries at places that are gone.
    pub fn forget(&mut self, is_gone: impl Fn(EntryRef) -> bool) {
        self.deleted.forget(&is_gone);
        self.saved.forget(&is_gone);
    }
}
