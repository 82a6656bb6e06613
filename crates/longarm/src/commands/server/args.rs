//! The arguments of `longarm server`.

use crate::config::flags::ServerSettings;

/// The arguments of `longarm server`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "SIGTERM and SIGINT: where it leads a group and another replica is in sync, it hands \
                  over, for which it takes at most an election's time; it answers accepted writes, tells \
                  its clients, removes its sockets, and ends with 0. A second signal ends it at once, with \
                  130."
)]
pub struct Args {
    /// Everything about it is a setting.
    #[command(flatten)]
    pub settings: ServerSettings,

    /// Items to have room for before the index first grows
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub expected_items: u64,

    /// Of a cluster (--cluster): which of its nodes this is. It listens where the cluster's file says, and
    /// has the replicas that are its own there; they share its memory and workers
    #[arg(long, value_name = "N")]
    pub node: Option<u32>,

    /// Of a cluster: this node is not a replica yet, and waits for `longarm cluster add-node`; when it starts
    /// anew it knows by itself
    #[arg(long)]
    pub join: bool,

    /// With --data: start although acknowledged entries are damaged, without them
    #[arg(long, requires = "data")]
    pub accept_damage: bool,

    /// Stop when stdin ends: for a process that starts a server of its own and must not leave it behind
    #[arg(long)]
    pub stop_with_stdin: bool,
}
