//! Another set of replicas, one more or one less at a time.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, Deny, Members, ReplicaReport};

use super::{TIMING, member, members};
use crate::page::Beat;
use crate::{Action, ChangeRequest, ChangeStage, Event, Machine, PersistentState, RoleKind};

const TERM: Term = Term::new(1, ReplicaId(0));

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(1_000 + ms)
}

fn tell(machine: &mut Machine, at: Nanos, event: Event) -> Vec<Action> {
    let mut todo = Vec::new();
    machine.handle(event, at, &mut todo);
    todo
}

fn answered(machine: &mut Machine, replica: u8, answer: Answer) -> Vec<Action> {
    tell(machine, ms(101), Event::Answered(ReplicaId(replica), answer))
}

/// The set that the leader of `term` had, or wants next.
fn set(term: Term, changed: bool, replicas: &[u8]) -> Members {
    Members { term, changed, ..members(replicas) }
}

fn asks(to: &[u8], members: &Members) -> Vec<Action> {
    let ask = |&replica| Action::Ask(ReplicaId(replica), Ask::Members { members: members.clone() });
    to.iter().map(ask).collect()
}

fn kept(changed: bool) -> Answer {
    Answer::Kept { term: TERM, changed }
}

/// Replica 0, which leads term 1.0 of `replicas`; those in `synced` are synced.
fn leader(replicas: &[u8], synced: &[u8]) -> Machine {
    let state = PersistentState {
        members: members(replicas),
        promised: Term::ZERO,
        sync: Some(Term::ZERO),
        ..Default::default()
    };
    let mut machine = Machine::new(ReplicaId(0), state, TIMING, 3, ms(0));
    tell(&mut machine, ms(100), Event::Tick(Beat::default()));
    for &replica in &replicas[1..] {
        answered(&mut machine, replica, Answer::PreVote { term: TERM, yes: true });
    }
    tell(&mut machine, ms(100), Event::Promised(TERM));
    tell(&mut machine, ms(100), Event::Tick(Beat::default()));
    tell(&mut machine, ms(100), Event::Surveyed(ReplicaReport::default()));
    for &replica in &replicas[1..] {
        answered(&mut machine, replica, Answer::Report { term: TERM, report: ReplicaReport::default() });
    }
    tell(&mut machine, ms(100), Event::Installed(TERM));
    for &replica in synced {
        answered(&mut machine, replica, Answer::Synced { term: TERM });
    }
    assert_eq!(machine.kind(), RoleKind::Leader);
    machine
}

fn denied(machine: &mut Machine, request: ChangeRequest) -> Option<Deny> {
    match tell(machine, ms(101), Event::ChangeMembers(request))[..] {
        [Action::Deny(why)] => Some(why),
        _ => None,
    }
}

#[test]
fn one_more_is_synced_agreed_on_and_in_the_next_term() {
    let mut machine = leader(&[0, 1, 2], &[1, 2]);
    let request = Event::ChangeMembers(ChangeRequest::Add(member(3)));
    assert_eq!(tell(&mut machine, ms(101), request), [Action::Enlist(member(3))]);
    let own = set(TERM, false, &[0, 1, 2]);
    let next = set(TERM, true, &[0, 1, 2, 3]);
    let first = answered(&mut machine, 3, Answer::Synced { term: TERM });
    let to = asks(&[1, 2, 3], &own);
    assert_eq!(first, [&to[..], &[Action::Keep(own.clone())]].concat());
    assert_eq!(answered(&mut machine, 3, kept(false)), [], "it does not count");
    assert_eq!(tell(&mut machine, ms(101), Event::Kept(own)), []);
    assert_eq!(answered(&mut machine, 2, kept(true)), [], "nothing was said of that");
    let second = answered(&mut machine, 1, kept(false));
    let to = asks(&[1, 2, 3], &next);
    assert_eq!(second, [&to[..], &[Action::Keep(next.clone())]].concat());
    assert_eq!(answered(&mut machine, 1, kept(true)), []);
    assert_eq!(answered(&mut machine, 2, kept(true)), [], "a majority of three, not of four");
    let agreed = tell(&mut machine, ms(101), Event::Kept(next.clone()));
    assert_eq!(agreed, [Action::Agreed(next.clone()), Action::Drain(TERM, ReplicaId(1))]);
    assert_eq!(machine.group().majority(), 2, "this term counts as before");
    assert_eq!(
        tell(&mut machine, ms(102), Event::HandOver(ReplicaId(1))),
        [Action::Decline(longarm_wire::Stay::Busy)]
    );

    tell(&mut machine, ms(103), Event::Drained(TERM));
    let done = tell(&mut machine, ms(104), Event::ReleaseDone(TERM));
    assert_eq!(done, [Action::StepDown(TERM), Action::Ask(ReplicaId(1), Ask::Stand { term: TERM })]);
    assert_eq!((machine.group().majority(), machine.change()), (3, None));
}

/// The replica that joined has not indexed what it was given: the leader follows itself, in a new term.
#[test]
fn who_led_alone_leads_the_next_term() {
    let mut machine = leader(&[0], &[]);
    tell(&mut machine, ms(101), Event::ChangeMembers(ChangeRequest::Add(member(1))));
    answered(&mut machine, 1, Answer::Synced { term: TERM });
    tell(&mut machine, ms(101), Event::Kept(set(TERM, false, &[0])));
    let next = set(TERM, true, &[0, 1]);
    tell(&mut machine, ms(101), Event::Kept(next.clone()));
    let agreed = answered(&mut machine, 1, kept(true));
    assert_eq!(agreed, [Action::Agreed(next.clone()), Action::Drain(TERM, ReplicaId(0))]);
    tell(&mut machine, ms(103), Event::Drained(TERM));
    let term = Term::new(2, ReplicaId(0));
    let done = tell(&mut machine, ms(104), Event::ReleaseDone(TERM));
    assert_eq!(done, [Action::StepDown(TERM), Action::Promise(term)]);
    let asked = tell(&mut machine, ms(104), Event::Promised(term));
    assert_eq!(asked, [Action::Ask(ReplicaId(1), Ask::Promise { term, members: next })]);
    assert_eq!((machine.group().majority(), machine.change()), (2, None));
}

#[test]
fn who_removes_itself_lets_another_lead_the_next_term() {
    let mut machine = leader(&[0, 1, 2], &[1, 2]);
    tell(&mut machine, ms(101), Event::ChangeMembers(ChangeRequest::Remove(ReplicaId(0))));
    tell(&mut machine, ms(101), Event::Kept(set(TERM, false, &[0, 1, 2])));
    answered(&mut machine, 1, kept(false));
    tell(&mut machine, ms(101), Event::Kept(set(TERM, true, &[1, 2])));
    assert_eq!(answered(&mut machine, 2, kept(true)), [], "one of the two that are left");
    let agreed = answered(&mut machine, 1, kept(true));
    assert_eq!(agreed.last(), Some(&Action::Drain(TERM, ReplicaId(1))));
    tell(&mut machine, ms(102), Event::Drained(TERM));
    let done = tell(&mut machine, ms(103), Event::ReleaseDone(TERM));
    assert_eq!(done, [Action::StepDown(TERM), Action::Ask(ReplicaId(1), Ask::Stand { term: TERM })]);
    assert_eq!(tell(&mut machine, ms(900), Event::Tick(Beat::default())), [], "it stands no more");
    assert_eq!(machine.kind(), RoleKind::Follower);
}

#[test]
fn what_makes_no_sense_is_denied() {
    let mut machine = leader(&[0, 1, 2], &[1]);
    assert_eq!(denied(&mut machine, ChangeRequest::Add(member(1))), Some(Deny::Member));
    assert_eq!(denied(&mut machine, ChangeRequest::Remove(ReplicaId(7))), Some(Deny::Stranger));
    assert_eq!(
        denied(&mut machine, ChangeRequest::Remove(ReplicaId(1))),
        Some(Deny::Behind),
        "2 is not in sync"
    );
    assert_eq!(denied(&mut machine, ChangeRequest::Remove(ReplicaId(2))), None, "it is to go");
    assert_eq!(denied(&mut machine, ChangeRequest::Add(member(4))), Some(Deny::Busy));
    let mut alone = leader(&[0], &[]);
    assert_eq!(denied(&mut alone, ChangeRequest::Remove(ReplicaId(0))), Some(Deny::Last));
    let mut most = leader(&[0, 1, 2, 3, 4, 5, 6, 7, 8], &[1, 2, 3, 4]);
    assert_eq!(denied(&mut most, ChangeRequest::Add(member(9))), Some(Deny::Full));
}

#[test]
fn it_is_given_up_in_time_and_not_once_others_may_have_kept_it() {
    let mut machine = leader(&[0, 1, 2], &[1, 2]);
    tell(&mut machine, ms(101), Event::ChangeMembers(ChangeRequest::Add(member(3))));
    tell(&mut machine, ms(150), Event::Pushed(ms(150)));
    assert_eq!(tell(&mut machine, ms(200), Event::Tick(Beat::default())), [], "it is being given something");
    let late = tell(&mut machine, ms(230), Event::Tick(Beat::default()));
    assert_eq!(late, [Action::Dismiss(ReplicaId(3)), Action::Deny(Deny::Late)]);
    tell(&mut machine, ms(231), Event::ChangeMembers(ChangeRequest::Remove(ReplicaId(2))));
    assert_eq!(tell(&mut machine, ms(231), Event::Unkept), []);
    let own = set(TERM, false, &[0, 1, 2]);
    let again = [&asks(&[1, 2], &own)[..], &[Action::Keep(own)]].concat();
    assert_eq!(tell(&mut machine, ms(250), Event::Tick(Beat::default())), again, "they are asked again");
    answered(&mut machine, 1, kept(false));
    answered(&mut machine, 2, kept(false));
    let stage = machine.change().expect("under way").stage;
    assert!(matches!(stage, ChangeStage::Proposing(_)), "{stage:?}");
    let next = set(TERM, true, &[0, 1]);
    let again = [&asks(&[1, 2], &next)[..], &[Action::Keep(next)]].concat();
    assert_eq!(tell(&mut machine, ms(9_000), Event::Tick(Beat::default())), again, "and again");
}

/// Raft's bug of changes of one server: two leaders each want one of four replicas to go, and each was heard
/// by one other. Sets of three of four need not have a majority's member in common.
#[test]
fn what_an_older_leader_wanted_is_older_than_what_a_younger_one_had() {
    let (first, second) = (Term::new(1, ReplicaId(0)), Term::new(2, ReplicaId(1)));
    let unheard = set(first, true, &[1, 2, 3]);
    let confirmed = set(second, false, &[0, 1, 2, 3]);
    assert!(confirmed.is_newer(&unheard) && unheard.is_newer(&members(&[0, 1, 2, 3])));
    let third = Term::new(3, ReplicaId(2));
    let state = PersistentState {
        members: confirmed.clone(),
        promised: second,
        sync: Some(second),
        ..Default::default()
    };
    let mut machine = Machine::new(ReplicaId(3), state, TIMING, 3, ms(0));
    let ask = Ask::Promise { term: third, members: unheard };
    let said = tell(&mut machine, ms(100), Event::Asked(ReplicaId(2), ask));
    assert_eq!(said, [Action::Answer(ReplicaId(2), Answer::Members { members: confirmed })]);
    assert_eq!(machine.promised(), second);
}

/// A leader wanted a set without another replica, and no other replica heard of it. Then that other replica
/// led, by the set before. The first leader did not hear it for as long as it led (found by the simulator:
/// group-steps, seed 41840).
#[test]
fn one_whose_newer_set_does_not_have_the_leader_is_synced_by_it() {
    let (own, old) = (Term::new(4, ReplicaId(1)), members(&[0, 1, 2, 3, 4]));
    let newer = set(own, true, &[0, 1, 2, 3]);
    let state =
        PersistentState { members: newer.clone(), promised: own, sync: Some(own), ..Default::default() };
    let mut machine = Machine::new(ReplicaId(1), state, TIMING, 3, ms(0));
    let term = Term::new(6, ReplicaId(4));
    let promise = Ask::Promise { term, members: old.clone() };
    let said = tell(&mut machine, ms(100), Event::Asked(ReplicaId(4), promise));
    assert_eq!(said, [Action::Answer(ReplicaId(4), Answer::Members { members: newer.clone() })]);
    let sync = |members| Ask::Sync { term, base: own, cuts: vec![], streams: 1, members };
    // A set that does not contain this replica gives no leader the right to write to it.
    let said = tell(&mut machine, ms(101), Event::Asked(ReplicaId(4), sync(members(&[0, 2, 3, 4]))));
    assert_eq!(said, [Action::Answer(ReplicaId(4), Answer::Refused { term, promised: own })]);
    let said = tell(&mut machine, ms(102), Event::Asked(ReplicaId(4), sync(old)));
    assert_eq!(said, [Action::Promise(term)]);
    let prepared = tell(&mut machine, ms(103), Event::Promised(term));
    assert!(matches!(prepared[..], [Action::Prepare(_)]), "{prepared:?}");
    assert_eq!(machine.members(), &newer, "it is still the newest that it knows of");
}

#[test]
fn a_replica_that_was_removed_hears_so_and_is_quiet() {
    let newer = set(Term::new(5, ReplicaId(1)), true, &[1, 2]);
    let state = PersistentState {
        members: members(&[0, 1, 2]),
        promised: Term::ZERO,
        sync: Some(Term::ZERO),
        ..Default::default()
    };
    let mut machine = Machine::new(ReplicaId(0), state, TIMING, 3, ms(0));
    let asked = tell(&mut machine, ms(100), Event::Tick(Beat::default()));
    assert_eq!(asked.len(), 2, "it asks for pre-votes");
    tell(&mut machine, ms(100), Event::Answered(ReplicaId(1), Answer::Members { members: newer.clone() }));
    assert_eq!((machine.kind(), machine.members()), (RoleKind::Follower, &newer));
    for at in [101, 1_000, 10_000] {
        assert_eq!(tell(&mut machine, ms(at), Event::Tick(Beat::default())), []);
    }
}

#[test]
fn one_that_was_told_of_no_replicas_is_synced_and_then_one_of_them() {
    let state = PersistentState {
        members: Members::default(),
        promised: Term::ZERO,
        sync: None,
        ..Default::default()
    };
    let mut machine = Machine::new(ReplicaId(3), state, TIMING, 3, ms(0));
    assert_eq!(tell(&mut machine, ms(900), Event::Tick(Beat::default())), [], "it stands not");
    let own = members(&[0, 1, 2]);
    let ask = Ask::Sync { term: TERM, base: Term::ZERO, cuts: vec![], streams: 1, members: own.clone() };
    assert_eq!(tell(&mut machine, ms(901), Event::Asked(ReplicaId(0), ask)), [Action::Promise(TERM)]);
    assert_eq!(machine.members(), &own, "kept with the promise");
    let prepared = tell(&mut machine, ms(901), Event::Promised(TERM));
    assert!(matches!(prepared[..], [Action::Prepare(_)]), "{prepared:?}");
    tell(
        &mut machine,
        ms(902),
        Event::Asked(ReplicaId(0), Ask::Adopt { term: TERM, reclaimed: 0, floors: Vec::new() }),
    );
    assert_eq!(tell(&mut machine, ms(1_900), Event::Tick(Beat::default())), [], "it is none of them");
    let next = set(TERM, true, &[0, 1, 2, 3]);
    let keep = Event::Asked(ReplicaId(0), Ask::Members { members: next.clone() });
    assert_eq!(tell(&mut machine, ms(1_901), keep), [Action::Keep(next.clone())]);
    let said = tell(&mut machine, ms(1_901), Event::Kept(next));
    assert_eq!(said, [Action::Answer(ReplicaId(0), kept(true))]);
    assert_eq!(tell(&mut machine, ms(2_900), Event::Tick(Beat::default())).len(), 3, "it asks the others");
}
