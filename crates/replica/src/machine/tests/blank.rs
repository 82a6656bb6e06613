//! A replica whose disk holds no promise (`blank.rs`).

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, Members};

use super::{TIMING, members};
use crate::page::Beat;
use crate::{Action, Event, Machine, PersistentState, RoleKind};

/// One replica of three, and the time.
struct Blank {
    machine: Machine,
    now: Nanos,
}

/// The life of this replica, and its origin.
const LIFE: u64 = 10;
const ORIGIN: u64 = 20;

impl Blank {
    fn new(members: Members) -> Blank {
        let now = Nanos::from_millis(1_000);
        let state = PersistentState { members, origin: ORIGIN, ..Default::default() };
        let machine = Machine::new(ReplicaId(0), state, TIMING, 7, now);
        Blank { machine: machine.blank(LIFE, Nanos(0)), now }
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        let mut todo = Vec::new();
        self.now = self.now + Nanos(1);
        self.machine.handle(event, self.now, &mut todo);
        todo
    }

    fn tick(&mut self) -> Vec<Action> {
        self.tell(Event::Tick(Beat::default()))
    }

    /// Hears the answer of another replica of this origin.
    fn hears(&mut self, from: u8, round: u64, origin: u64, promised: Term) -> Vec<Action> {
        self.hears_of(from, known(LIFE, round, promised, origin, &[]))
    }

    fn hears_of(&mut self, from: u8, known: Answer) -> Vec<Action> {
        self.tell(Event::Answered(ReplicaId(from), known))
    }
}

fn known(life: u64, round: u64, promised: Term, origin: u64, founders: &[(ReplicaId, u64)]) -> Answer {
    let (founders, members) = (founders.to_vec(), members(&[0, 1, 2]));
    Answer::Known { life, round, promised, origin, founders, members }
}

fn asks(round: u64, whom: &[u8]) -> Vec<Action> {
    whom.iter().map(|&replica| Action::Ask(ReplicaId(replica), Ask::Forgot { life: LIFE, round })).collect()
}

#[test]
fn it_founds_when_all_have_twice_promised_nothing() {
    let mut blank = Blank::new(members(&[0, 1, 2]));
    assert_eq!(blank.tick(), asks(1, &[1, 2]));
    assert_eq!(blank.hears(1, 1, 21, Term::ZERO), []);
    assert_eq!(blank.hears_of(2, known(9, 1, Term::ZERO, 22, &[])), [], "for a life that is over");
    assert_eq!(blank.hears(2, 1, 22, Term::ZERO), asks(2, &[1, 2]));
    // One of the others has another disk meanwhile, so its earlier answer does not count.
    assert_eq!(blank.hears(1, 2, 21, Term::ZERO), []);
    assert_eq!(blank.hears(2, 2, 23, Term::ZERO), asks(3, &[1, 2]));
    assert_eq!(blank.hears(1, 2, 21, Term::ZERO), [], "of a round that is over");
    assert_eq!(blank.hears(1, 3, 21, Term::ZERO), []);
    assert_eq!(blank.machine.kind(), RoleKind::Learner);
    assert_eq!(blank.hears(2, 3, 23, Term::ZERO), []);
    assert_eq!((blank.machine.kind(), blank.machine.awaits()), (RoleKind::Follower, None));
    // The founder says so to the others.
    let answer = blank.tell(Event::Asked(ReplicaId(1), Ask::Forgot { life: 11, round: 4 }));
    let founders = vec![(ReplicaId(0), ORIGIN), (ReplicaId(1), 21), (ReplicaId(2), 23)];
    let members = members(&[0, 1, 2]);
    let known = Answer::Known { life: 11, round: 4, promised: Term::ZERO, origin: ORIGIN, founders, members };
    assert_eq!(answer, [Action::Answer(ReplicaId(1), known)]);
}

/// A replica that founded with an earlier disk of this one knows nothing of what this one promised since.
#[test]
fn it_is_no_founder_for_what_it_was_before() {
    let mut blank = Blank::new(members(&[0, 1, 2]));
    blank.tick();
    let (term, founders) =
        (Term::new(1, ReplicaId(1)), [(ReplicaId(0), 9), (ReplicaId(1), 21), (ReplicaId(2), 22)]);
    assert_eq!(blank.hears_of(1, known(LIFE, 1, term, 21, &founders)), []);
    assert_eq!(blank.hears(2, 1, 22, Term::ZERO), asks(2, &[1, 2]), "one may have founded since it answered");
    assert_eq!(blank.hears(2, 2, 22, Term::ZERO), []);
    assert_eq!(blank.hears(1, 2, 21, term), [Action::Promise(term)]);
}

#[test]
fn it_takes_the_word_of_one_that_has_founded() {
    let mut blank = Blank::new(members(&[0, 1, 2]));
    blank.tick();
    let founders = [(ReplicaId(0), ORIGIN), (ReplicaId(1), 21), (ReplicaId(2), 22)];
    blank.hears_of(1, known(LIFE, 1, Term::new(1, ReplicaId(1)), 21, &founders));
    assert_eq!(blank.machine.kind(), RoleKind::Follower);
}

/// A replica that was let in late, and hears of a promise beside an answer from before the founding, is a
/// founder.
#[test]
fn it_asks_again_when_somebody_has_promised_since() {
    let mut blank = Blank::new(members(&[0, 1, 2]));
    blank.tick();
    assert_eq!(blank.hears(2, 1, 22, Term::ZERO), []);
    assert_eq!(blank.hears(1, 1, 0, Term::new(1, ReplicaId(1))), asks(2, &[1, 2]));
    let founders = [(ReplicaId(0), ORIGIN), (ReplicaId(1), 21), (ReplicaId(2), 22)];
    blank.hears_of(2, known(LIFE, 2, Term::ZERO, 22, &founders));
    assert_eq!(blank.machine.kind(), RoleKind::Follower);
}

/// The leader of term 5 has what the group stores; another replica is cut off. A replica that was reinstalled
/// helped either of them to lead, or to commit, and does not know.
#[test]
fn it_helps_nobody_before_it_has_heard_from_all() {
    let (term, high) = (Term::new(5, ReplicaId(1)), Term::new(6, ReplicaId(2)));
    let mut blank = Blank::new(members(&[0, 1, 2]));
    blank.tick();
    assert_eq!(blank.hears(1, 1, 0, term), []);
    let three = || members(&[0, 1, 2]);
    let sync = || Ask::Sync { term, base: term, cuts: vec![], streams: 1, members: three() };
    let refused = |promised| [Action::Answer(ReplicaId(1), Answer::Refused { term, promised })];
    assert_eq!(blank.tell(Event::Asked(ReplicaId(1), sync())), refused(Term::ZERO));
    let promise = Ask::Promise { term, members: three() };
    assert_eq!(blank.tell(Event::Asked(ReplicaId(1), promise)), refused(Term::ZERO));
    let pre_vote = blank.tell(Event::Asked(ReplicaId(1), Ask::PreVote { term, members: three() }));
    assert_eq!(pre_vote, [Action::Answer(ReplicaId(1), Answer::PreVote { term, yes: false })]);
    blank.now = blank.now + TIMING.suspect;
    assert_eq!(blank.tick(), asks(1, &[2]), "the one that it has not heard from");
    // A candidate of a later term may have this replica's report.
    assert_eq!(blank.hears(2, 1, 0, high), asks(2, &[1, 2]));
    assert_eq!(blank.hears(1, 2, 0, term), []);
    assert_eq!(blank.hears(2, 2, 0, high), [Action::Promise(high)]);
    assert_eq!(blank.tell(Event::Promised(high)), []);
    assert_eq!((blank.machine.kind(), blank.machine.awaits()), (RoleKind::Learner, None));
    assert_eq!(blank.tell(Event::Asked(ReplicaId(1), sync())), refused(high));
}

/// The leader's set does not contain this replica, so nothing rests on it yet.
#[test]
fn one_that_is_to_be_added_is_synced_at_once() {
    let term = Term::new(5, ReplicaId(1));
    let mut blank = Blank::new(Members::default());
    assert_eq!(blank.tick(), []);
    let sync = Ask::Sync { term, base: term, cuts: vec![], streams: 1, members: members(&[1, 2]) };
    assert_eq!(blank.tell(Event::Asked(ReplicaId(1), sync)), [Action::Promise(term)]);
    // The set can contain it only if it was a replica before.
    let mut blank = Blank::new(Members::default());
    let sync = Ask::Sync { term, base: term, cuts: vec![], streams: 1, members: members(&[0, 1, 2]) };
    let refused = Answer::Refused { term, promised: Term::ZERO };
    assert_eq!(blank.tell(Event::Asked(ReplicaId(1), sync)), [Action::Answer(ReplicaId(1), refused)]);
    assert_eq!(blank.tick(), asks(1, &[1, 2]));
}

#[test]
fn others_with_another_file_are_no_founders_of_the_same_group() {
    let mut blank = Blank::new(members(&[0, 1, 3]));
    blank.tick();
    assert_eq!(blank.hears(1, 1, 21, Term::ZERO), [], "it says 0, 1 and 2");
    assert_eq!(blank.machine.awaits(), Some(vec![ReplicaId(1), ReplicaId(3)]));
}

#[test]
fn one_alone_founds_at_once() {
    let mut blank = Blank::new(members(&[0]));
    assert_eq!(blank.tick(), []);
    assert_eq!(blank.machine.awaits(), None);
}

/// All replicas lose their power at once, when this one has founded the group and promised the first term.
#[test]
fn a_founder_says_so_also_when_it_has_started_again() {
    let mut blank = Blank::new(members(&[0, 1, 2]));
    blank.tick();
    let first = Term::new(1, ReplicaId(1));
    let founders = vec![(ReplicaId(0), ORIGIN), (ReplicaId(1), 21), (ReplicaId(2), 22)];
    blank.hears_of(1, known(LIFE, 1, first, 21, &founders));
    assert_eq!(blank.machine.founders(), founders, "to be kept with its promise");
    // Its memory is lost, or there is a disk that is empty: it spares the others, and only then counts.
    for sync in [None, Some(Term::ZERO)] {
        let three = members(&[0, 1, 2]);
        let state = PersistentState {
            members: three.clone(),
            promised: first,
            sync,
            origin: ORIGIN,
            founders: founders.clone(),
        };
        blank.machine = Machine::new(ReplicaId(0), state, TIMING, 7, blank.now);
        let kind = if sync.is_none() { RoleKind::Learner } else { RoleKind::Follower };
        assert_eq!(blank.machine.kind(), kind);
        let answer = blank.tell(Event::Asked(ReplicaId(2), Ask::Forgot { life: 11, round: 1 }));
        let (promised, founders) = (first, founders.clone());
        let known =
            Answer::Known { life: 11, round: 1, promised, origin: ORIGIN, founders, members: three.clone() };
        assert_eq!(answer, [Action::Answer(ReplicaId(2), known)]);
    }
}

/// A replica that knows that it founded, and has promised nothing, need not ask.
#[test]
fn a_founder_without_a_promise_is_one() {
    let founders = vec![(ReplicaId(0), ORIGIN), (ReplicaId(1), 21), (ReplicaId(2), 22)];
    let state =
        PersistentState { members: members(&[0, 1, 2]), origin: ORIGIN, founders, ..Default::default() };
    let machine = Machine::new(ReplicaId(0), state, TIMING, 7, Nanos(1)).blank(LIFE, Nanos(0));
    assert_eq!((machine.kind(), machine.awaits()), (RoleKind::Follower, None));
}
