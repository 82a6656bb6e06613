//! An engine over an arena that another leader filled: index, versions and sessions from entries alone (LoLKV
//! 3.2, 3.4, 5.1; L15: the index of an old leader is never trusted).
//!
//! The time that this takes is most of the time that a group is without a leader, so all cores take part:
//! each restores one segment after the other. Of each key the newest version counts, in whatever order
//! versions come. The segments that were claimed last come first, so most versions that do not count are
//! found to be older than what the index has, and only their own bits are set. Deletes and the outcomes that
//! sessions may ask for are put together at the end (`recovered.rs`). Entries of a standby index
//! (`standby.rs`) are not looked at again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longarm_base::limits::LINE;
use longarm_base::{Csn, EntryRef, Mutant};
use longarm_host::Mutex;
use longarm_host::observe::{Observation, WATCHED, observe};
use longarm_memory::{Hash, OwnedWords};
use longarm_store::{Entry, EntryKind, Scratch, Visit};

use crate::commit::Commit;
use crate::engine::Engine;
use crate::recover::hashed_key::HashedKey;
use crate::recover::prefetch::Prefetch;
use crate::recover::recovered::{EntryCopy, Recovered};
use crate::session::Sessions;
use crate::timestamps::Timestamps;

/// The time of a core that an entry takes, and some more: measured at a restore of a million entries
/// (decision 14).
pub const ENTRY: Duration = Duration::from_nanos(300);
/// The most threads: more of them gain nothing, as they wait for the same memory.
const THREADS_MAX: usize = 8;

/// One thread's part.
struct RestorePart<'a, M: OwnedWords> {
    engine: &'a Engine<M>,
    times: Timestamps,
    prefetch: Prefetch,
    /// The entries found with the standby index.
    standby: &'a Recovered,
    found: Recovered,
    deletes: Vec<(HashedKey, EntryCopy)>,
    /// Deletes and saved records that other entries make superfluous.
    spare: Vec<EntryCopy>,
    /// The number of entries seen.
    entries: u32,
}

impl<M: OwnedWords> Engine<M> {
    /// Builds everything from the entries of the adopted arena, except those in the standby index.
    pub fn restore(&self, sessions: &Sessions, times: Timestamps, mut standby: Recovered) {
        if WATCHED {
            self.store.visit_presumed(&mut |_, entry| tell(entry, self.hash(entry.key)));
        }
        let adopted = self.store.adopted();
        let (next, all) = (AtomicUsize::new(0), Mutex::new((Recovered::default(), Vec::new(), Vec::new())));
        longarm_host::at_once(longarm_host::cores().min(THREADS_MAX).min(adopted.len()), |_| {
            let (found, deletes, spare, entries) = Default::default();
            let (engine, prefetch, standby) = (self, Prefetch::of(&self.index), &standby);
            let mut part = RestorePart { engine, times, prefetch, standby, found, deletes, spare, entries };
            let mut scratch = Scratch::default();
            // Relaxed: the thread that draws a number does that part.
            while let Some(&segment) = adopted.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.store.replay(segment, &mut scratch, &mut part);
            }
            longarm_host::spend(ENTRY * part.entries);
            let (found, deletes, spare) = &mut *all.lock();
            spare.append(&mut part.spare);
            deletes.append(&mut part.deletes);
            found.take(part.found, spare);
        });
        let (mut found, deletes, mut spare) = std::mem::take(&mut *all.lock());
        found.take_deletes(deletes, &mut spare);
        for (key, delete) in &found.deleted.entries {
            self.remove_older(key.key(), key.hash(), delete.csn);
        }
        standby.take(found, &mut spare);
        let found = standby;
        for EntryCopy { csn, place, .. } in spare {
            self.store.supersede(place, csn);
        }
        if let Commit::Replicated(group) = &self.commit {
            group.found_kept(found.deleted.lines, found.saved.lines);
            group.deletes.found(found.deleted);
        }
        self.store.bury_unread();
        sessions.restore(found.sessions, times.now);
        if found.expires {
            // Relaxed: the flag only spares work while it is false; no client is served yet.
            self.ttl_used.store(true, Ordering::Relaxed);
        }
        self.go_on_from(found.highest.max(self.store.stable()));
        if WATCHED {
            self.check_restored();
        }
    }

    /// Checks that the index names exactly what all entries together say, and that each segment is accounted
    /// for as it is: one that dies too early is freed with entries that count.
    fn check_restored(&self) {
        let mut newest: BTreeMap<Box<[u8]>, (Csn, bool)> = BTreeMap::new();
        let (mut tombstones, mut outcomes) = (0, 0);
        for &segment in self.store.adopted() {
            let mut live = 0;
            self.store.visit(segment, 0, &mut |place, entry| {
                live += u64::from(!entry.superseded);
                let bytes = if entry.superseded { 0 } else { u64::from(place.units()) * LINE };
                match entry.kind {
                    EntryKind::Tombstone => tombstones += bytes,
                    EntryKind::Noop => outcomes += bytes,
                    EntryKind::Put | EntryKind::Move => {}
                }
                if entry.kind != EntryKind::Noop {
                    let known = newest.entry(entry.key.into()).or_default();
                    *known = (*known).max((entry.csn, entry.kind.is_value()));
                }
                true
            });
            let accounted = self.store.live(segment);
            assert!(live == accounted, "segment {segment}: {live} entries count, {accounted} by account");
        }
        for (key, &(csn, is_value)) in &newest {
            let found = self.index.read().lock(self.hash(key)).find(key).map(|found| found.record().csn());
            assert_eq!(found, is_value.then_some(csn), "key {key:?}, after a restore");
        }
        if let Commit::Replicated(group) = &self.commit {
            let kept = (tombstones, outcomes);
            assert_eq!(group.kept_bytes(), kept, "bytes of tombstones and outcomes, after a restore");
        }
        let values = newest.values().filter(|(_, is_value)| *is_value).count();
        assert_eq!(self.index.items(), values as u64, "items, after a restore");
    }

    /// Draws versions above this one only: others up to it may have been drawn and lost. No client is served
    /// yet.
    pub fn go_on_above(&self, csn: Csn) {
        self.go_on_from(csn.max(self.csn()));
    }

    fn go_on_from(&self, csn: Csn) {
        // Release: no thread draws yet.
        self.csn.store(if Mutant::ResetCsn.is_on() { 0 } else { csn.0 }, Ordering::Release);
        self.store.set_stable(csn);
    }
}

impl<M: OwnedWords> Visit for RestorePart<'_, M> {
    fn ahead(&mut self, entry: &Entry<'_>) {
        self.prefetch.announce(&self.engine.index, entry.key);
    }

    fn entry(&mut self, place: EntryRef, entry: &Entry<'_>) {
        self.entries += 1;
        let hash = self.prefetch.next(&self.engine.index, None);
        tell(entry, hash);
        if entry.kind == EntryKind::Tombstone {
            self.found.note(entry);
            self.deletes.push((HashedKey::of(hash, entry.key), EntryCopy::of(place, entry)));
        } else {
            self.spare.extend(self.found.see(place, entry, hash));
        }
        if entry.kind.is_value() {
            if self.standby.is_deleted(entry, hash) {
                self.spare.push(EntryCopy::of(place, entry));
                return;
            }
            self.engine.set_newest(self.times, place, &entry.into(), hash);
        }
    }
}

/// Tells the world of an entry of the start set.
fn tell(entry: &Entry<'_>, hash: Hash) {
    observe(|| Observation::Restored {
        key: (entry.kind != EntryKind::Noop).then_some(hash.0),
        csn: entry.csn,
        value: entry.kind.is_value(),
        by: entry.session.map(|by| (by.id, by.operation)),
    });
}
