//! An engine over an arena that others filled: index, versions and sessions from entries alone (LoLKV 3.2,
//! 3.4; VERIFY L15: nothing that an old leader's index said is trusted).
//!
//! How long this takes is most of how long a group is without a leader, so all cores do it: each takes one
//! segment after the other. Of each key the newest version counts, in whatever order they come; deletes and
//! what sessions may ask for are put together at the end.
//!
//! Of each delete and saved record one entry stays. Collection had copied some, and the entries that it
//! copied from are found again wherever their segments were not freed before the term ended: if both counted,
//! both would be copied next, and a few short terms would fill the memory.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry as Known};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use longarm_base::{Csn, Mutant, UnixMillis};
use longarm_host::Mutex;
use longarm_host::observe::{Event, observe};
use longarm_index::hash::Table;
use longarm_memory::{Hash, OwnedWords};
use longarm_store::{Entry, EntryPlace, Kind, Scratch, Visit};

use crate::clock::Moment;
use crate::engine::{Engine, Outcome};
use crate::increment::parse;
use crate::session::{Restored, Sessions};

/// So many entries ahead the slot is fetched: the header is here by then.
const SOON: usize = 3;
/// More threads than this gain nothing: they wait for the same memory.
const THREADS_MAX: usize = 8;

/// A version, and where it is.
type At = (Csn, EntryPlace);

/// What entries say that is known only when all have been seen.
#[derive(Debug, Default)]
struct Findings {
    highest: Csn,
    /// The newest delete of each key that has one. Puts of it may be found before and after.
    deleted: BTreeMap<Box<[u8]>, At>,
    /// What was saved of each session's operations.
    saved: BTreeMap<(u64, u64), At>,
    /// Deletes and saved records that others make superfluous.
    spare: Vec<At>,
    sessions: Restored,
    /// Some item has a time to live.
    expires: bool,
}

impl Findings {
    fn take(&mut self, other: Findings) {
        self.highest = self.highest.max(other.highest);
        other.deleted.into_iter().for_each(|(key, at)| self.delete(key, at));
        other.saved.into_iter().for_each(|(by, at)| self.save(by, at));
        self.spare.extend(other.spare);
        self.sessions.take(other.sessions);
        self.expires |= other.expires;
    }

    fn delete(&mut self, key: Box<[u8]>, at: At) {
        self.spare.extend(newest(&mut self.deleted, key, at));
    }

    fn save(&mut self, by: (u64, u64), at: At) {
        self.spare.extend(newest(&mut self.saved, by, at));
    }
}

/// Keeps the newest; the other one, if there are two, is superfluous.
fn newest<K: Ord>(known: &mut BTreeMap<K, At>, key: K, at: At) -> Option<At> {
    match known.entry(key) {
        Known::Vacant(none) => {
            none.insert(at);
            None
        }
        Known::Occupied(mut one) if at > *one.get() => Some(one.insert(at)),
        Known::Occupied(_) => Some(at),
    }
}

/// One thread's part.
struct Part<'a, M: OwnedWords> {
    engine: &'a Engine<M>,
    moment: Moment,
    /// The newest table, when this began: where most keys will be.
    table: Table,
    /// Of the entries that are about to be visited, in order.
    hashes: VecDeque<Hash>,
    found: Findings,
}

impl<M: OwnedWords> Engine<M> {
    /// Builds everything from the entries of the adopted arena.
    pub(crate) fn restore(&self, sessions: &Sessions, moment: Moment) {
        let adopted = self.store.adopted();
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let (next, all) = (AtomicUsize::new(0), Mutex::new(Findings::default()));
        longarm_host::at_once(cores.min(THREADS_MAX).min(adopted.len()), |_| {
            let table = *self.index.geometry().live().last().expect("an index has a table");
            let (hashes, found) = Default::default();
            let mut part = Part { engine: self, moment, table, hashes, found };
            let mut scratch = Scratch::default();
            // Relaxed: who draws a number does that part.
            while let Some(&segment) = adopted.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.store.replay(segment, &mut scratch, &mut part);
            }
            all.lock().take(part.found);
        });
        let found = std::mem::take(&mut *all.lock());
        for (key, (csn, _)) in &found.deleted {
            self.remove_older((key, self.hash(key)), *csn);
        }
        for (csn, place) in found.spare {
            self.store.supersede(place, csn);
        }
        sessions.restore(found.sessions, moment.now);
        if found.expires {
            // Relaxed: only spares work while it is false; nobody serves yet.
            self.ttl_used.store(true, Ordering::Relaxed);
        }
        self.go_on_from(found.highest.max(self.store.stable()));
    }

    fn go_on_from(&self, csn: Csn) {
        // Release: nobody draws yet.
        self.csn.store(if Mutant::ResetCsn.is_on() { 0 } else { csn.0 }, Ordering::Release);
        self.store.set_stable(csn);
    }
}

impl<M: OwnedWords> Visit for Part<'_, M> {
    fn ahead(&mut self, entry: &Entry<'_>) {
        let hash = self.engine.hash(entry.key);
        self.engine.index.prefetch(&self.table, hash);
        self.hashes.push_back(hash);
    }

    fn entry(&mut self, place: EntryPlace, entry: &Entry<'_>) {
        let hash = self.hashes.pop_front().expect("each entry was announced");
        if let Some(&soon) = self.hashes.get(SOON) {
            self.engine.index.prefetch_slot(&self.table, soon);
        }
        observe(|| Event::Restored {
            key: (entry.kind != Kind::Noop).then_some(hash.0),
            csn: entry.csn,
            value: entry.kind.is_value(),
            by: entry.session.map(|by| (by.id, by.operation)),
        });
        self.found.highest = self.found.highest.max(entry.csn);
        self.found.expires |= entry.expiry != UnixMillis::NEVER;
        // A completion record is part of its entry, or what was kept of it (`records.rs`).
        if let Some(by) = entry.session {
            let number = parse(entry.value).unwrap_or(0);
            let outcome = Outcome { number, ..Outcome::ok(entry.csn) };
            self.found.sessions.note(by.id, by.operation, outcome);
        }
        match entry.kind {
            Kind::Put | Kind::Move => {
                let fits = self.engine.set_newest(self.moment, (place, entry), hash);
                assert!(fits, "the index of a start set does not fit its region");
            }
            Kind::Tombstone => self.found.delete(entry.key.into(), (entry.csn, place)),
            Kind::Noop => {
                let by = entry.session.map_or((0, 0), |by| (by.id, by.operation));
                self.found.save(by, (entry.csn, place));
            }
        }
    }
}
