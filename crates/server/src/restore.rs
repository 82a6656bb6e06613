//! An engine over an arena that others filled: index, versions and sessions from entries alone (LoLKV 3.2,
//! 3.4; VERIFY L15: nothing that an old leader's index said is trusted).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use longarm_base::{Csn, Mutant, UnixMillis};
use longarm_memory::OwnedWords;
use longarm_store::{Entry, EntryPlace, Kind};

use crate::clock::Moment;
use crate::engine::{Engine, Outcome};
use crate::increment::parse;
use crate::session::Sessions;

/// The newest delete of each key that has one. Puts of it may be found before and after.
type Deleted = BTreeMap<Box<[u8]>, Csn>;

impl<M: OwnedWords> Engine<M> {
    /// Builds everything from the entries of the adopted arena.
    pub(crate) fn restore(&self, sessions: &Sessions, moment: Moment) {
        let mut deleted = Deleted::new();
        let mut highest = self.store.stable();
        let mut bytes = Vec::new();
        for &segment in self.store.adopted() {
            self.store.replay(segment, &mut bytes, &mut |place, entry| {
                highest = highest.max(entry.csn);
                self.restore_session(sessions, moment, entry);
                match entry.kind {
                    Kind::Put | Kind::Move => self.restore_item(moment, place, entry),
                    Kind::Tombstone => {
                        let newest = deleted.entry(entry.key.into()).or_default();
                        *newest = entry.csn.max(*newest);
                    }
                    Kind::Noop => {}
                }
            });
        }
        for (key, csn) in deleted {
            self.remove_older((&key, self.hash(&key)), csn);
        }
        self.go_on_from(highest);
    }

    /// Of each key the newest version counts; of copies of one version any.
    fn restore_item(&self, moment: Moment, place: EntryPlace, entry: &Entry<'_>) {
        if entry.expiry != UnixMillis::NEVER {
            self.use_ttl();
        }
        let fits = self.set_newest(moment, (place, entry), self.hash(entry.key));
        assert!(fits, "the index of a start set does not fit its region");
    }

    /// A completion record is part of its entry, or what was kept of it (`records.rs`).
    fn restore_session(&self, sessions: &Sessions, moment: Moment, entry: &Entry<'_>) {
        let Some(by) = entry.session else { return };
        let number = parse(entry.value).unwrap_or(0);
        let outcome = Outcome { number, ..Outcome::ok(entry.csn) };
        sessions.restore(by.id, by.operation, outcome, moment.now);
    }

    fn go_on_from(&self, csn: Csn) {
        // Release: nobody draws yet.
        self.csn.store(if Mutant::ResetCsn.is_on() { 0 } else { csn.0 }, Ordering::Release);
        self.store.set_stable(csn);
    }

    fn use_ttl(&self) {
        // Relaxed: only spares work while it is false; nobody serves yet.
        self.ttl_used.store(true, Ordering::Relaxed);
    }
}
