//! A replica that lets another stand first.

use longarm_base::{Nanos, NodeId, Term};
use longarm_wire::Ask;

use super::members;
use crate::page::Beat;
use crate::{Action, Event, Machine, RoleKind, Timing};

const TIMING: Timing = Timing {
    heartbeat: Nanos::from_millis(5),
    suspect: Nanos::from_millis(15),
    promise: Nanos::from_millis(50),
    election: Nanos::from_millis(70),
};

#[test]
fn it_stands_later_and_does_all_else_at_once() {
    let who = (NodeId(0), members(&[0, 1, 2]));
    let ms = Nanos::from_millis;
    let mut machine =
        Machine::new(who, TIMING, Term::ZERO, Some(Term::ZERO), 7, ms(0)).resting_until(ms(140));
    let tick = |machine: &mut Machine, at| {
        let mut todo = Vec::new();
        machine.handle(Event::Tick(Beat::default()), at, &mut todo);
        (machine.kind(), todo.len())
    };
    // It suspects that nobody leads, and says nothing of it.
    assert_eq!(tick(&mut machine, ms(139)), (RoleKind::Follower, 0));
    let mut resting = machine.clone();
    assert_eq!(tick(&mut machine, ms(140)), (RoleKind::Canvassing, 2), "it asks the two others");

    let term = Term::new(1, NodeId(1));
    let mut todo = Vec::new();
    resting.handle(
        Event::Asked(NodeId(1), Ask::Promise { term, members: members(&[0, 1, 2]) }),
        ms(139),
        &mut todo,
    );
    assert_eq!(todo, [Action::Promise(term)], "another is promised what it asks for");
}
