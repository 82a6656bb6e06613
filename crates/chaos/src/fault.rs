//! A fault: which nodes it strikes, and its steps, which are drawn before the first is taken.

use std::ops::RangeInclusive;
use std::time::Duration;

use longarm::cluster::NodeId;
use longarm::output::Failure;
use longarm_base::random::SplitMix64;
use longarm_server::Timing;

use crate::bridge::Bridge;
use crate::kind::Kind;
use crate::relay::{Direction, Network};
use crate::who::Party;

/// What can be cut between processes.
pub enum Cables {
    /// Nothing.
    None,
    /// TCP connections through relays, each way by itself.
    Relays(Network),
    /// An RDMA device from all others.
    Bridge(Bridge),
}

/// A step of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A process is killed, and started again after so long; `None`: after a random time.
    Kill(NodeId, Option<Duration>),
    /// A process is told to end.
    End(NodeId),
    /// A process is stopped.
    Stop(NodeId),
    /// A process goes on.
    Go(NodeId),
    /// Time passes.
    Wait(Duration),
    /// The step waits until a process that was killed is started again.
    AwaitStart(NodeId),
    /// The ways that the kind of fault names are cut.
    Cut,
    /// All ways are whole.
    Mend,
    /// The leader is ordered to hand over to this node.
    Move(NodeId),
    /// A new node is started, and the group is ordered to add it.
    Add,
    /// The node that is being added is killed.
    KillAdded,
    /// The step waits until the group has added the node.
    AwaitAdded,
    /// The group is ordered to remove a node, which then ends; `None`: the node that was added.
    Remove(Option<NodeId>),
}

/// A fault: what happens, and to which nodes.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: Kind,
    /// The leader at its beginning.
    pub leader: NodeId,
    /// A follower.
    pub follower: NodeId,
    /// The steps, in their order.
    pub steps: Vec<Step>,
}

/// The longest time that a process stutters, and the milliseconds of its turns.
const STUTTER: Duration = Duration::from_millis(1_500);
const STOPPED: RangeInclusive<u64> = 1..=60;
const GOING: RangeInclusive<u64> = 1..=25;
/// For how many milliseconds all processes stand still: waits of two seconds are to be over, and more, when
/// they go on.
const ASLEEP: RangeInclusive<u64> = 200..=4_000;
/// How long followers are away in a slow restart.
const SLOW: [Duration; 2] = [Duration::from_millis(3_000), Duration::from_millis(4_500)];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Draws the steps of one fault.
struct Draw<'a> {
    leader: NodeId,
    followers: &'a [NodeId],
    follower: NodeId,
    /// Another follower, where there are five replicas.
    other: Option<NodeId>,
    /// Twice a lease and a suspicion: the group misses a node that is away for so long.
    long: Duration,
    suspect: Duration,
    chance: &'a mut SplitMix64,
}

impl Draw<'_> {
    fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let spare = most.saturating_sub(least).as_nanos() as u64;
        least + Duration::from_nanos(self.chance.modulo(spare + 1))
    }

    /// A wait of so many milliseconds.
    fn wait(&mut self, millis: RangeInclusive<u64>) -> Step {
        Step::Wait(self.between(ms(*millis.start()), ms(*millis.end())))
    }

    fn missed(&mut self) -> Step {
        Step::Wait(self.between(self.long, self.long + ms(1_000)))
    }

    /// Any of the nodes, each as likely.
    fn anybody(&mut self) -> NodeId {
        let all = [Some(self.leader), Some(self.follower), self.other];
        let all: Vec<NodeId> = all.into_iter().flatten().collect();
        all[self.chance.modulo(all.len() as u64) as usize]
    }

    /// The leader and a follower, or two followers.
    fn two(&mut self) -> [NodeId; 2] {
        match self.other {
            Some(other) if self.chance.modulo(5) < 2 => [self.follower, other],
            _ => [self.leader, self.follower],
        }
    }

    fn steps(&mut self, kind: Kind) -> Vec<Step> {
        let (leader, follower) = (self.leader, self.follower);
        match kind {
            Kind::Nothing => vec![Step::Wait(self.long)],
            Kind::KillLeader => vec![Step::Kill(leader, None)],
            Kind::KillFollower => vec![Step::Kill(follower, None)],
            Kind::EndLeader => vec![Step::End(leader)],
            Kind::StopLeader => vec![Step::Stop(leader), self.missed(), Step::Go(leader)],
            Kind::BlinkLeader => {
                let blink = self.between(self.suspect / 8, self.suspect / 2);
                vec![Step::Stop(leader), Step::Wait(blink), Step::Go(leader)]
            }
            Kind::StopFollower => vec![Step::Stop(follower), self.missed(), Step::Go(follower)],
            Kind::KillLeaderOfTwo => {
                vec![Step::Stop(follower), Step::Kill(leader, None), self.missed(), Step::Go(follower)]
            }
            Kind::StutterLeader => self.stutter(leader),
            Kind::StutterFollower => self.stutter(follower),
            Kind::KillRejoining => self.rejoining(),
            Kind::SlowRestart => {
                let away = |(node, away)| Step::Kill(node, Some(away));
                let two = [Some(follower), self.other].into_iter().flatten();
                two.zip(SLOW).map(away).chain([Step::Wait(SLOW[0])]).collect()
            }
            Kind::MoveStorm => self.storm(),
            Kind::KillTwo => {
                let [one, other] = self.two();
                let between = [0, 0, 10, 60, 200][self.chance.modulo(5) as usize];
                vec![Step::Kill(one, None), Step::Wait(ms(between)), Step::Kill(other, None)]
            }
            Kind::StopTwo => {
                let [one, other] = self.two();
                let (both, more) = (self.wait(300..=1_000), self.wait(0..=50));
                vec![Step::Stop(one), Step::Stop(other), both, Step::Go(one), more, Step::Go(other)]
            }
            Kind::StopAll => self.sleep(),
            Kind::KillAll => self.all().map(|node| Step::Kill(node, None)).collect(),
            Kind::KillLeaderInRejoin => {
                let away = self.between(ms(0), ms(500));
                let rejoins = vec![Step::Kill(follower, Some(away)), Step::AwaitStart(follower)];
                [rejoins, vec![self.wait(10..=200), Step::Kill(leader, None)]].concat()
            }
            Kind::AddNode
            | Kind::RemoveNode
            | Kind::ReplaceNode
            | Kind::KillLeaderInAdd
            | Kind::KillAdded => self.members(kind),
            Kind::ResetLeader => vec![Step::Cut],
            _ => vec![Step::Cut, self.missed(), Step::Mend],
        }
    }

    fn all(&self) -> impl Iterator<Item = NodeId> {
        [self.leader].into_iter().chain(self.followers.iter().copied())
    }

    fn sleep(&mut self) -> Vec<Step> {
        let (stopped, going): (Vec<_>, Vec<_>) =
            (self.all().map(Step::Stop).collect(), self.all().map(Step::Go).collect());
        [stopped, vec![self.wait(ASLEEP)], going].concat()
    }

    fn stutter(&mut self, node: NodeId) -> Vec<Step> {
        let (mut steps, mut time) = (Vec::new(), Duration::ZERO);
        while time < STUTTER {
            let turn = [self.wait(STOPPED), self.wait(GOING)];
            time += turn.iter().map(|step| if let Step::Wait(time) = step { *time } else { ms(0) }).sum();
            steps.extend([Step::Stop(node), turn[0], Step::Go(node), turn[1]]);
        }
        steps
    }

    fn rejoining(&mut self) -> Vec<Step> {
        let follower = self.follower;
        let mut steps = Vec::new();
        for _ in 0..=self.chance.modulo(3) {
            let again = [Step::Kill(follower, Some(ms(0))), Step::AwaitStart(follower), self.wait(10..=250)];
            steps.extend(again);
        }
        steps.push(Step::Kill(follower, None));
        steps
    }

    fn storm(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..4 + self.chance.modulo(8) {
            let rest = [0, 0, 5, 50][self.chance.modulo(4) as usize];
            steps.extend([Step::Move(self.anybody()), Step::Wait(ms(rest))]);
        }
        steps
    }

    /// The steps of a fault that changes the replicas. There are as many replicas afterwards.
    fn members(&mut self, kind: Kind) -> Vec<Step> {
        let (leader, rest) = (self.leader, self.wait(0..=500));
        let (meanwhile, out) = (self.wait(0..=300), Step::Remove(Some(self.anybody())));
        // A node that was added while another one died is to stay as often as not.
        let any = if self.chance.modulo(2) == 0 { out } else { Step::Remove(None) };
        match kind {
            Kind::AddNode => vec![Step::Add, Step::AwaitAdded, rest, Step::Remove(None)],
            Kind::RemoveNode => vec![out, rest, Step::Add, Step::AwaitAdded],
            Kind::ReplaceNode => vec![Step::Add, Step::AwaitAdded, rest, out],
            Kind::KillLeaderInAdd => {
                vec![Step::Add, meanwhile, Step::Kill(leader, None), Step::AwaitAdded, rest, any]
            }
            _ => vec![Step::Add, meanwhile, Step::KillAdded, Step::AwaitAdded, rest, any],
        }
    }
}

impl Fault {
    /// Draws a fault of one of `kinds`.
    pub fn draw(
        kinds: &[Kind],
        leader: NodeId,
        followers: &[NodeId],
        timing: &Timing,
        chance: &mut SplitMix64,
    ) -> Fault {
        let kind = kinds[chance.modulo(kinds.len() as u64) as usize];
        let first = chance.modulo(followers.len() as u64) as usize;
        let follower = followers[first];
        let further = 1 + chance.modulo(followers.len() as u64 - 1) as usize;
        let other = (followers.len() >= 4).then(|| followers[(first + further) % followers.len()]);
        let [lease, suspect] = [timing.promise, timing.suspect].map(|time| Duration::from_nanos(time.0));
        let long = 2 * (lease + suspect);
        let steps = Draw { leader, followers, follower, other, long, suspect, chance }.steps(kind);
        Fault { kind, leader, follower, steps }
    }

    /// Cuts the ways that this fault cuts.
    pub fn cut(&self, cables: &Cables) -> Result<(), Failure> {
        match cables {
            Cables::None => unreachable!("there is no network that has such faults"),
            Cables::Relays(network) => self.cut_ways(network),
            Cables::Bridge(bridge) if self.kind == Kind::CutLeader => bridge.cut(self.leader)?,
            Cables::Bridge(bridge) => bridge.cut(self.follower)?,
        }
        Ok(())
    }

    fn cut_ways(&self, network: &Network) {
        let all = 0..=network.nodes();
        let (leader, follower) = (self.leader.0, self.follower.0);
        let others = |whom: Party| all.clone().filter(move |other| *other != whom);
        let to = |whom: Party| others(whom).map(move |other| Direction { from: other, to: whom });
        let from = |whom: Party| to(whom).map(Direction::back);
        let both = |one: Party, other: Party| {
            let way = Direction { from: one, to: other };
            vec![way, way.back()]
        };
        let ways: Vec<Direction> = match self.kind {
            Kind::CutLeader => to(leader).chain(from(leader)).collect(),
            Kind::CutFollower => to(follower).chain(from(follower)).collect(),
            Kind::MuteLeader => from(leader).collect(),
            Kind::DeafLeader => to(leader).collect(),
            Kind::CutPair => both(leader, follower),
            Kind::CutClients => both(leader, 0),
            _ => return network.reset(leader),
        };
        ways.into_iter().for_each(|way| network.cut(way, true));
    }
}

impl Cables {
    /// Mends all that was cut.
    pub fn mend(&self) -> Result<(), Failure> {
        match self {
            Cables::None => {}
            Cables::Relays(network) => network.mend(),
            Cables::Bridge(bridge) => bridge.mend()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use longarm_base::Nanos;

    use super::*;
    use crate::kind::{Shape, Ways};

    fn drawn(nodes: u8, kind: Kind, seed: u64) -> Fault {
        let followers: Vec<NodeId> = (2..=nodes.into()).map(NodeId).collect();
        let timing = Timing {
            heartbeat: Nanos::from_millis(20),
            suspect: Nanos::from_millis(200),
            promise: Nanos::from_millis(100),
            election: Nanos::from_millis(500),
        };
        Fault::draw(&[kind], NodeId(1), &followers, &timing, &mut SplitMix64::new(seed))
    }

    #[test]
    fn no_more_lose_their_memory_or_stand_still_than_a_group_can_bear() {
        for nodes in [3, 5] {
            let shape = Shape { replicas: nodes, groups: 1, ways: Ways::Direct, keeps: false };
            for (kind, seed) in
                Kind::all(shape).into_iter().flat_map(|kind| (0..50).map(move |seed| (kind, seed)))
            {
                let fault = drawn(nodes, kind, seed);
                let (mut hurt, mut stopped) = (BTreeSet::new(), BTreeSet::new());
                for step in &fault.steps {
                    match *step {
                        Step::Kill(node, _) | Step::End(node) => drop(hurt.insert(node)),
                        Step::Stop(node) => drop(stopped.insert(node)),
                        Step::Go(node) => assert!(stopped.remove(&node), "{fault:?}"),
                        _ => {}
                    }
                    assert!(hurt.len() <= usize::from(nodes - 1) / 2, "{fault:?}");
                }
                assert!(stopped.is_empty(), "{fault:?}");
            }
        }
    }

    #[test]
    fn there_are_as_many_replicas_afterwards() {
        let kinds =
            [Kind::AddNode, Kind::RemoveNode, Kind::ReplaceNode, Kind::KillLeaderInAdd, Kind::KillAdded];
        for (kind, seed) in kinds.into_iter().flat_map(|kind| (0..50).map(move |seed| (kind, seed))) {
            let steps = drawn(5, kind, seed).steps;
            let count = |wanted: &dyn Fn(&Step) -> bool| steps.iter().filter(|step| wanted(step)).count();
            let added = count(&|step| *step == Step::Add);
            assert_eq!((added, count(&|step| *step == Step::AwaitAdded)), (1, 1), "{steps:?}");
            assert_eq!(count(&|step| matches!(step, Step::Remove(_))), 1, "{steps:?}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_again_and_others_draw_others() {
        for kind in [Kind::KillTwo, Kind::MoveStorm, Kind::StutterLeader, Kind::KillLeaderInAdd] {
            assert_eq!(drawn(5, kind, 7).steps, drawn(5, kind, 7).steps);
            let all: Vec<_> = (0..40).map(|seed| drawn(5, kind, seed).steps).collect();
            assert!(all.iter().any(|steps| *steps != all[0]), "{kind:?}");
        }
        let two = (0..40).map(|seed| drawn(5, Kind::KillTwo, seed).steps[0]);
        let leads = two.filter(|step| matches!(step, Step::Kill(NodeId(1), _))).count();
        assert!((1..40).contains(&leads), "the leader and another, or two others: {leads}");
        let storm = drawn(5, Kind::MoveStorm, 3).steps;
        assert!(storm.iter().filter(|step| matches!(step, Step::Move(_))).count() >= 4);
    }
}
