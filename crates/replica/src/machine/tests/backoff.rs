//! A replica that lets another replica stand first.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask};

use super::members;
use crate::page::Beat;
use crate::{Action, Event, Machine, PersistentState, RoleKind, Timing};

const TIMING: Timing = Timing {
    heartbeat: Nanos::from_millis(5),
    suspect: Nanos::from_millis(15),
    promise: Nanos::from_millis(50),
    election: Nanos::from_millis(70),
};

#[test]
fn it_stands_later_and_does_all_else_at_once() {
    let state = PersistentState { members: members(&[0, 1, 2]), promised: Term::ZERO, sync: None };
    let ms = Nanos::from_millis;
    let mut machine = Machine::new(ReplicaId(0), state, TIMING, 7, ms(0)).blank(5, ms(140));
    let known = |round| Answer::Known {
        life: 5,
        round,
        promised: Term::ZERO,
        own: 6,
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
