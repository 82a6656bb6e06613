//! Exactly once: what each client's operations came to, kept over its reconnects (VERIFY L17).
//!
//! A client numbers its writes and repeats one whose answer it did not see. The session remembers the last
//! [`WINDOW`] completions; a repeated operation is answered from there and never runs twice.
//! (1) An operation runs, and is recorded, under the mutex of its session.
//! (2) Each connection of a session has a generation, and only the newest runs anything. So once a client was
//!     welcomed again, nothing that its old connection still carries can run, and what ran is on record.
//! (3) A session is forgotten some time after its client left; the client's own bound on retries must be
//!     shorter.
//! (4) Under its session's mutex a worker also answers how many sessions there are. So nobody waits for a
//!     session while it has the lock of all of them: it passes over those that others hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use longarm_base::limits::QUEUE_DEPTH;
use longarm_base::{Csn, Mutant, Nanos};
use longarm_host::Mutex;
use longarm_wire::Status;

use crate::engine::Outcome;
use crate::stream::At;

/// Completions remembered; at least twice the requests a client may have in flight.
pub(crate) const WINDOW: usize = 2 * QUEUE_DEPTH;

/// One completion.
#[derive(Clone, Copy, Debug)]
struct Completed {
    operation: u64,
    csn: Csn,
    number: i64,
    status: Status,
    /// In a group: it counts when this position is applied.
    at: Option<At>,
}

const NEVER: Completed = Completed { operation: 0, csn: Csn::NONE, number: 0, status: Status::Ok, at: None };

/// What is known of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recall {
    /// Nothing: it may run.
    New,
    /// It ran, and this came of it; once the position is applied, if there is one.
    Ran(Outcome, Option<At>),
    /// It is older than the record reaches.
    Forgotten,
}

/// One client's session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Zero is nobody's.
    id: u64,
    generation: u64,
    /// When its last connection ended.
    left: Nanos,
    /// Highest operation on record.
    highest: u64,
    /// By operation modulo its length; empty until there is something to remember.
    window: Vec<Completed>,
}

impl Session {
    /// Its name; zero for one that is never found again.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether this generation is the newest.
    #[inline]
    pub fn admits(&self, generation: u64) -> bool {
        self.generation == generation
    }

    #[inline]
    pub fn recall(&self, operation: u64) -> Recall {
        if operation > self.highest || Mutant::NoDedupe.is_on() {
            return Recall::New;
        }
        let there = &self.window[operation as usize % WINDOW];
        if there.operation == operation {
            let outcome = Outcome { status: there.status, csn: there.csn, number: there.number };
            return Recall::Ran(outcome, there.at);
        }
        if self.highest - operation >= WINDOW as u64 { Recall::Forgotten } else { Recall::New }
    }

    #[inline]
    pub fn record(&mut self, operation: u64, outcome: Outcome, at: Option<At>) {
        if self.window.is_empty() {
            self.window = vec![NEVER; WINDOW];
        }
        let Outcome { status, csn, number } = outcome;
        self.window[operation as usize % WINDOW] = Completed { operation, csn, number, status, at };
        self.highest = self.highest.max(operation);
    }

    /// The connection of this generation is over.
    pub fn leave(&mut self, generation: u64, now: Nanos) {
        if self.generation == generation {
            self.left = now;
        }
    }
}

type Shared = Arc<Mutex<Session>>;

/// A session that nobody else holds, and so no connection. Others come by it under the lock of all alone: it
/// stays so as long as the caller has that.
fn unheld(session: &mut Shared) -> Option<&mut Session> {
    Arc::get_mut(session).map(Mutex::get_mut)
}

/// All sessions, a bounded number.
#[derive(Debug)]
pub(crate) struct Sessions {
    all: Mutex<BTreeMap<u64, Shared>>,
    limit: usize,
    keep: Nanos,
}

impl Sessions {
    /// At most `limit`, which is more than may be connected; each kept so long after its client left.
    pub fn new(limit: usize, keep: Nanos) -> Sessions {
        Sessions { all: Mutex::default(), limit, keep }
    }

    /// A new connection of a client's session, which fences the one before. Session 0 is nobody's: it is
    /// never found again.
    pub fn open(&self, id: u64) -> (Shared, u64) {
        let session = if id == 0 { Shared::default() } else { self.find_or_make(id) };
        let mut opened = session.lock();
        opened.generation += 1;
        let generation = opened.generation;
        drop(opened);
        (session, generation)
    }

    fn find_or_make(&self, id: u64) -> Shared {
        let mut all = self.all.lock();
        if let Some(session) = all.get(&id) {
            return session.clone();
        }
        if all.len() >= self.limit {
            let oldest = all.iter_mut().filter_map(|(id, session)| Some((unheld(session)?.left, *id))).min();
            if let Some((_, oldest)) = oldest {
                all.remove(&oldest);
            }
        }
        let named = || Arc::new(Mutex::new(Session { id, ..Session::default() }));
        all.entry(id).or_insert_with(named).clone()
    }

    /// Takes over what entries of earlier terms say (VERIFY L17); of more sessions than there may be, those
    /// that wrote last.
    pub fn restore(&self, restored: Restored, now: Nanos) {
        let mut known: Vec<_> = restored.0.into_iter().collect();
        known.sort_unstable_by_key(|(_, recent)| std::cmp::Reverse(recent.csn));
        for (id, recent) in known.into_iter().take(self.limit) {
            let session = self.find_or_make(id);
            let mut session = session.lock();
            session.left = now;
            for (operation, outcome) in recent.completed {
                if operation + WINDOW as u64 > session.highest {
                    session.record(operation, outcome, None);
                }
            }
        }
    }

    /// Whether a client may still ask for what came of an operation: it has at most as many in flight as a
    /// queue holds.
    pub fn may_ask(&self, id: u64, operation: u64) -> bool {
        let session = self.all.lock().get(&id).cloned();
        session.is_some_and(|session| session.lock().highest < operation + QUEUE_DEPTH as u64)
    }

    /// Forgets those whose clients left long ago.
    pub fn forget(&self, now: Nanos) {
        let is_kept = |session: &mut Session| now.since(session.left) < self.keep;
        self.all.lock().retain(|_, session| unheld(session).is_none_or(is_kept));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.lock().len()
    }
}

/// What entries say of operations, while they are gone through in any order.
#[derive(Debug, Default)]
pub(crate) struct Restored(BTreeMap<u64, Recent>);

/// The last operations of a session.
#[derive(Debug, Default)]
struct Recent {
    highest: u64,
    /// The highest version any of them got.
    csn: Csn,
    /// In no order; some twice, and some older than a session remembers.
    completed: Vec<(u64, Outcome)>,
}

impl Restored {
    /// An operation of a session came to this.
    pub fn note(&mut self, id: u64, operation: u64, outcome: Outcome) {
        let recent = self.0.entry(id).or_default();
        if operation + WINDOW as u64 <= recent.highest {
            return;
        }
        recent.highest = recent.highest.max(operation);
        recent.csn = recent.csn.max(outcome.csn);
        recent.completed.push((operation, outcome));
        if recent.completed.len() >= 4 * WINDOW {
            let oldest = recent.highest.saturating_sub(WINDOW as u64 - 1);
            recent.completed.retain(|(operation, _)| *operation >= oldest);
            // Copies of an entry say the same.
            recent.completed.sort_unstable_by_key(|(operation, _)| *operation);
            recent.completed.dedup_by_key(|(operation, _)| *operation);
        }
    }

    /// Nothing says anything of this session any more.
    pub fn forget(&mut self, id: u64) {
        self.0.remove(&id);
    }

    /// Takes what another knows.
    pub fn take(&mut self, other: Restored) {
        for (id, recent) in other.0 {
            recent.completed.into_iter().for_each(|(operation, outcome)| self.note(id, operation, outcome));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_recalled_until_the_window_has_passed() {
        let mut session = Session::default();
        for operation in 1..=WINDOW as u64 + 1 {
            assert_eq!(session.recall(operation), Recall::New);
            session.record(operation, Outcome::ok(Csn(operation)), None);
            assert_eq!(session.recall(operation), Recall::Ran(Outcome::ok(Csn(operation)), None));
        }
        assert_eq!(session.recall(1), Recall::Forgotten);
        assert_eq!(session.recall(2), Recall::Ran(Outcome::ok(Csn(2)), None));
        session.record(WINDOW as u64 + 10, Outcome::ok(Csn(5)), None);
        assert_eq!(session.recall(WINDOW as u64 + 5), Recall::New, "one that never came");
    }

    #[test]
    fn a_new_connection_fences_the_one_before() {
        let sessions = Sessions::new(2, Nanos(100));
        let (session, first) = sessions.open(7);
        let (again, second) = sessions.open(7);
        assert!(Arc::ptr_eq(&session, &again));
        assert!(!again.lock().admits(first) && again.lock().admits(second));
        session.lock().leave(first, Nanos(1));
        drop(session);
        sessions.forget(Nanos(1000));
        assert_eq!(sessions.count(), 1, "the newer one is still connected");
        again.lock().leave(second, Nanos(1000));
        drop(again);
        sessions.forget(Nanos(1099));
        assert_eq!(sessions.count(), 1);
        sessions.forget(Nanos(1100));
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn what_entries_say_in_any_order_is_recalled_up_to_the_window() {
        let last = 10 * WINDOW as u64;
        let outcome = |operation: u64| Outcome { number: -1, ..Outcome::ok(Csn(operation + 5)) };
        let (mut restored, mut other) = (Restored::default(), Restored::default());
        // Every step is coprime to the count, so each operation comes once.
        for operation in (0..last).map(|i| i * 7919 % last + 1) {
            let part = if operation.is_multiple_of(3) { &mut other } else { &mut restored };
            part.note(7, operation, outcome(operation));
        }
        restored.note(8, 1, Outcome::ok(Csn(1)));
        restored.note(9, 1, Outcome::ok(Csn(2)));
        restored.take(other);
        let sessions = Sessions::new(2, Nanos(100));
        sessions.restore(restored, Nanos(1));
        assert_eq!(sessions.count(), 2, "those that wrote last");
        let recall = |id, operation| sessions.open(id).0.lock().recall(operation);
        assert_eq!(recall(9, 1), Recall::Ran(Outcome::ok(Csn(2)), None));
        for operation in last - WINDOW as u64 + 1..=last {
            assert_eq!(recall(7, operation), Recall::Ran(outcome(operation), None));
        }
        assert_eq!(recall(7, last - WINDOW as u64), Recall::Forgotten);
        assert_eq!(recall(7, last + 1), Recall::New);
    }

    #[test]
    fn sessions_are_bounded_and_the_longest_gone_goes_first() {
        let sessions = Sessions::new(2, Nanos(1 << 40));
        for (id, left) in [(1, 20), (2, 10), (3, 30)] {
            let (session, generation) = sessions.open(id);
            session.lock().record(1, Outcome::ok(Csn(id)), None);
            session.lock().leave(generation, Nanos(left));
        }
        assert_eq!(sessions.count(), 2);
        let recall = |id| sessions.open(id).0.lock().recall(1);
        assert_eq!(recall(1), Recall::Ran(Outcome::ok(Csn(1)), None));
        assert_eq!(recall(3), Recall::Ran(Outcome::ok(Csn(3)), None));
        assert_eq!(sessions.open(0).0.lock().recall(1), Recall::New);
        assert_eq!(sessions.count(), 2);
    }

    #[test]
    fn who_holds_a_session_may_ask_how_many_there_are() {
        // As a worker does that is asked for statistics, while the housekeeper forgets and others come.
        let sessions = Arc::new(Sessions::new(1, Nanos(1)));
        let (session, _) = sessions.open(7);
        let held = session.lock();
        let (tell, told) = std::sync::mpsc::channel();
        let others = sessions.clone();
        let body = move || {
            others.forget(Nanos(1000));
            others.open(8);
            tell.send(others.count()).expect("somebody waits");
        };
        let thread = longarm_host::spawn("others", body).expect("a thread");
        let count = told.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(count.expect("nobody waits for a session under the lock of all"), 2);
        assert_eq!(sessions.count(), 2);
        drop(held);
        thread.join().expect("it ended");
    }
}
