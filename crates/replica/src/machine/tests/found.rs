//! Faults that the twin (`twin.rs`) found in the machine, each as a test that is as short as possible.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, Members, ReplicaReport};

use super::{TIMING, members};

use crate::page::Beat;
use crate::{Action, Basis, Event, KeptMemory, Machine, PersistentState, Prepare, Role, RoleKind};

const LEADER: ReplicaId = ReplicaId(1);
const OTHER: ReplicaId = ReplicaId(2);

fn term(counter: u32, replica: ReplicaId) -> Term {
    Term::new(counter, replica)
}

fn three() -> Members {
    members(&[0, 1, 2])
}

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(1_000 + ms)
}

/// Replica 0 of three, which promised `promised` and holds the start set of `sync`.
fn machine(promised: Term, sync: Term) -> Machine {
    let state = PersistentState { members: three(), promised, sync: Some(sync), ..Default::default() };
    Machine::new(ReplicaId(0), state, TIMING, 7, ms(0))
}

fn tell(machine: &mut Machine, at: Nanos, event: Event) -> Vec<Action> {
    let mut todo = Vec::new();
    machine.handle(event, at, &mut todo);
    todo
}

/// Looks at the page until then, and finds nothing new there.
fn look(machine: &mut Machine, times: std::ops::Range<u64>) {
    let looks = times.map(ms);
    looks.for_each(|at| _ = tell(machine, at, Event::Looked(machine.watch.beat())));
}

/// A replica was paused for long, while its leader went on writing heartbeats. If it then handled a
/// candidate's question before any other event, it reported at once: its last look at the page was old.
#[test]
fn no_report_before_a_look_at_the_page_after_the_fence() {
    let old = term(1, LEADER);
    let mut machine = machine(old, old);
    tell(&mut machine, ms(1), Event::Tick(Beat::new(old, 1)));
    let (new, late) = (term(2, OTHER), ms(500));
    let asked = Event::Asked(OTHER, Ask::Promise { term: new, members: three() });
    assert_eq!(tell(&mut machine, late, asked), [Action::Promise(new)]);
    assert_eq!(tell(&mut machine, late, Event::Promised(new)), []);
    assert_eq!(
        tell(&mut machine, late, Event::Asked(OTHER, Ask::Promise { term: new, members: three() })),
        []
    );
    assert_eq!(
        tell(&mut machine, late, Event::Tick(Beat::new(old, 90))),
        [],
        "a heartbeat that was not seen"
    );
    assert_eq!(tell(&mut machine, ms(550), Event::Tick(Beat::new(old, 90))), []);
    assert_eq!(tell(&mut machine, ms(551), Event::Tick(Beat::new(old, 90))), [Action::Survey(Basis::Memory)]);
}

/// The same fault in the candidate's own report.
#[test]
fn no_own_report_before_a_look_at_the_page_after_the_fence() {
    let old = term(1, LEADER);
    let mut machine = machine(old, old);
    tell(&mut machine, ms(500), Event::Tick(Beat::default()));
    let yes = Answer::PreVote { term: term(2, ReplicaId(0)), yes: true };
    assert_eq!(
        tell(&mut machine, ms(501), Event::Answered(OTHER, yes)),
        [Action::Promise(term(2, ReplicaId(0)))]
    );
    let asks = [LEADER, OTHER]
        .map(|replica| Action::Ask(replica, Ask::Promise { term: term(2, ReplicaId(0)), members: three() }));
    assert_eq!(tell(&mut machine, ms(501), Event::Promised(term(2, ReplicaId(0)))), asks);
    assert_eq!(tell(&mut machine, ms(502), Event::Tick(Beat::new(old, 90))), []);
}

/// Found by killing processes: a replica that had reported rested for an election, even if the candidate had
/// led long since. So a leader that was lost soon after it began to lead was missed for a second.
#[test]
fn one_that_adopted_stands_as_soon_as_it_suspects() {
    let (old, new) = (term(1, OTHER), term(2, LEADER));
    let mut machine = machine(old, old);
    tell(&mut machine, ms(100), Event::Asked(LEADER, Ask::Promise { term: new, members: three() }));
    tell(&mut machine, ms(100), Event::Promised(new));
    tell(&mut machine, ms(101), Event::Tick(Beat::default()));
    tell(&mut machine, ms(102), Event::Surveyed(ReplicaReport::default()));
    let sync = Ask::Sync { term: new, base: old, cuts: vec![0], streams: 1, members: three() };
    tell(&mut machine, ms(103), Event::Asked(LEADER, sync));
    tell(
        &mut machine,
        ms(104),
        Event::Asked(LEADER, Ask::Adopt { term: new, reclaimed: 0, floors: Vec::new() }),
    );
    look(&mut machine, 105..104 + TIMING.suspect.0 / 1_000_000);
    assert_eq!(tell(&mut machine, ms(104) + TIMING.suspect, Event::Tick(Beat::default())), []);
    assert_eq!(machine.kind(), RoleKind::Follower);
    tell(&mut machine, ms(105) + TIMING.suspect, Event::Tick(Beat::default()));
    assert_eq!(machine.kind(), RoleKind::PreCandidate, "it does not rest for an election that is over");
}

/// Found by cutting off processes on a busy machine: the start set took longer to build than an election
/// lasts, so the others elected the next candidate before the first could lead, and so on for ever.
#[test]
fn a_candidate_has_longer_after_elections_that_came_to_nothing() {
    let mut machine = machine(term(1, OTHER), term(1, OTHER));
    let mut stands_after = |counter: u32, at: u64| {
        let new = term(counter, LEADER);
        tell(&mut machine, ms(at), Event::Asked(LEADER, Ask::Promise { term: new, members: three() }));
        tell(&mut machine, ms(at), Event::Promised(new));
        tell(&mut machine, ms(at + 60), Event::Tick(Beat::default()));
        tell(&mut machine, ms(at + 60), Event::Surveyed(ReplicaReport::default()));
        let stands = |late: &u64| {
            tell(&mut machine, ms(at + 60 + late), Event::Tick(Beat::default()));
            machine.kind() == RoleKind::PreCandidate
        };
        (0..5_000).find(stands).expect("it stands some time")
    };
    let election = TIMING.election.0 / 1_000_000;
    let spread = TIMING.suspect.0 / 1_000_000;
    for (counter, times) in [(5, 1), (6, 2), (7, 4), (8, 8), (9, 16), (10, 16)] {
        let after = stands_after(counter, 10_000 * u64::from(counter));
        let wanted = times * election..=times * election + spread + 1;
        assert!(wanted.contains(&after), "{after} ms, {wanted:?}");
    }
}

/// The same fault in the candidate itself: it gave up while reports, or answers of synced followers, were on
/// their way.
#[test]
fn a_candidate_waits_longer_after_it_waited_in_vain() {
    let mut machine = machine(term(1, LEADER), term(1, LEADER));
    let (mut at, mut waited) = (500, Vec::new());
    for _ in 0..3 {
        while machine.kind() != RoleKind::PreCandidate {
            at += 1;
            tell(&mut machine, ms(at), Event::Tick(Beat::default()));
        }
        let Role::PreCandidate { term: own, .. } = *machine.role() else { unreachable!("just seen") };
        let yes = Event::Answered(OTHER, Answer::PreVote { term: own, yes: true });
        let stood = tell(&mut machine, ms(at), yes);
        let [Action::Promise(own)] = stood[..] else { panic!("{stood:?}") };
        tell(&mut machine, ms(at), Event::Promised(own));
        let begun = at;
        while machine.kind() == RoleKind::Candidate {
            at += 1;
            tell(&mut machine, ms(at), Event::Tick(Beat::default()));
        }
        waited.push(at - begun);
    }
    let (election, spread) = (TIMING.election.0 / 1_000_000, TIMING.suspect.0 / 1_000_000);
    for (waited, times) in waited.into_iter().zip([1, 2, 4]) {
        assert!((times * election..=times * election + spread + 1).contains(&waited), "{waited} ms");
    }
}

/// Found by killing processes: two replicas that began to suspect within a few milliseconds asked each other.
/// Each heard so of another term than its own, and took the other's yes as an answer to an older question.
/// Both waited, and then rested.
#[test]
fn two_that_ask_at_once_do_not_cancel_each_other() {
    let old = term(1, LEADER);
    let mut machine = machine(old, old);
    let own = term(2, ReplicaId(0));
    let asks =
        [LEADER, OTHER].map(|replica| Action::Ask(replica, Ask::PreVote { term: own, members: three() }));
    assert_eq!(tell(&mut machine, ms(500), Event::Tick(Beat::default())), asks);
    let other = term(2, OTHER);
    let yes = Answer::PreVote { term: other, yes: true };
    let asked = Event::Asked(OTHER, Ask::PreVote { term: other, members: three() });
    assert_eq!(tell(&mut machine, ms(501), asked), [Action::Answer(OTHER, yes)]);
    let late = Event::Answered(OTHER, Answer::PreVote { term: term(1, ReplicaId(0)), yes: true });
    assert_eq!(tell(&mut machine, ms(501), late), [], "that was of another pre-vote");
    let yes = Event::Answered(OTHER, Answer::PreVote { term: own, yes: true });
    let above = term(3, ReplicaId(0));
    assert_eq!(tell(&mut machine, ms(502), yes), [Action::Promise(above)], "above all it has heard of");
}

/// A replica that was told of a higher sync term stood again before the replica that has it, which had
/// reported and rested for an election; this repeated again and again.
#[test]
fn one_that_may_not_lead_rests_longer_than_those_who_may() {
    let mut machine = machine(term(1, LEADER), Term::ZERO);
    tell(&mut machine, ms(500), Event::Tick(Beat::default()));
    let mine = term(2, ReplicaId(0));
    tell(&mut machine, ms(500), Event::Answered(OTHER, Answer::PreVote { term: mine, yes: true }));
    tell(&mut machine, ms(500), Event::Promised(mine));
    assert_eq!(tell(&mut machine, ms(501), Event::Tick(Beat::default())), [Action::Survey(Basis::Memory)]);
    tell(&mut machine, ms(501), Event::Surveyed(ReplicaReport::default()));
    let report =
        ReplicaReport { sync: term(1, LEADER), reclaimed: 0, unix: 0, disk: None, streams: Vec::new() };
    assert_eq!(
        tell(&mut machine, ms(501), Event::Answered(OTHER, Answer::Report { term: mine, report })),
        [Action::Ask(OTHER, Ask::Stand { term: mine })]
    );
    let rested = ms(501) + TIMING.election + TIMING.suspect + TIMING.suspect;
    assert_eq!(tell(&mut machine, rested, Event::Tick(Beat::default())), [], "the other may stand before");
    let later = rested + TIMING.suspect;
    let asks = [LEADER, OTHER]
        .map(|replica| Action::Ask(replica, Ask::PreVote { term: term(3, ReplicaId(0)), members: three() }));
    assert_eq!(tell(&mut machine, later, Event::Tick(Beat::default())), asks);
}

/// Of four replicas of one sync term one had released segments, so only it could lead (the simulator,
/// `group-changes-all`, seed 61060). The two other ones that were left asked each other to stand, for ever.
#[test]
fn one_that_may_not_lead_asks_who_has_what_it_lacks() {
    let (mine, sync) = (term(2, ReplicaId(0)), term(1, LEADER));
    let report = |reclaimed| ReplicaReport { sync, reclaimed, unix: 0, disk: None, streams: Vec::new() };
    for [first, second] in [[LEADER, OTHER], [OTHER, LEADER]] {
        let four = members(&[0, 1, 2, 3]);
        let state = PersistentState { members: four, promised: sync, sync: Some(sync), ..Default::default() };
        let mut machine = Machine::new(ReplicaId(0), state, TIMING, 7, ms(0));
        tell(&mut machine, ms(500), Event::Tick(Beat::default()));
        for replica in [LEADER, OTHER] {
            tell(&mut machine, ms(500), Event::Answered(replica, Answer::PreVote { term: mine, yes: true }));
        }
        tell(&mut machine, ms(500), Event::Promised(mine));
        tell(&mut machine, ms(501), Event::Tick(Beat::default()));
        tell(&mut machine, ms(501), Event::Surveyed(report(0)));
        let reports =
            |replica| Answer::Report { term: mine, report: report(if replica == LEADER { 109 } else { 0 }) };
        assert_eq!(tell(&mut machine, ms(501), Event::Answered(first, reports(first))), []);
        assert_eq!(
            tell(&mut machine, ms(501), Event::Answered(second, reports(second))),
            [Action::Ask(LEADER, Ask::Stand { term: mine })]
        );
    }
}

/// Where only the replica with the highest of three sync terms could lead, the two others took turns to
/// stand, each having rested as long as that replica.
#[test]
fn one_that_has_more_than_the_candidate_stands_when_it_is_asked() {
    let mut machine = machine(term(1, OTHER), term(1, OTHER));
    let asker = term(2, LEADER);
    tell(&mut machine, ms(500), Event::Asked(LEADER, Ask::Promise { term: asker, members: three() }));
    tell(&mut machine, ms(500), Event::Promised(asker));
    assert_eq!(tell(&mut machine, ms(501), Event::Tick(Beat::default())), [Action::Survey(Basis::Memory)]);
    tell(
        &mut machine,
        ms(501),
        Event::Surveyed(ReplicaReport {
            sync: term(1, OTHER),
            reclaimed: 0,
            unix: 0,
            disk: None,
            streams: Vec::new(),
        }),
    );
    let stand = Event::Asked(LEADER, Ask::Stand { term: asker });
    assert_eq!(tell(&mut machine, ms(502), stand), [Action::Promise(term(3, ReplicaId(0)))]);
}

/// A follower of three that is being synced by `LEADER` in term 3 from `base`.
fn overwritten(sync: Term, base: Term) -> Machine {
    let mut machine = machine(sync, sync);
    let young = term(3, LEADER);
    let ask = Ask::Sync { term: young, base, cuts: vec![], streams: 2, members: three() };
    tell(&mut machine, ms(1), Event::Asked(LEADER, ask));
    let prepared = tell(&mut machine, ms(1), Event::Promised(young));
    let [Action::Prepare(prepare)] = &prepared[..] else { panic!("{prepared:?}") };
    assert_eq!(prepare.kept, KeptMemory::Other);
    machine
}

/// If a follower gave its memory up to be synced, the leader could be the only other replica with all
/// committed entries. Then no candidate could gather a majority any more once the leader had lost its memory.
#[test]
fn one_that_is_overwritten_reports_what_it_held() {
    let old = term(1, OTHER);
    for base in [term(2, LEADER), term(0, OTHER)] {
        let mut machine = overwritten(old, base);
        assert_eq!((machine.sync(), machine.is_mixed()), (Some(old), true));
        let again = term(4, LEADER);
        tell(&mut machine, ms(500), Event::Asked(LEADER, Ask::Promise { term: again, members: three() }));
        tell(&mut machine, ms(500), Event::Promised(again));
        assert_eq!(
            tell(&mut machine, ms(501), Event::Tick(Beat::default())),
            [Action::Survey(Basis::Memory)]
        );
        let report = ReplicaReport { sync: old, reclaimed: 0, unix: 0, disk: None, streams: Vec::new() };
        let answer = Action::Answer(LEADER, Answer::Report { term: again, report: report.clone() });
        assert_eq!(tell(&mut machine, ms(501), Event::Surveyed(report)), [answer]);
    }
}

/// A replica that one leader had half overwritten was asked by another leader, whose base was its own old
/// sync term, and was taken to hold that start set.
#[test]
fn a_mixture_is_not_taken_for_the_base() {
    let old = term(1, OTHER);
    let mut machine = overwritten(old, Term::ZERO);
    let next = term(4, OTHER);
    let ask = Ask::Sync { term: next, base: old, cuts: vec![3], streams: 2, members: three() };
    tell(&mut machine, ms(2), Event::Asked(OTHER, ask));
    let prepared = tell(&mut machine, ms(2), Event::Promised(next));
    assert!(
        matches!(&prepared[..], [Action::Prepare(Prepare { kept: KeptMemory::Other, .. })]),
        "not {prepared:?}"
    );
    tell(
        &mut machine,
        ms(3),
        Event::Asked(OTHER, Ask::Adopt { term: next, reclaimed: 0, floors: Vec::new() }),
    );
    assert_eq!((machine.sync(), machine.is_mixed()), (Some(next), false));
}

/// The only remaining holder of what was committed had been half overwritten. It led, and a follower of the
/// same sync term continued from its own older terms, which were not the leader's.
#[test]
fn one_that_leads_from_a_mixture_has_no_base_in_common_with_others() {
    let old = term(1, OTHER);
    let mut machine = overwritten(old, Term::ZERO);
    tell(&mut machine, ms(500), Event::Tick(Beat::default()));
    let mine = term(4, ReplicaId(0));
    tell(&mut machine, ms(500), Event::Answered(OTHER, Answer::PreVote { term: mine, yes: true }));
    tell(&mut machine, ms(500), Event::Promised(mine));
    tell(&mut machine, ms(501), Event::Tick(Beat::default()));
    let report = ReplicaReport { sync: old, reclaimed: 0, unix: 0, disk: None, streams: Vec::new() };
    tell(&mut machine, ms(501), Event::Surveyed(report.clone()));
    let todo = tell(&mut machine, ms(501), Event::Answered(OTHER, Answer::Report { term: mine, report }));
    let [Action::Install(start)] = &todo[..] else { panic!("{todo:?}") };
    assert_eq!((start.base, start.mixed, start.common()), (old, true, mine));
    tell(&mut machine, ms(502), Event::Installed(mine));
    assert_eq!((machine.sync(), machine.is_mixed()), (Some(mine), false));
}

/// A leader formed alone for ever, with a follower that heard its heartbeats and could not be synced.
#[test]
fn one_that_forms_without_progress_gives_up() {
    let mut machine = machine(Term::ZERO, Term::ZERO);
    tell(&mut machine, ms(500), Event::Tick(Beat::default()));
    let mine = term(1, ReplicaId(0));
    tell(&mut machine, ms(500), Event::Answered(OTHER, Answer::PreVote { term: mine, yes: true }));
    tell(&mut machine, ms(500), Event::Promised(mine));
    tell(&mut machine, ms(501), Event::Tick(Beat::default()));
    tell(&mut machine, ms(501), Event::Surveyed(ReplicaReport::default()));
    let answer = Answer::Report { term: mine, report: ReplicaReport::default() };
    tell(&mut machine, ms(501), Event::Answered(OTHER, answer));
    tell(&mut machine, ms(501), Event::Installed(mine));
    assert_eq!(machine.kind(), RoleKind::Forming);
    tell(&mut machine, ms(1_000), Event::Pushed(ms(1_000)));
    let until = ms(1_000) + TIMING.election;
    assert_eq!(tell(&mut machine, ms(1_069), Event::Tick(Beat::default())), []);
    assert_eq!(tell(&mut machine, until, Event::Tick(Beat::default())), [Action::StepDown(mine)]);
    assert_eq!((machine.kind(), machine.sync()), (RoleKind::Follower, Some(mine)));
}

/// The driver looked at the machine every few milliseconds, so a group without a leader waited for the next
/// look of two replicas, one after the other.
#[test]
fn a_report_is_made_the_moment_that_its_promise_is_over() {
    let (old, new) = (term(1, LEADER), term(2, OTHER));
    for asked in [true, false] {
        let mut machine = machine(old, old);
        tell(&mut machine, ms(1), Event::Tick(Beat::new(old, 1)));
        assert_eq!(machine.reports_at(), None, "nobody asked");
        let beat = Event::Tick(Beat::new(old, 1));
        look(&mut machine, 2..20);
        let own = if asked {
            tell(&mut machine, ms(20), Event::Asked(OTHER, Ask::Promise { term: new, members: three() }));
            new
        } else {
            tell(&mut machine, ms(20), beat.clone());
            let term = term(2, ReplicaId(0));
            tell(&mut machine, ms(20), Event::Answered(OTHER, Answer::PreVote { term, yes: true }));
            term
        };
        tell(&mut machine, ms(21), Event::Promised(own));
        let at = machine.reports_at().expect("it owes a report");
        assert_eq!(at, ms(51) + Nanos(1), "D after the heartbeat, and not before");
        assert_eq!(tell(&mut machine, Nanos(at.0 - 1), beat.clone()), []);
        assert_eq!(tell(&mut machine, at, beat), [Action::Survey(Basis::Memory)]);
        tell(&mut machine, at, Event::Surveyed(ReplicaReport { sync: old, ..ReplicaReport::default() }));
        assert_eq!(machine.reports_at(), None, "it has reported");
    }
}
