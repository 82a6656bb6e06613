//! `longarm cluster`: makes the file of a cluster, shows how its groups stand, has others lead them, and
//! gives them more replicas or fewer.

mod init;
mod members;
mod move_leader;
mod recover;
mod status;

use crate::config::Config;
use crate::output::{Exit, Failure, Output};
use init::InitArgs;
use members::{AddNodeArgs, RemoveNodeArgs};
use move_leader::MoveLeaderArgs;
use recover::RecoverArgs;
use status::StatusArgs;

/// The line about the command in help texts.
pub const ABOUT: &str = "Make a cluster of replicated groups, show how one stands, or change it";

/// The arguments of `longarm cluster`.
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
    /// Have a group go on with what is on disk, without nodes that will never come back
    Recover(RecoverArgs),
}

/// Runs the action that the user named.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    match args.action {
        Action::Init(args) => init::run(args, output),
        Action::Status(args) => status::run(&args, config, output),
        Action::MoveLeader(args) => move_leader::run(&args, config, output),
        Action::AddNode(args) => members::add(&args, config, output),
        Action::RemoveNode(args) => members::remove(&args, config, output),
        Action::Recover(args) => recover::run(&args, config, output),
    }
}
