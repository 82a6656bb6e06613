//! Exactly once: the outcomes of each client's operations, kept over its reconnects (L17; LoLKV 3.5 has
//! retries run again).
//!
//! A client numbers its writes and repeats a write whose answer it did not see. The session remembers the
//! last [`WINDOW`] completions; a repeated operation is answered from them and never runs twice.
//! (1) An operation runs, and is recorded, under the mutex of its session.
//! (2) Each connection of a session has a generation, and only the newest connection runs anything. So once a
//!     client was welcomed again, no request that its old connection still carries can run, and each
//!     operation that ran is on record.
//! (3) A session is forgotten some time after its client left, or sooner if there are too many. No forgotten
//!     session wrote a version above the horizon. If a client comes whose session is unknown, and an
//!     operation that it repeats may have run below the horizon, the operation is not executed: the client is
//!     told that it is forgotten. An operation that it sends for the first time runs.
//! (4) In a group the next leader knows no horizon but its own. So what entries say of a session outlives the
//!     session for as long as clients may repeat (`may_ask`), which is shorter than (3). Behind the newest
//!     operation of a session that is [`OPERATIONS_AHEAD`]. Of an operation without a record that is further
//!     behind, nobody knows any more whether it ran, so it does not run.
//! (5) Under its session's mutex a worker also answers how many sessions there are. So a thread never waits
//!     for a session while it has the lock of all of them: it passes over the sessions that others hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::limits::OPERATIONS_AHEAD;
use longarm_base::{Csn, Mutant, Nanos};
use longarm_host::Mutex;
use longarm_wire::Status;

use crate::outcome::Outcome;
use crate::stream::StreamPosition;

/// Completions that are remembered: more than clients may still ask for.
pub const WINDOW: usize = 2 * OPERATIONS_AHEAD as usize;
/// Room for completions at first, and the factor by which it grows: most clients write little.
const NARROW: usize = 8;
const WIDER: usize = 4;
const _: () = {
    assert!(WINDOW.is_multiple_of(NARROW) && (WINDOW / NARROW).is_multiple_of(WIDER));
    assert!(WINDOW as u64 >= OPERATIONS_AHEAD, "what a client may still ask for is remembered");
};

/// One completion.
#[derive(Clone, Copy, Debug)]
struct Completed {
    operation: u64,
    csn: Csn,
    number: i64,
    status: Status,
    /// In a group: the position that must be applied before it counts.
    at: Option<StreamPosition>,
}

const NEVER: Completed = Completed { operation: 0, csn: Csn::NONE, number: 0, status: Status::Ok, at: None };

/// What the session knows about an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recall {
    /// The session has no record of it: it may run.
    New,
    /// It ran, with this outcome; the outcome counts once the position is applied, if there is one.
    Ran(Outcome, Option<StreamPosition>),
    /// Its outcome is not known any more, if it ran.
    Forgotten,
}

/// One client's session.
#[derive(Debug, Default)]
pub struct Session {
    /// The name of the session; zero belongs to no client.
    id: u64,
    generation: u64,
    /// When its last connection ended.
    left: Nanos,
    /// Highest operation on record.
    highest: u64,
    /// The highest version that any operation got.
    csn: Csn,
    /// Operations before this one may have run, if they were sent to a forgotten session of this name.
    fresh: u64,
    /// Indexed by operation modulo its length. It is empty at first, and grows with each operation that finds
    /// its place taken, up to [`WINDOW`].
    window: Vec<Completed>,
}

impl Session {
    /// Its name; zero for a session that is never found again.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether this generation is the newest.
    #[inline]
    pub fn admits(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// The outcome of an operation, as far as it is remembered.
    #[inline]
    pub fn recall(&self, operation: u64) -> Recall {
        if operation > self.highest || Mutant::NoDedupe.is_on() {
            return if operation < self.fresh { Recall::Forgotten } else { Recall::New };
        }
        if let Some(there) = self.at(operation).filter(|there| there.operation == operation) {
            let outcome = Outcome { status: there.status, csn: there.csn, number: there.number };
            return Recall::Ran(outcome, there.at);
        }
        // What is further behind may have run under an earlier leader: what entries said of it is not kept.
        let reached = operation >= self.fresh && self.may_ask(operation);
        if reached { Recall::New } else { Recall::Forgotten }
    }

    /// Whether the client may still ask for this operation, by the numbers that it has used since.
    fn may_ask(&self, operation: u64) -> bool {
        self.highest < operation + OPERATIONS_AHEAD
    }

    /// Records an operation that ran; `at` is the position of its entry, if it wrote one.
    #[inline]
    pub fn record(&mut self, operation: u64, outcome: Outcome, at: Option<StreamPosition>) {
        while self.window.len() < WINDOW && self.at(operation).is_none_or(|there| there.operation != 0) {
            self.widen();
        }
        let Outcome { status, csn, number } = outcome;
        let len = self.window.len();
        self.window[operation as usize % len] = Completed { operation, csn, number, status, at };
        self.highest = self.highest.max(operation);
        self.csn = self.csn.max(csn);
    }

    /// The completion at the place of this operation.
    #[inline]
    fn at(&self, operation: u64) -> Option<&Completed> {
        let len = self.window.len().max(1);
        self.window.get(operation as usize % len)
    }

    #[cold]
    fn widen(&mut self) {
        let len = (self.window.len() * WIDER).clamp(NARROW, WINDOW);
        let before = std::mem::replace(&mut self.window, vec![NEVER; len]);
        for completed in before.into_iter().filter(|completed| completed.operation != 0) {
            self.window[completed.operation as usize % len] = completed;
        }
    }

    /// Notes that the connection of this generation is over.
    pub fn leave(&mut self, generation: u64, now: Nanos) {
        if self.generation == generation {
            self.left = now;
        }
    }
}

type SharedSession = Arc<Mutex<Session>>;

/// A session that no other thread, and so no connection, holds. Threads get a session only under the lock of
/// all sessions: this stays so as long as the caller has that lock.
fn unheld(session: &mut SharedSession) -> Option<&mut Session> {
    Arc::get_mut(session).map(Mutex::get_mut)
}

/// The session that a client names when it connects.
#[derive(Clone, Copy, Debug)]
pub struct SessionHello {
    /// The name that the client drew.
    pub id: u64,
    /// The client has sent all operations below this one.
    pub fresh: u64,
    /// An unanswered operation got a higher version than this, if it ran.
    pub since: Csn,
}

/// All sessions, a bounded number.
#[derive(Debug)]
pub struct Sessions {
    all: Mutex<All>,
    limit: usize,
    keep: Nanos,
    /// Versions up to this one were drawn longer ago than a session is kept.
    aged: AtomicU64,
}

#[derive(Debug, Default)]
struct All {
    known: BTreeMap<u64, SharedSession>,
    /// No forgotten session got a version above it.
    horizon: Csn,
    /// The version drawn last at the moment `marked`: it becomes `aged`, once that is long enough ago.
    drawn: Csn,
    marked: Nanos,
}

impl Sessions {
    /// At most `limit` sessions, which is more than may be connected; each is kept so long after its client
    /// left.
    pub fn new(limit: usize, keep: Nanos) -> Sessions {
        Sessions { all: Mutex::default(), limit, keep, aged: AtomicU64::new(0) }
    }

    /// Opens a new connection of a client's session, which fences the connection before. Session 0 belongs to
    /// no client: it is never found again.
    pub fn open(&self, coming: SessionHello) -> (SharedSession, u64) {
        let session = if coming.id == 0 { SharedSession::default() } else { self.find_or_make(coming) };
        let mut opened = session.lock();
        opened.generation += 1;
        let generation = opened.generation;
        drop(opened);
        (session, generation)
    }

    fn find_or_make(&self, SessionHello { id, fresh, since }: SessionHello) -> SharedSession {
        let mut all = self.all.lock();
        if let Some(session) = all.known.get(&id) {
            return session.clone();
        }
        let fresh = if since < all.horizon { fresh } else { 0 };
        if all.known.len() >= self.limit {
            // A session that wrote nothing has nothing to remember.
            let order = |session: &mut Session| (session.csn != Csn::NONE, session.left);
            let known = all.known.iter_mut();
            let last = known.filter_map(|(id, session)| Some((order(unheld(session)?), *id))).min();
            if let Some(mut session) = last.and_then(|(_, id)| all.known.remove(&id)) {
                let csn = unheld(&mut session).map_or(Csn::NONE, |session| session.csn);
                all.horizon = all.horizon.max(csn);
            }
        }
        let named = || Arc::new(Mutex::new(Session { id, fresh, ..Session::default() }));
        all.known.entry(id).or_insert_with(named).clone()
    }

    /// Takes over the records in entries of earlier terms (L17). Of more sessions than there may be, it takes
    /// those that wrote last.
    pub fn restore(&self, restored: Restored, now: Nanos) {
        let mut known: Vec<_> = restored.0.into_iter().collect();
        known.sort_unstable_by_key(|(_, recent)| std::cmp::Reverse(recent.csn));
        let forgotten = known.get(self.limit).map_or(Csn::NONE, |(_, recent)| recent.csn);
        for (id, recent) in known.into_iter().take(self.limit) {
            let session = self.find_or_make(SessionHello { id, fresh: 0, since: Csn::NONE });
            let mut session = session.lock();
            session.left = now;
            for (operation, outcome) in recent.completed {
                if operation + WINDOW as u64 > session.highest {
                    session.record(operation, outcome, None);
                }
            }
        }
        self.all.lock().horizon = forgotten;
    }

    /// Whether a client may still ask for the outcome of an operation that got this version, by the numbers
    /// that it has used since. A client whose session is unknown here may ask the next leader, as long as a
    /// client may repeat.
    pub fn may_ask(&self, id: u64, operation: u64, csn: Csn) -> bool {
        let session = self.all.lock().known.get(&id).cloned();
        match session {
            Some(session) => session.lock().may_ask(operation),
            // Relaxed: a value that is seen late only keeps more.
            None => csn.0 > self.aged.load(Ordering::Relaxed),
        }
    }

    /// Forgets the sessions whose clients left long ago. `drawn` is the version drawn last.
    pub fn forget(&self, now: Nanos, drawn: Csn) {
        let mut all = self.all.lock();
        let All { known, horizon, .. } = &mut *all;
        known.retain(|_, session| {
            let Some(session) = unheld(session) else { return true };
            let kept = now.since(session.left) < self.keep;
            if !kept {
                *horizon = session.csn.max(*horizon);
            }
            kept
        });
        if now.since(all.marked) >= self.keep {
            // Relaxed: as in `may_ask`.
            self.aged.store(all.drawn.0, Ordering::Relaxed);
            (all.marked, all.drawn) = (now, drawn);
        }
    }

    /// The number of sessions.
    pub fn count(&self) -> usize {
        self.all.lock().known.len()
    }
}

/// What entries say of operations, collected while they are read in any order.
#[derive(Debug, Default)]
pub struct Restored(BTreeMap<u64, Recent>);

/// The last operations of a session.
#[derive(Debug, Default)]
struct Recent {
    highest: u64,
    /// The highest version that any of them got.
    csn: Csn,
    /// In no order; some are here twice, and some are older than a session remembers.
    completed: Vec<(u64, Outcome)>,
}

impl Restored {
    /// Notes the outcome of an operation of a session.
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

    /// Forgets a session that no entry mentions any more.
    pub fn forget(&mut self, id: u64) {
        self.0.remove(&id);
    }

    /// Takes over what another part has collected.
    pub fn take(&mut self, other: Restored) {
        for (id, recent) in other.0 {
            recent.completed.into_iter().for_each(|(operation, outcome)| self.note(id, operation, outcome));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that comes for the first time.
    fn anew(id: u64) -> SessionHello {
        SessionHello { id, fresh: 1, since: Csn::NONE }
    }

    /// A client that comes again: it has sent all below an operation, and the last answer had this version.
    fn again(id: u64, fresh: u64, since: u64) -> SessionHello {
        SessionHello { id, fresh, since: Csn(since) }
    }

    /// A client connects, runs an operation that gets the version, and is cut off before it is told.
    fn cut_off(sessions: &Sessions, id: u64, operation: u64, csn: u64, left: u64) {
        let (session, generation) = sessions.open(anew(id));
        session.lock().record(operation, Outcome::ok(Csn(csn)), None);
        session.lock().leave(generation, Nanos(left));
    }

    #[test]
    fn what_a_forgotten_session_ran_does_not_run_again() {
        let sessions = Sessions::new(2, Nanos(1 << 40));
        cut_off(&sessions, 1, 1, 10, 1);
        // Others come and go until the first is forgotten.
        for id in 2..5 {
            cut_off(&sessions, id, 1, 10 * id, id);
        }
        let (session, _) = sessions.open(again(1, 2, 9));
        assert_eq!(session.lock().recall(1), Recall::Forgotten, "it ran, under version 10");
        assert_eq!(session.lock().recall(2), Recall::New, "it was never sent");
        session.lock().record(2, Outcome::ok(Csn(60)), None);
        assert_eq!(session.lock().recall(1), Recall::Forgotten);
        assert_eq!(session.lock().recall(2), Recall::Ran(Outcome::ok(Csn(60)), None));
    }

    #[test]
    fn who_sent_nothing_that_a_forgotten_session_may_have_run_goes_on() {
        let sessions = Sessions::new(2, Nanos(1 << 40));
        for id in 2..6 {
            cut_off(&sessions, id, 1, 10 * id, id);
        }
        // The sessions with versions 20 and 30 are forgotten.
        let recall = |coming, operation| sessions.open(coming).0.lock().recall(operation);
        assert_eq!(recall(again(9, 5, 40), 4), Recall::New, "nothing of it ran before version 40");
        assert_eq!(recall(again(8, 5, 29), 4), Recall::Forgotten);
        assert_eq!(recall(again(7, 5, 29), 5), Recall::New);
    }

    #[test]
    fn who_wrote_nothing_is_forgotten_first() {
        let sessions = Sessions::new(2, Nanos(1 << 40));
        cut_off(&sessions, 1, 1, 10, 1);
        for id in 2..9 {
            let (session, generation) = sessions.open(anew(id));
            session.lock().record(1, Outcome::of(Status::NotFound), None);
            session.lock().leave(generation, Nanos(id));
        }
        let (session, _) = sessions.open(again(1, 2, 9));
        assert_eq!(session.lock().recall(1), Recall::Ran(Outcome::ok(Csn(10)), None));
    }

    #[test]
    fn a_session_that_is_forgotten_by_time_does_not_run_anything_again() {
        let sessions = Sessions::new(2, Nanos(100));
        cut_off(&sessions, 1, 1, 10, 1000);
        sessions.forget(Nanos(1100), Csn(10));
        assert_eq!(sessions.count(), 0);
        let (session, _) = sessions.open(again(1, 2, 9));
        assert_eq!(session.lock().recall(1), Recall::Forgotten);
    }

    #[test]
    fn the_next_leader_runs_nothing_of_whom_it_found_no_room_for() {
        let mut restored = Restored::default();
        for id in 1..=4 {
            restored.note(id, 1, Outcome::ok(Csn(10 * id)));
        }
        let sessions = Sessions::new(2, Nanos(100));
        sessions.restore(restored, Nanos(1));
        let recall = |coming, operation| sessions.open(coming).0.lock().recall(operation);
        assert_eq!(recall(again(9, 2, 20), 1), Recall::New, "the first leader never ran it");
        assert_eq!(recall(again(2, 2, 19), 1), Recall::Forgotten);
    }

    #[test]
    fn what_entries_say_of_the_forgotten_is_kept_while_clients_may_repeat() {
        let sessions = Sessions::new(1, Nanos(100));
        sessions.forget(Nanos(1000), Csn(5));
        cut_off(&sessions, 1, 1, 10, 1001);
        cut_off(&sessions, 2, 1, 11, 1002);
        assert!(sessions.may_ask(1, 1, Csn(10)), "it is forgotten, and may ask the next leader");
        sessions.forget(Nanos(1100), Csn(11));
        assert!(sessions.may_ask(1, 1, Csn(10)) && !sessions.may_ask(1, 1, Csn(5)));
        sessions.forget(Nanos(1200), Csn(11));
        assert!(!sessions.may_ask(1, 1, Csn(10)));
    }

    #[test]
    fn a_session_grows_with_what_it_remembers() {
        let mut session = Session::default();
        session.record(1 << 40, Outcome::ok(Csn(1)), None);
        assert_eq!(session.window.len(), NARROW);
        for operation in 1..WINDOW as u64 {
            session.record((1 << 40) + operation * 3, Outcome::ok(Csn(operation)), None);
            let least = (1 << 40) + (operation * 3).saturating_sub(WINDOW as u64 - 1);
            for known in ((1 << 40)..=(1 << 40) + operation * 3).step_by(3).filter(|known| *known >= least) {
                assert!(matches!(session.recall(known), Recall::Ran(..)), "{known} of {operation}");
            }
        }
        assert_eq!(session.window.len(), WINDOW);
    }

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

    /// Records are kept for those who may ask. A leader that has no record of an older operation must not
    /// take it for a new one: an earlier leader may have run it.
    #[test]
    fn what_nobody_may_ask_for_does_not_run() {
        let sessions = Sessions::new(2, Nanos(100));
        let (session, _) = sessions.open(anew(7));
        let newest = 4 * WINDOW as u64;
        session.lock().record(newest, Outcome::ok(Csn(9)), None);
        for operation in 1..newest {
            let runs = session.lock().recall(operation) == Recall::New;
            assert_eq!(runs, sessions.may_ask(7, operation, Csn(1)), "{operation} of {newest}");
            assert_eq!(runs, newest - operation < OPERATIONS_AHEAD, "{operation} of {newest}");
        }
    }

    #[test]
    fn a_new_connection_fences_the_one_before() {
        let sessions = Sessions::new(2, Nanos(100));
        let (session, first) = sessions.open(anew(7));
        let (again, second) = sessions.open(anew(7));
        assert!(Arc::ptr_eq(&session, &again));
        assert!(!again.lock().admits(first) && again.lock().admits(second));
        session.lock().leave(first, Nanos(1));
        drop(session);
        sessions.forget(Nanos(1000), Csn::NONE);
        assert_eq!(sessions.count(), 1, "the newer one is still connected");
        again.lock().leave(second, Nanos(1000));
        drop(again);
        sessions.forget(Nanos(1099), Csn::NONE);
        assert_eq!(sessions.count(), 1);
        sessions.forget(Nanos(1100), Csn::NONE);
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
        let recall = |id, operation| sessions.open(anew(id)).0.lock().recall(operation);
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
            let (session, generation) = sessions.open(anew(id));
            session.lock().record(1, Outcome::ok(Csn(id)), None);
            session.lock().leave(generation, Nanos(left));
        }
        assert_eq!(sessions.count(), 2);
        let recall = |id| sessions.open(anew(id)).0.lock().recall(1);
        assert_eq!(recall(1), Recall::Ran(Outcome::ok(Csn(1)), None));
        assert_eq!(recall(3), Recall::Ran(Outcome::ok(Csn(3)), None));
        assert_eq!(sessions.open(anew(0)).0.lock().recall(1), Recall::New);
        assert_eq!(sessions.count(), 2);
    }

    #[test]
    fn who_holds_a_session_may_ask_how_many_there_are() {
        // As a worker does that is asked for statistics, while the maintenance thread forgets and others
        // come.
        let sessions = Arc::new(Sessions::new(1, Nanos(1)));
        let (session, _) = sessions.open(anew(7));
        let held = session.lock();
        let (tell, told) = std::sync::mpsc::channel();
        let others = sessions.clone();
        let body = move || {
            others.forget(Nanos(1000), Csn::NONE);
            others.open(anew(8));
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
