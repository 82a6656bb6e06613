//! `longarm cluster`: makes the file of a cluster, shows how its groups stand, has others lead them, and
//! gives them more replicas or less.

mod init;
mod members;
mod move_leader;
pub mod order;
pub mod status;

use std::path::PathBuf;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_server::{Member, Timing};

use crate::cluster::parse_member;
use crate::config::Config;
use crate::flags::duration;
use crate::output::{Exit, Failure, Output};

/// What it does.
pub const ABOUT: &str = "Make a cluster of replicated groups, show how one stands, or change it";

/// Its arguments.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub action: Action,
}

/// One variant an action.
#[derive(clap::Subcommand, Debug)]
pub enum Action {
    /// Write the file of a new cluster, and say how to start it
    Init(InitArgs),
    /// Show each replica of each group: which leads, which follow, which cannot be reached
    Status(StatusArgs),
    /// Have another replica lead: the leader hands over, without an election timeout
    MoveLeader(MoveLeaderArgs),
    /// Give a group one more replica, on a node that is started with --join
    AddNode(AddNodeArgs),
    /// Have a group do without one of its replicas
    RemoveNode(RemoveNodeArgs),
}

/// Arguments of `init`.
#[derive(clap::Args, Debug)]
#[command(after_help = "The file is written with mode 600, and never over another: its keys are secret.")]
pub struct InitArgs {
    /// The file to write; all nodes and all clients get a copy
    pub file: PathBuf,

    /// A node: its number, 0 to 127, and where the others and clients find it; repeatable
    #[arg(long = "node", value_name = "N=ADDRESS", required = true, value_parser = parse_member)]
    pub nodes: Vec<Member>,

    /// Groups, among which keys are divided by a hash; each has a leader of its own. Their number stays
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub groups: usize,

    /// Replicas of each group, spread over the nodes; by default 3, and of a single group one a node
    #[arg(long, value_name = "N")]
    pub replicas: Option<usize>,

    /// Its times
    #[command(flatten)]
    pub times: Times,
}

/// The times of a new cluster.
#[derive(clap::Args, Clone, PartialEq, Eq, Debug)]
pub struct Times {
    /// How long a replica lets no other lead, since it heard the leader: reads after a failure wait for it
    #[arg(long, value_name = "DURATION", default_value = Times::LEASE, value_parser = duration)]
    pub lease: Duration,

    /// Time between two heartbeats of the leader; the lease lasts two or more
    #[arg(long, value_name = "DURATION", default_value = Times::HEARTBEAT, value_parser = duration)]
    pub heartbeat: Duration,

    /// Without a heartbeat for so long, the leader is suspected; up to five times as late where a busy
    /// machine often keeps a core from it
    #[arg(long, value_name = "DURATION", default_value = Times::SUSPECT, value_parser = duration)]
    pub suspect: Duration,

    /// A candidate that does not lead by then starts over; lease and suspicion together, or more
    #[arg(long, value_name = "DURATION", default_value = Times::ELECTION, value_parser = duration)]
    pub election: Duration,
}

impl Times {
    const LEASE: &str = "40ms";
    const HEARTBEAT: &str = "4ms";
    const SUSPECT: &str = "30ms";
    const ELECTION: &str = "1s";

    /// Those of a group whose file says nothing else.
    pub fn usual() -> Times {
        let time = |text| duration(text).expect("a duration");
        Times {
            lease: time(Times::LEASE),
            heartbeat: time(Times::HEARTBEAT),
            suspect: time(Times::SUSPECT),
            election: time(Times::ELECTION),
        }
    }

    /// As the group has them.
    pub fn timing(&self) -> Timing {
        // Longer than 584 years is as good as 584 years.
        let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Timing {
            heartbeat: nanos(self.heartbeat),
            suspect: nanos(self.suspect),
            promise: nanos(self.lease),
            election: nanos(self.election),
        }
    }
}

/// Arguments of `status`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Ends with 3 if a group has no leader.")]
pub struct StatusArgs {
    /// The file of the cluster
    pub file: PathBuf,
}

/// Arguments of `move-leader`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The other must be in sync. Reads and writes go on while clients' leases run out; then \
                  writes wait until the other leads. Ends with 4 if the leader stays, with 5 if \
                  it is not known who leads."
)]
pub struct MoveLeaderArgs {
    /// The file of the cluster
    pub file: PathBuf,

    /// The number of the node that is to lead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=127))]
    pub to: u8,

    /// Which group, counted from 1; only where there are several
    #[arg(long, value_name = "G")]
    pub group: Option<usize>,
}

/// Arguments of `add-node`.
#[derive(clap::Args, Debug)]
#[command(after_help = "The node is written into the file, and is to be started with it: `longarm server \
                  --cluster FILE --node N --join`. The leader brings it in line while all goes on, and a \
                  new term begins with it. Ends with 4 if the replicas stay as they are, with 5 if that is \
                  not known.")]
pub struct AddNodeArgs {
    /// The file of the cluster
    pub file: PathBuf,

    /// The node: its number, 0 to 127, and where the others and clients find it
    #[arg(value_name = "N=ADDRESS", value_parser = parse_member)]
    pub node: Member,

    /// Which group, counted from 1; only where there are several
    #[arg(long, value_name = "G")]
    pub group: Option<usize>,

    /// How long to wait for the node to be started and to be in sync
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub wait: Duration,
}

/// Arguments of `remove-node`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A majority of the others must be in sync. If it leads, another will. Then its server can \
                  be stopped. Ends with 4 if the replicas stay as they are, with 5 if that is not known."
)]
pub struct RemoveNodeArgs {
    /// The file of the cluster
    pub file: PathBuf,

    /// The number of the node
    #[arg(value_name = "N", value_parser = clap::value_parser!(u8).range(0..=127))]
    pub node: u8,

    /// Which group, counted from 1; only where there are several
    #[arg(long, value_name = "G")]
    pub group: Option<usize>,
}

/// Does what was asked for.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    match args.action {
        Action::Init(args) => init::run(args, output),
        Action::Status(args) => status::run(&args, config, output),
        Action::MoveLeader(args) => move_leader::run(&args, config, output),
        Action::AddNode(args) => members::add(&args, config, output),
        Action::RemoveNode(args) => members::remove(&args, config, output),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    #[test]
    fn the_usual_times_are_those_of_no_flags() {
        let matches = Times::augment_args(clap::Command::new("times")).get_matches_from(["times"]);
        let times = Times::from_arg_matches(&matches).expect("no flag is wanted");
        assert_eq!(times, Times::usual());
        times.timing().check().expect("they go together");
    }
}
