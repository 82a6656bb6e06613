//! The kinds of faults, and which of them a run can have.

use longarm::cluster::REPLICAS_MAX;

/// A kind of fault: `what` says what each does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Kind {
    Nothing,
    KillLeader,
    KillFollower,
    EndLeader,
    StopLeader,
    BlinkLeader,
    StopFollower,
    KillLeaderOfTwo,
    StutterLeader,
    StutterFollower,
    KillRejoining,
    SlowRestart,
    MoveStorm,
    KillTwo,
    StopTwo,
    StopAll,
    KillAll,
    KillLeaderInRejoin,
    AddNode,
    RemoveNode,
    ReplaceNode,
    KillLeaderInAdd,
    KillAdded,
    CutLeader,
    CutFollower,
    MuteLeader,
    DeafLeader,
    CutPair,
    CutClients,
    ResetLeader,
}

/// The network between processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ways {
    /// A direct way, which cannot be cut.
    Direct,
    /// Relays, which nodes that are added later do not have.
    Relays,
    /// RDMA devices on a bridge, one for each node of the beginning.
    Bridge,
}

/// The shape of a run, which decides which faults there can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Replicas of a group.
    pub replicas: u8,
    /// Groups.
    pub groups: u8,
    /// The network between processes.
    pub ways: Ways,
    /// Whether what is acknowledged is on disks of replicas, or will be soon.
    pub keeps: bool,
}

impl Kind {
    /// A description in words.
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
            Kind::StutterLeader => "leader stopped again and again",
            Kind::StutterFollower => "follower stopped again and again",
            Kind::KillRejoining => "follower killed again as it rejoins",
            Kind::SlowRestart => "followers killed, and away for seconds",
            Kind::MoveStorm => "leader moved many times in a row",
            Kind::KillTwo => "two of five killed",
            Kind::StopTwo => "two of five stopped",
            Kind::StopAll => "all stopped at once (the machine sleeps)",
            Kind::KillAll => "all killed at once (the data is on disks)",
            Kind::KillLeaderInRejoin => "leader killed while a follower rejoins",
            Kind::AddNode => "node added, and removed again",
            Kind::RemoveNode => "node removed, and another added",
            Kind::ReplaceNode => "node added in place of another",
            Kind::KillLeaderInAdd => "leader killed while a node is added",
            Kind::KillAdded => "node killed while it is added",
            Kind::CutLeader => "leader cut off",
            Kind::CutFollower => "follower cut off",
            Kind::MuteLeader => "nothing comes from the leader",
            Kind::DeafLeader => "nothing comes to the leader",
            Kind::CutPair => "leader and a follower cut off from each other",
            Kind::CutClients => "leader and clients cut off from each other",
            Kind::ResetLeader => "all connections of the leader reset",
        }
    }

    /// Whether the fault cuts a way.
    pub fn cuts(self) -> bool {
        matches!(
            self,
            Kind::CutLeader
                | Kind::CutFollower
                | Kind::MuteLeader
                | Kind::DeafLeader
                | Kind::CutPair
                | Kind::CutClients
                | Kind::ResetLeader
        )
    }

    /// Whether the fault changes which replicas there are.
    pub fn changes_members(self) -> bool {
        matches!(
            self,
            Kind::AddNode | Kind::RemoveNode | Kind::ReplaceNode | Kind::KillLeaderInAdd | Kind::KillAdded
        )
    }

    /// Whether two replicas lose their memory, or are away, at one time.
    fn wants_five(self) -> bool {
        matches!(self, Kind::KillTwo | Kind::StopTwo | Kind::KillLeaderInRejoin)
    }

    /// Why a run of this shape cannot have the fault, and what to do about that.
    pub fn why_not(self, shape: Shape) -> Option<(&'static str, &'static str)> {
        let on_a_bridge = matches!(self, Kind::CutLeader | Kind::CutFollower);
        match shape.ways {
            Ways::Direct if self.cuts() => {
                Some(("there is no network to cut like this", "add --transport tcp"))
            }
            Ways::Bridge if self.cuts() && !on_a_bridge => {
                Some(("there is no network to cut like this", "add --transport tcp"))
            }
            Ways::Bridge if self.changes_members() => {
                Some(("a node that is added has no device", "use --transport tcp"))
            }
            Ways::Relays if self.changes_members() => {
                Some(("ways to nodes that are added lead past the relays", "add --no-cuts"))
            }
            _ if self.changes_members() && shape.groups > 1 => {
                Some(("nodes are added to a single group only", "leave --groups out"))
            }
            _ if self.changes_members() && usize::from(shape.replicas) == REPLICAS_MAX => {
                Some(("a group has no more replicas than that", "name fewer with --nodes"))
            }
            _ if self == Kind::KillAll && !shape.keeps => Some((
                "what is acknowledged and not on disks does not outlive it",
                "use --durability async or sync",
            )),
            _ if self.wants_five() && shape.replicas < 5 => {
                Some(("fewer than five replicas cannot bear it", "add --nodes 5"))
            }
            _ => None,
        }
    }

    /// All kinds that a run of this shape can have. The kind that is met most often is there twice.
    pub fn all(shape: Shape) -> Vec<Kind> {
        let all = <Kind as clap::ValueEnum>::value_variants();
        let fit = all.iter().copied().filter(|kind| kind.why_not(shape).is_none());
        fit.chain([Kind::KillLeader]).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    const THREE: Shape = Shape { replicas: 3, groups: 1, ways: Ways::Direct, keeps: false };

    #[test]
    fn kinds_have_names_and_say_what_they_do() {
        let names =
            ["kill-two", "stop-two", "stop-all", "add-node", "remove-node", "replace-node", "move-storm"];
        let more = ["kill-leader-in-rejoin", "kill-leader-in-add", "kill-rejoining", "stutter-leader"];
        for name in names.iter().chain(&more) {
            let kind = Kind::from_str(name, false).expect(name);
            let twin = Kind::value_variants().iter().find(|one| **one != kind && one.what() == kind.what());
            assert_eq!(twin, None, "{name}");
            assert!(kind.what().len() <= 46, "{name}: it fits the table of the report");
        }
    }

    #[test]
    fn a_run_has_the_kinds_that_it_can_bear() {
        let of = |shape: Shape| Kind::all(shape);
        let five = Shape { replicas: 5, ..THREE };
        for kind in [Kind::KillTwo, Kind::StopTwo, Kind::KillLeaderInRejoin] {
            assert!(!of(THREE).contains(&kind) && of(five).contains(&kind), "{kind:?}");
        }
        let kept = Shape { keeps: true, ..THREE };
        assert!(!of(five).contains(&Kind::KillAll) && of(kept).contains(&Kind::KillAll));
        let kinds =
            [Kind::AddNode, Kind::RemoveNode, Kind::ReplaceNode, Kind::KillLeaderInAdd, Kind::KillAdded];
        for kind in kinds {
            assert!(of(THREE).contains(&kind) && of(five).contains(&kind), "{kind:?}");
            for shape in [Shape { groups: 2, ..five }, Shape { ways: Ways::Relays, ..five }] {
                assert!(!of(shape).contains(&kind), "{kind:?} in {shape:?}");
            }
        }
        assert!(of(THREE).iter().all(|kind| !kind.cuts()));
        assert!(of(Shape { ways: Ways::Relays, ..THREE }).contains(&Kind::MuteLeader));
        let bridge = of(Shape { ways: Ways::Bridge, ..THREE });
        assert!(bridge.contains(&Kind::CutLeader) && !bridge.contains(&Kind::CutPair));
        let (why, hint) = Kind::CutLeader.why_not(THREE).expect("nothing to cut");
        assert!(why.contains("no network to cut") && hint.contains("--transport tcp"));
    }
}
