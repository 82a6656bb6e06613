//! What can happen to a group, and how it is done to one.

use std::time::Duration;

use longarm_base::NodeId;
use rustix::process::Signal;

use super::bridge::Bridge;
use super::relay::Network;
use crate::commands::demo::data::Numbers;
use crate::output::Failure;
use crate::processes::Replicas;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
#[expect(missing_docs, reason = "each says what it does in `what`")]
pub enum Kind {
    Nothing,
    KillLeader,
    KillFollower,
    EndLeader,
    StopLeader,
    BlinkLeader,
    StopFollower,
    KillLeaderOfTwo,
    CutLeader,
    CutFollower,
    MuteLeader,
    DeafLeader,
    CutPair,
    CutClients,
    ResetLeader,
}

impl Kind {
    /// All that can happen without a network.
    pub const ON_ONE_MACHINE: &[Kind] = &[
        Kind::Nothing,
        Kind::KillLeader,
        Kind::KillLeader,
        Kind::KillFollower,
        Kind::EndLeader,
        Kind::StopLeader,
        Kind::BlinkLeader,
        Kind::StopFollower,
        Kind::KillLeaderOfTwo,
    ];
    /// What a network adds.
    pub const OF_A_NETWORK: &[Kind] = &[
        Kind::CutLeader,
        Kind::CutFollower,
        Kind::MuteLeader,
        Kind::DeafLeader,
        Kind::CutPair,
        Kind::CutClients,
        Kind::ResetLeader,
    ];

    /// What a bridge of RDMA devices adds.
    pub const OF_A_BRIDGE: &[Kind] = &[Kind::CutLeader, Kind::CutFollower];

    /// In words.
    pub fn what(self) -> &'static str {
        match self {
            Kind::Nothing => "nothing (what the machine does alone)",
            Kind::KillLeader => "leader killed",
            Kind::KillFollower => "follower killed",
            Kind::EndLeader => "leader told to end",
            Kind::StopLeader => "leader stopped for long",
            Kind::BlinkLeader => "leader stopped for less than a suspicion",
            Kind::StopFollower => "follower stopped for long",
            Kind::KillLeaderOfTwo => "leader killed while a follower is stopped",
            Kind::CutLeader => "leader cut off",
            Kind::CutFollower => "follower cut off",
            Kind::MuteLeader => "nothing comes from the leader",
            Kind::DeafLeader => "nothing comes to the leader",
            Kind::CutPair => "leader and a follower cut off from each other",
            Kind::CutClients => "leader and clients cut off from each other",
            Kind::ResetLeader => "all connections of the leader reset",
        }
    }

    /// Whether it ends the leader's term, whatever the machine does.
    pub fn takes_the_leader(self) -> bool {
        matches!(
            self,
            Kind::KillLeader | Kind::EndLeader | Kind::StopLeader | Kind::KillLeaderOfTwo | Kind::CutLeader
        )
    }
}

/// What can be cut between processes.
pub enum Cables {
    /// Nothing.
    None,
    /// TCP connections through relays, each way by itself.
    Relays(Network),
    /// RDMA devices from all others.
    Bridge(Bridge),
}

/// Whom it strikes, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What.
    pub kind: Kind,
    /// Who leads.
    pub leader: NodeId,
    /// One who does not.
    pub follower: NodeId,
    /// How long it lasts; a death lasts until the process is started again.
    pub lasts: Duration,
}

impl Fault {
    /// Draws one of `kinds`.
    pub fn draw(
        kinds: &[Kind],
        (leader, followers): (NodeId, &[NodeId]),
        (lease, suspect): (Duration, Duration),
        chance: &mut Numbers,
    ) -> Fault {
        let kind = kinds[chance.below(kinds.len() as u64) as usize];
        let follower = followers[chance.below(followers.len() as u64) as usize];
        let mut between = |least: Duration, most: Duration| {
            let spare = most.saturating_sub(least).as_nanos() as u64;
            least + Duration::from_nanos(chance.below(spare + 1))
        };
        let long = 2 * (lease + suspect);
        let lasts = match kind {
            Kind::Nothing => long,
            Kind::KillLeader | Kind::KillFollower | Kind::EndLeader | Kind::ResetLeader => Duration::ZERO,
            Kind::BlinkLeader => between(suspect / 8, suspect / 2),
            _ => between(long, long + Duration::from_secs(1)),
        };
        Fault { kind, leader, follower, lasts }
    }

    /// Strikes. Gives those who lose their memory by it.
    pub fn strike(&self, replicas: &mut Replicas, cables: &Cables) -> Result<Vec<NodeId>, Failure> {
        let (leader, follower) = (self.leader, self.follower);
        match self.kind {
            Kind::Nothing => {}
            Kind::KillLeader => replicas.signal(leader, Signal::KILL),
            Kind::KillFollower => replicas.signal(follower, Signal::KILL),
            Kind::EndLeader => replicas.signal(leader, Signal::TERM),
            Kind::StopLeader | Kind::BlinkLeader => replicas.signal(leader, Signal::STOP),
            Kind::StopFollower => replicas.signal(follower, Signal::STOP),
            Kind::KillLeaderOfTwo => {
                replicas.signal(follower, Signal::STOP);
                replicas.signal(leader, Signal::KILL);
            }
            _ => match cables {
                Cables::None => unreachable!("there is no network that has such faults"),
                Cables::Relays(network) => self.cut(replicas, network),
                Cables::Bridge(bridge) if self.kind == Kind::CutLeader => bridge.cut(leader.0)?,
                Cables::Bridge(bridge) => bridge.cut(follower.0)?,
            },
        }
        Ok(match self.kind {
            Kind::KillLeader | Kind::EndLeader | Kind::KillLeaderOfTwo => vec![leader],
            Kind::KillFollower => vec![follower],
            _ => Vec::new(),
        })
    }

    fn cut(&self, replicas: &Replicas, network: &Network) {
        let all = 0..=replicas.cluster().nodes.len() as u8;
        let (leader, follower) = (self.leader.0, self.follower.0);
        let to = |whom: u8| all.clone().filter(move |other| *other != whom).map(move |other| (other, whom));
        let from = |whom: u8| to(whom).map(|(other, whom)| (whom, other));
        let both = |one: u8, other: u8| vec![(one, other), (other, one)];
        let ways: Vec<_> = match self.kind {
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

    /// It is over; processes that it ended are still to be started.
    pub fn heal(&self, replicas: &mut Replicas, cables: &Cables) -> Result<(), Failure> {
        match self.kind {
            Kind::StopLeader | Kind::BlinkLeader => replicas.signal(self.leader, Signal::CONT),
            Kind::StopFollower | Kind::KillLeaderOfTwo => replicas.signal(self.follower, Signal::CONT),
            _ => {}
        }
        match cables {
            Cables::None => Ok(()),
            Cables::Relays(network) => {
                network.mend();
                Ok(())
            }
            Cables::Bridge(bridge) => bridge.mend(),
        }
    }
}
