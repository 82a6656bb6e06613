//! What the twin (`twin.rs`) found in the machine, each as short as it can be told.

use longarm_base::{Nanos, NodeId, Term};
use longarm_wire::{Answer, Ask, Report};

use crate::page::Beat;
use crate::{Action, Event, Group, Machine, RoleKind, Timing};

const TIMING: Timing = Timing {
    heartbeat: Nanos::from_millis(5),
    suspect: Nanos::from_millis(15),
    promise: Nanos::from_millis(50),
    election: Nanos::from_millis(70),
};

const LEADER: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

fn term(counter: u32, node: NodeId) -> Term {
    Term::new(counter, node)
}

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(1_000 + ms)
}

/// Replica 0 of three, which promised `promised` and holds the start set of `sync`.
fn machine(promised: Term, sync: Term) -> Machine {
    let group = Group::new(NodeId(0), &[NodeId(0), LEADER, OTHER]).expect("a group");
    Machine::new(group, TIMING, promised, Some(sync), 7, ms(0))
}

fn tell(machine: &mut Machine, at: Nanos, event: Event) -> Vec<Action> {
    let mut todo = Vec::new();
    machine.handle(event, at, &mut todo);
    todo
}

/// A replica that is paused for long, while its leader goes on writing heartbeats, and then handles a
/// candidate's question before anything else, reported at once: its last look at the page was old.
#[test]
fn no_report_before_a_look_at_the_page_after_the_fence() {
    let old = term(1, LEADER);
    let mut machine = machine(old, old);
    tell(&mut machine, ms(1), Event::Tick(Beat::new(old, 1)));
    let (new, late) = (term(2, OTHER), ms(500));
    let asked = Event::Asked(OTHER, Ask::Promise { term: new });
    assert_eq!(tell(&mut machine, late, asked), [Action::Promise(new)]);
    assert_eq!(tell(&mut machine, late, Event::Promised(new)), []);
    assert_eq!(tell(&mut machine, late, Event::Asked(OTHER, Ask::Promise { term: new })), []);
    assert_eq!(
        tell(&mut machine, late, Event::Tick(Beat::new(old, 90))),
        [],
        "a heartbeat that was not seen"
    );
    assert_eq!(tell(&mut machine, ms(550), Event::Tick(Beat::new(old, 90))), []);
    assert_eq!(tell(&mut machine, ms(551), Event::Tick(Beat::new(old, 90))), [Action::Survey]);
}

/// The same for the candidate's own report.
#[test]
fn no_own_report_before_a_look_at_the_page_after_the_fence() {
    let old = term(1, LEADER);
    let mut machine = machine(old, old);
    tell(&mut machine, ms(500), Event::Tick(Beat::default()));
    let yes = Answer::Canvassed { term: term(2, NodeId(0)), yes: true };
    assert_eq!(
        tell(&mut machine, ms(501), Event::Answered(OTHER, yes)),
        [Action::Promise(term(2, NodeId(0)))]
    );
    let asks = [LEADER, OTHER].map(|node| Action::Ask(node, Ask::Promise { term: term(2, NodeId(0)) }));
    assert_eq!(tell(&mut machine, ms(501), Event::Promised(term(2, NodeId(0)))), asks);
    assert_eq!(tell(&mut machine, ms(502), Event::Tick(Beat::new(old, 90))), []);
}

/// One that was told of a higher sync term stood again before the one that has it, which had reported and
/// rested for an election; again and again.
#[test]
fn one_that_may_not_lead_rests_longer_than_those_who_may() {
    let mut machine = machine(term(1, LEADER), Term::ZERO);
    tell(&mut machine, ms(500), Event::Tick(Beat::default()));
    let mine = term(2, NodeId(0));
    tell(&mut machine, ms(500), Event::Answered(OTHER, Answer::Canvassed { term: mine, yes: true }));
    tell(&mut machine, ms(500), Event::Promised(mine));
    assert_eq!(tell(&mut machine, ms(501), Event::Tick(Beat::default())), [Action::Survey]);
    tell(&mut machine, ms(501), Event::Surveyed(Report::default()));
    let report = Report { sync: term(1, LEADER), streams: Vec::new() };
    assert_eq!(
        tell(&mut machine, ms(501), Event::Answered(OTHER, Answer::Report { term: mine, report })),
        []
    );
    let rested = ms(501) + TIMING.election + TIMING.suspect + TIMING.suspect;
    assert_eq!(tell(&mut machine, rested, Event::Tick(Beat::default())), [], "the other may stand before");
    let later = rested + TIMING.suspect;
    let asks = [LEADER, OTHER].map(|node| Action::Ask(node, Ask::Canvass { term: term(3, NodeId(0)) }));
    assert_eq!(tell(&mut machine, later, Event::Tick(Beat::default())), asks);
}

/// Where a lagging follower was being synced when the leader restarted, and the third had lost its memory,
/// nobody could gather a majority any more, although the leader had everything.
#[test]
fn one_that_is_overwritten_reports_that_it_holds_nothing() {
    let (old, base, young) = (term(1, OTHER), term(2, LEADER), term(3, LEADER));
    for (base, needs) in [(base, base), (term(0, OTHER), young)] {
        let mut machine = machine(old, old);
        tell(
            &mut machine,
            ms(1),
            Event::Asked(LEADER, Ask::Sync { term: young, base, cuts: vec![], streams: 2 }),
        );
        tell(&mut machine, ms(1), Event::Promised(young));
        assert_eq!((machine.sync(), machine.kind()), (None, RoleKind::Learner));
        let again = term(4, LEADER);
        assert_eq!(
            tell(&mut machine, ms(500), Event::Asked(LEADER, Ask::Promise { term: again })),
            [Action::Promise(again)]
        );
        tell(&mut machine, ms(500), Event::Promised(again));
        assert_eq!(tell(&mut machine, ms(501), Event::Tick(Beat::default())), [Action::Survey]);
        let report = Report { sync: needs, streams: Vec::new() };
        let answer = Action::Answer(LEADER, Answer::Report { term: again, report });
        assert_eq!(tell(&mut machine, ms(501), Event::Surveyed(Report::default())), [answer]);
        assert_eq!(tell(&mut machine, ms(900), Event::Tick(Beat::default())), [], "it does not stand");
    }
}
