//! A replica that lets another replica stand first.

use std::ops::Range;

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, ReplicaReport};

use super::{TIMING, members};
use crate::page::Beat;
use crate::{Action, Event, Machine, PersistentState, RoleKind};

#[test]
fn it_stands_later_and_does_all_else_at_once() {
    let state = PersistentState {
        members: members(&[0, 1, 2]),
        promised: Term::ZERO,
        sync: None,
        ..Default::default()
    };
    let ms = Nanos::from_millis;
    let mut machine = Machine::new(ReplicaId(0), state, TIMING, 7, ms(0)).blank(5, ms(140));
    let known = |round| Answer::Known {
        life: 5,
        round,
        promised: Term::ZERO,
        origin: 6,
        founders: vec![],
        members: members(&[0, 1, 2]),
    };
    let mut first = Vec::new();
    machine.handle(Event::Tick(Beat::default()), ms(0), &mut first);
    for (round, replica) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        machine.handle(Event::Answered(ReplicaId(replica), known(round)), ms(1), &mut first);
    }
    let tick = |machine: &mut Machine, at| {
        let mut todo = Vec::new();
        machine.handle(Event::Tick(Beat::default()), at, &mut todo);
        (machine.kind(), todo.len())
    };
    // It suspects that there is no leader, and says nothing of it.
    assert_eq!(tick(&mut machine, ms(140)), (RoleKind::Follower, 0));
    let mut resting = machine.clone();
    let latest = ms(142) + TIMING.suspect;
    assert_eq!(tick(&mut machine, latest), (RoleKind::PreCandidate, 2), "it asks the two others");

    let term = Term::new(1, ReplicaId(1));
    let mut todo = Vec::new();
    resting.handle(
        Event::Asked(ReplicaId(1), Ask::Promise { term, members: members(&[0, 1, 2]) }),
        ms(140),
        &mut todo,
    );
    assert_eq!(todo, [Action::Promise(term)], "another is promised what it asks for");
}

/// A replica that has reported to the candidate of `term` at `at`.
fn reported(term: Term, at: Nanos) -> Machine {
    let state = PersistentState {
        members: members(&[0, 1, 2]),
        promised: term,
        sync: Some(Term::ZERO),
        ..Default::default()
    };
    let mut machine = Machine::new(ReplicaId(0), state, TIMING, 7, at);
    let ask = Ask::Promise { term, members: members(&[0, 1, 2]) };
    let mut todo = Vec::new();
    machine.handle(Event::Asked(term.leader(), ask), at, &mut todo);
    machine.handle(Event::Tick(Beat::default()), at + TIMING.promise + Nanos(1), &mut todo);
    machine.handle(Event::Surveyed(ReplicaReport::default()), at + TIMING.promise + Nanos(1), &mut todo);
    assert!(matches!(todo[..], [Action::Survey(_), Action::Answer(_, Answer::Report { .. })]), "{todo:?}");
    machine
}

/// When the replica begins to ask others whether they would report; it ticks each millisecond until `end`,
/// and hears each seventh what `word` says.
fn canvasses(machine: &mut Machine, times: Range<u64>, word: Option<(ReplicaId, Ask)>) -> Option<u64> {
    let mut todo = Vec::new();
    for at in times {
        machine.handle(Event::Tick(Beat::default()), Nanos::from_millis(at), &mut todo);
        if machine.kind() == RoleKind::PreCandidate {
            return Some(at);
        }
        if let Some((from, ask)) = word.clone().filter(|_| at % 7 == 0) {
            machine.handle(Event::Asked(from, ask), Nanos::from_millis(at), &mut todo);
        }
    }
    None
}

/// Found by torture on a machine with far more work than cores: to install took two seconds, and candidates
/// ended each other's terms, sixteen in a row, before one of them led.
#[test]
fn who_installs_is_waited_for_as_long_as_it_says_so() {
    let (candidate, other) = (ReplicaId(1), ReplicaId(2));
    let (older, term) = (Term::new(1, candidate), Term::new(2, candidate));
    let installs = |term| Some((candidate, Ask::Installs { term }));
    let mut waits = reported(term, Nanos(0));
    for word in [None, installs(older), Some((other, Ask::Installs { term: Term::new(2, other) }))] {
        let begins = canvasses(&mut waits.clone(), 51..1_000, word);
        assert!(begins.is_some_and(|at| at <= 51 + 70 * 2 + 15), "{begins:?}");
    }
    assert_eq!(canvasses(&mut waits, 51..5_000, installs(term)), None);
    let mut todo = Vec::new();
    let ask = Ask::PreVote { term: Term::new(3, other), members: members(&[0, 1, 2]) };
    waits.handle(Event::Asked(other, ask.clone()), Nanos::from_millis(5_000), &mut todo);
    let mut says = |waits: &mut Machine, at| {
        todo.clear();
        waits.handle(Event::Asked(other, ask.clone()), Nanos::from_millis(at), &mut todo);
        matches!(todo[..], [Action::Answer(_, Answer::PreVote { yes: true, .. })])
    };
    assert!(!says(&mut waits, 5_000), "it would not report to another");
    assert!(says(&mut waits, 5_000 + 80), "it would, once nothing is heard");
    let begins = canvasses(&mut waits, 5_000..6_000, None);
    assert!(begins.is_some_and(|at| (5_000 + 60..5_000 + 80).contains(&at)), "{begins:?}");
}
