//! All sessions of a server: those whose clients are connected or left not long ago, and what entries of
//! earlier terms say of others. What holds of them stands in `session.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use longarm_base::limits::OPERATIONS_AHEAD;
use longarm_base::{Csn, Nanos};
use longarm_host::Mutex;

use super::Session;
use super::ages::{Ages, ToldAges};
use super::found::{Recent, Restored};

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
    ages: Ages,
}

#[derive(Debug, Default)]
struct All {
    known: BTreeMap<u64, SharedSession>,
    /// What entries of earlier terms say of clients that have not come.
    dormant: BTreeMap<u64, Recent>,
    /// When those were found.
    restored: Nanos,
    /// No forgotten session got a version above it.
    horizon: Csn,
}

impl All {
    fn count(&self) -> usize {
        self.known.len() + self.dormant.len()
    }

    /// Forgets the session whose client left longest ago, if there is one that no connection holds. A session
    /// that wrote nothing has nothing to remember, and goes first.
    fn forget_one(&mut self) {
        let order = |session: &mut Session| (session.csn != Csn::NONE, session.left, session.csn);
        let known = self.known.iter_mut().filter_map(|(id, session)| Some((order(unheld(session)?), *id)));
        let dormant = self.dormant.iter().map(|(id, recent)| ((true, self.restored, recent.csn), *id));
        let Some(((_, _, csn), id)) = known.chain(dormant).min() else { return };
        self.known.remove(&id);
        self.dormant.remove(&id);
        self.horizon = self.horizon.max(csn);
    }
}

impl Sessions {
    /// At most `limit` sessions, which is more than may be connected; each is kept so long after its client
    /// left.
    pub fn new(limit: usize, keep: Nanos) -> Sessions {
        Sessions { all: Mutex::default(), limit, keep, ages: Ages::new(keep) }
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
        let session = match all.dormant.remove(&id) {
            Some(recent) => recent.wake(id, all.restored),
            None => {
                let fresh = if since < all.horizon { fresh } else { 0 };
                if all.count() >= self.limit {
                    all.forget_one();
                }
                Session { id, fresh, ..Session::default() }
            }
        };
        let session = Arc::new(Mutex::new(session));
        all.known.insert(id, session.clone());
        session
    }

    /// Takes over the records in entries of earlier terms (L17). Of more sessions than there may be, it takes
    /// those that wrote last.
    pub fn restore(&self, restored: Restored, now: Nanos) {
        let mut all = self.all.lock();
        let mut dormant = restored.sessions;
        if let Some(excess) = dormant.len().checked_sub(self.limit + 1) {
            let mut csns: Vec<Csn> = dormant.values().map(|recent| recent.csn).collect();
            let (_, &mut least, _) = csns.select_nth_unstable(excess);
            dormant.retain(|_, recent| recent.csn > least);
            all.horizon = least;
        }
        (all.dormant, all.restored) = (dormant, now);
    }

    /// Goes on from what an earlier leader told of the ages of versions.
    pub fn go_on(&self, now: Nanos, told: ToldAges) {
        self.ages.go_on(now, told);
    }

    /// What the next leader may go on from.
    pub fn ages(&self, now: Nanos) -> ToldAges {
        self.ages.told(now)
    }

    /// Whether a client may still ask for the outcome of an operation that got this version, by its age and
    /// by what the client has sent since. A client whose session is unknown here may ask the next leader, as
    /// long as a client may repeat.
    pub fn may_ask(&self, id: u64, operation: u64, csn: Csn) -> bool {
        if self.ages.is_aged(csn) {
            return false;
        }
        let all = self.all.lock();
        if let Some(recent) = all.dormant.get(&id) {
            return recent.highest < operation + OPERATIONS_AHEAD;
        }
        let session = all.known.get(&id).cloned();
        drop(all);
        session.is_none_or(|session| session.lock().may_ask(operation))
    }

    /// Forgets the sessions whose clients left long ago. `stable` is the version up to which all are applied.
    pub fn forget(&self, now: Nanos, stable: Csn) {
        self.ages.advance(now, stable);
        let mut all = self.all.lock();
        let All { known, dormant, restored, horizon } = &mut *all;
        let mut keeps = |kept: bool, csn: Csn| {
            if !kept {
                *horizon = csn.max(*horizon);
            }
            kept
        };
        known.retain(|_, session| {
            let session = unheld(session);
            session.is_none_or(|session| keeps(now.since(session.left) < self.keep, session.csn))
        });
        let is_over = now.since(*restored) >= self.keep;
        dormant.retain(|_, recent| keeps(!is_over && !self.ages.is_aged(recent.csn), recent.csn));
    }

    /// The number of sessions.
    pub fn count(&self) -> usize {
        self.all.lock().count()
    }
}

#[cfg(test)]
mod tests {
    use longarm_wire::Status;

    use super::*;
    use crate::outcome::Outcome;
    use crate::session::{NARROW, Recall, WINDOW};

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

    /// A client that waits for each answer repeats one operation at most.
    #[test]
    fn a_session_remembers_what_its_client_may_repeat_and_little_more() {
        let sessions = Sessions::new(2, Nanos(100));
        let (session, _) = sessions.open(anew(7));
        let mut session = session.lock();
        let newest = 4 * WINDOW as u64;
        for operation in 1..=newest {
            session.hear(operation.saturating_sub(2));
            assert_eq!(session.recall(operation), Recall::New);
            session.record(operation, Outcome::ok(Csn(operation)), None);
        }
        assert_eq!(session.window.len(), NARROW);
        for operation in 1..=newest {
            let outcome = Outcome::ok(Csn(operation));
            match session.recall(operation) {
                Recall::Ran(found, None) if found == outcome => {}
                recalled => assert!(operation + 2 < newest && recalled == Recall::Forgotten, "{operation}"),
            }
        }
        drop(session);
        let asked = |operation: &u64| sessions.may_ask(7, *operation, Csn(*operation));
        assert_eq!((1..=newest).filter(asked).collect::<Vec<_>>(), [newest - 2, newest - 1, newest]);
    }

    /// Leaders follow each other faster than sessions are forgotten.
    #[test]
    fn what_the_gone_wrote_is_forgotten_though_leaders_change() {
        let keep = Nanos(100);
        let mut told = ToldAges::default();
        // Of each operation: its session, its version, and when it ran. The next leader finds those that
        // were asked for.
        let mut entries: Vec<(u64, Csn, Nanos)> = Vec::new();
        let mut now = Nanos(0);
        for leader in 1..=40 {
            let sessions = Sessions::new(1000, keep);
            sessions.go_on(now, told);
            let mut restored = Restored::default();
            entries.iter().for_each(|&(id, csn, _)| restored.note(id, 1, Outcome::ok(csn)));
            sessions.restore(restored, now);
            assert_eq!(sessions.count(), entries.len());
            // One client comes, writes and is gone.
            let csn = Csn(leader);
            let (session, generation) = sessions.open(anew(leader));
            session.lock().record(1, Outcome::ok(csn), None);
            session.lock().leave(generation, now);
            drop(session);
            entries.push((leader, csn, now));
            for _ in 0..3 {
                now = now + Nanos(10);
                sessions.forget(now, csn);
            }
            entries.retain(|&(id, csn, then)| {
                let asked = sessions.may_ask(id, 1, csn);
                assert!(asked || now.since(then) >= keep, "{csn:?} by leader {leader}");
                let recalled = sessions.open(again(id, 2, csn.0 - 1)).0.lock().recall(1);
                let known = recalled == Recall::Ran(Outcome::ok(csn), None);
                assert!(known || recalled == Recall::Forgotten && now.since(then) >= keep, "{recalled:?}");
                asked
            });
            assert!(entries.len() < 10, "leader {leader} keeps {} of the gone", entries.len());
            told = sessions.ages(now);
        }
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
