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
}

/// What entries say that is known only when all have been seen; see the head of this file.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The highest version found.
    pub highest: Csn,
    /// The newest delete of each key that has one. Puts of the key may be found before and after.
    pub deleted: BTreeMap<Box<[u8]>, EntryCopy>,
    /// The saved records of each session's operations.
    saved: BTreeMap<(u64, u64), EntryCopy>,
    /// The outcomes that sessions may ask for.
    pub sessions: Restored,
    /// Whether some item has a time to live.
    pub expires: bool,
    /// Cache lines of the deletes.
    pub tombstones: u64,
    /// Cache lines of the saved records.
    pub outcomes: u64,
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
            EntryKind::Tombstone => {
                let spare = newest(&mut self.deleted, entry.key.into(), at);
                self.tombstones = self.tombstones + units(&at) - lines(&spare);
                spare
            }
            EntryKind::Noop => {
                let by = entry.session.map_or((0, 0), |by| (by.id, by.operation));
                let spare = newest(&mut self.saved, by, at);
                self.outcomes = self.outcomes + units(&at) - lines(&spare);
                spare
            }
        }
    }

    /// Whether the entry's key was deleted after it.
    pub fn is_deleted(&self, entry: &Entry<'_>) -> bool {
        self.deleted.get(entry.key).is_some_and(|delete| delete.csn > entry.csn)
    }

    /// Takes what another part has seen. Superfluous entries go to `spare`.
    pub fn take(&mut self, other: Recovered, spare: &mut Vec<EntryCopy>) {
        self.highest = self.highest.max(other.highest);
        self.expires |= other.expires;
        self.sessions.take(other.sessions);
        let before = spare.len();
        spare.extend(other.deleted.into_iter().filter_map(|(key, at)| newest(&mut self.deleted, key, at)));
        self.tombstones = self.tombstones + other.tombstones - lines(&spare[before..]);
        let before = spare.len();
        spare.extend(other.saved.into_iter().filter_map(|(by, at)| newest(&mut self.saved, by, at)));
        self.outcomes = self.outcomes + other.outcomes - lines(&spare[before..]);
    }

    /// Forgets entries at places that are gone.
    pub fn forget(&mut self, is_gone: impl Fn(EntryRef) -> bool) {
        let stays = |at: &EntryCopy, lines: &mut u64| {
            let gone = is_gone(at.place);
            *lines -= if gone { units(at) } else { 0 };
            !gone
        };
        self.deleted.retain(|_, at| stays(at, &mut self.tombstones));
        self.saved.retain(|_, at| stays(at, &mut self.outcomes));
    }
}

fn units(at: &EntryCopy) -> u64 {
    u64::from(at.place.units())
}

/// The cache lines of these entries.
fn lines<'a>(entries: impl IntoIterator<Item = &'a EntryCopy>) -> u64 {
    entries.into_iter().map(units).sum()
}

/// Keeps the newest entry; the other one, if there are two, is superfluous.
fn newest<K: Ord>(known: &mut BTreeMap<K, EntryCopy>, key: K, at: EntryCopy) -> Option<EntryCopy> {
    match known.entry(key) {
        Known::Vacant(none) => {
            none.insert(at);
            None
        }
        Known::Occupied(mut one) if at > *one.get() => Some(one.insert(at)),
        Known::Occupied(_) => Some(at),
    }
}
