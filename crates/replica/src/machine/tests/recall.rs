//! Elections from disks (`recall.rs`): three machines whose questions and answers arrive at once, or never.

use longarm_base::{Csn, Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, DiskReport, Extent, NoRecall, Recall, ReplicaReport};

use super::{TIMING, members};
use crate::page::Beat;
use crate::{Action, Basis, Event, KeptMemory, Machine, PersistentState, RoleKind, StartSet};

/// The term in which all were in sync when the power was lost.
const BEFORE: Term = Term::new(3, ReplicaId(1));

/// A replica: its machine, what is on its disk, and whether it can be heard.
struct Node {
    machine: Machine,
    disk: DiskReport,
    is_up: bool,
}

struct Group {
    now: Nanos,
    nodes: Vec<Node>,
    /// Who installed what.
    installed: Vec<(u8, StartSet)>,
}

/// A disk of that term, with everything up to that version.
fn disk(term: Term, stable: u64) -> DiskReport {
    let (stable, ceiling) = (Csn(stable), Csn(stable + 500));
    DiskReport { term, stable, ceiling, ready: true, ..DiskReport::default() }
}

impl Group {
    /// A group whose disks have this; those of `warm` have their memory, too.
    fn new(disks: [DiskReport; 3], warm: &[usize]) -> Group {
        let now = Nanos::from_millis(1_000);
        let node = |(at, disk): (usize, DiskReport)| {
            let sync = warm.contains(&at).then_some(BEFORE);
            let state = PersistentState {
                members: members(&[0, 1, 2]),
                promised: BEFORE,
                sync,
                ..Default::default()
            };
            let machine =
                Machine::new(ReplicaId(at as u8), state, TIMING, 7 + at as u64, now).with_recall(true);
            Node { machine, disk, is_up: true }
        };
        Group { now, nodes: disks.into_iter().enumerate().map(node).collect(), installed: Vec::new() }
    }

    fn tell(&mut self, at: usize, event: Event) {
        let mut todo = Vec::new();
        self.nodes[at].machine.handle(event, self.now, &mut todo);
        todo.into_iter().for_each(|action| self.act(at, action));
    }

    fn act(&mut self, at: usize, action: Action) {
        let me = ReplicaId(at as u8);
        let up = |group: &Group, to: ReplicaId| group.nodes[at].is_up && group.nodes[usize::from(to.0)].is_up;
        match action {
            Action::Promise(term) => self.tell(at, Event::Promised(term)),
            Action::Ask(to, ask) if up(self, to) => self.tell(usize::from(to.0), Event::Asked(me, ask)),
            Action::Answer(to, answer) if up(self, to) => {
                self.tell(usize::from(to.0), Event::Answered(me, answer));
            }
            Action::Survey(basis) => {
                let report = self.report(at, basis);
                self.tell(at, Event::Surveyed(report));
            }
            Action::Install(start) => {
                let term = start.term;
                self.installed.push((me.0, start));
                self.tell(at, Event::Installed(term));
            }
            _ => {}
        }
    }

    fn report(&self, at: usize, basis: Basis) -> ReplicaReport {
        let Node { machine, disk, .. } = &self.nodes[at];
        let memory = machine.sync();
        let len = if basis == Basis::Memory { 1_000 } else { disk.stable.0 };
        let disk = DiskReport { has_memory: memory.is_some(), ..*disk };
        ReplicaReport {
            sync: memory.unwrap_or(Term::ZERO),
            disk: (basis != Basis::Memory).then_some(disk),
            streams: vec![Extent { floor: 0, len }],
            ..ReplicaReport::default()
        }
    }

    /// Lets so much time pass.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now = self.now + Nanos::from_millis(1);
            (0..self.nodes.len()).for_each(|at| self.tell(at, Event::Tick(Beat::default())));
        }
    }

    fn kinds(&self) -> Vec<RoleKind> {
        self.nodes.iter().map(|node| node.machine.kind()).collect()
    }
}

#[test]
fn the_replica_with_the_best_disk_leads_when_all_have_lost_their_memory() {
    for best in 0..3 {
        let mut disks = [disk(BEFORE, 40); 3];
        disks[best] = disk(BEFORE, 50);
        disks[(best + 1) % 3] = disk(Term::new(2, ReplicaId(0)), 90);
        let mut group = Group::new(disks, &[]);
        group.pass(60);
        assert_eq!(group.installed, [], "those with memory had the time to elect");
        group.pass(1_000);
        let (who, start) = group.installed.first().expect("one leads");
        assert_eq!((usize::from(*who), start.base, start.cuts[0].len), (best, BEFORE, 50));
        assert_eq!(start.disk.map(|it| (it.stable, it.ceiling)), Some((Csn(50), Csn(590))));
        assert!(group.kinds().contains(&RoleKind::Forming));
    }
}

#[test]
fn nobody_leads_from_disks_before_all_are_heard_unless_an_operator_says_so() {
    let mut group = Group::new([disk(BEFORE, 40), disk(BEFORE, 50), disk(BEFORE, 60)], &[]);
    group.nodes[2].is_up = false;
    group.pass(3_000);
    assert_eq!(group.installed, []);
    let missing = group.nodes[0].machine.awaits_disks().expect("it waits");
    assert_eq!(missing.iter().collect::<Vec<_>>(), [ReplicaId(2)]);
    let promised = group.nodes[1].machine.promised();
    assert_eq!(promised, BEFORE, "asking in vain costs no term");
    assert_eq!(group.nodes[0].machine.rests(group.now), None);
    group.tell(0, Event::Recall);
    group.pass(1_000);
    let (who, start) = group.installed.first().expect("one leads");
    assert_eq!((*who, start.cuts[0].len), (1, 50), "the best of those that are there");
}

#[test]
fn a_leader_that_lives_is_not_stood_against() {
    let mut group = Group::new([disk(BEFORE, 40); 3], &[1]);
    for number in 0..2_000 {
        group.now = group.now + Nanos::from_millis(1);
        for at in [0, 1, 2] {
            // Its heartbeats land at one of the two that were restarted.
            let beat = if at == 2 { Beat::default() } else { Beat::new(BEFORE, number) };
            group.tell(at, Event::Tick(beat));
        }
    }
    assert_eq!(group.installed, []);
    assert_eq!(group.nodes[2].machine.promised(), BEFORE);
    assert_eq!(group.nodes[0].machine.rests(group.now), Some(NoRecall::Led));
}

#[test]
fn a_majority_with_memory_elects_from_memory() {
    let mut group = Group::new([disk(BEFORE, 40), disk(BEFORE, 50), disk(BEFORE, 60)], &[0, 1]);
    group.pass(2_000);
    let (who, start) = group.installed.first().expect("one leads");
    assert!(*who < 2 && start.disk.is_none() && start.cuts[0].len == 1_000, "{who} {start:?}");
}

#[test]
fn a_lone_memory_gives_up_what_its_disk_has_not() {
    let mut group = Group::new([disk(BEFORE, 40), disk(BEFORE, 50), disk(BEFORE, 60)], &[2]);
    group.pass(2_000);
    let (who, start) = group.installed.first().expect("one leads");
    assert_eq!((*who, start.cuts[0].len, start.common()), (2, 60, start.term));
    let mut group = Group::new([disk(BEFORE, 40), disk(BEFORE, 70), disk(BEFORE, 60)], &[2]);
    group.pass(2_000);
    assert_eq!(group.installed.first().expect("one leads").0, 1, "the disk counts, not the memory");
}

#[test]
fn who_lost_its_memory_votes_in_no_election_from_memory_and_is_given_everything() {
    let mut group = Group::new([disk(BEFORE, 40); 3], &[]);
    let (term, me) = (Term::new(4, ReplicaId(1)), &mut group.nodes[0].machine);
    let ask = |machine: &mut Machine, ask: Ask| {
        let mut todo = Vec::new();
        machine.handle(Event::Asked(ReplicaId(1), ask), Nanos::from_millis(1_100), &mut todo);
        todo
    };
    let three = || members(&[0, 1, 2]);
    let refused = Answer::Refused { term, promised: BEFORE };
    let promise = Ask::Promise { term, members: three() };
    assert_eq!(ask(me, promise), [Action::Answer(ReplicaId(1), refused)]);
    let sync = Ask::Sync { term, base: BEFORE, cuts: vec![9], streams: 1, members: three() };
    assert_eq!(ask(me, sync), [Action::Promise(term)]);
    let mut todo = Vec::new();
    me.handle(Event::Promised(term), Nanos::from_millis(1_101), &mut todo);
    assert!(matches!(&todo[..], [Action::Prepare(it)] if it.kept == KeptMemory::Nothing), "{todo:?}");
    // That leader is gone, and another one's question is heard; but the memory is not what the disk has.
    let stand = Ask::Recall { term, members: three(), recall: Recall::Stand { lossy: true } };
    assert_eq!(ask(me, stand), []);
}

#[test]
fn a_group_in_memory_or_in_sync_mode_has_no_election_from_disks() {
    let mut group = Group::new([disk(BEFORE, 40); 3], &[]);
    for node in &mut group.nodes {
        node.machine = node.machine.clone().with_recall(false);
    }
    group.pass(2_000);
    assert_eq!(group.nodes[0].machine.rests(group.now), Some(NoRecall::Needless));
    group.tell(0, Event::Recall);
    assert_eq!((group.installed, group.nodes[0].machine.awaits_disks()), (vec![], None));
}
