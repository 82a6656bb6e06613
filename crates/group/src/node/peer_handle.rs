//! The other replicas, as a replica's own thread has them.

use std::sync::Arc;

use longarm_base::Term;
use longarm_fabric::Member;
use longarm_host::Thread;
use longarm_wire::{MemberAt, Members};

use crate::options::GroupOptions;
use crate::peer_commands::PeerCommands;

/// Another replica, and the thread that speaks with it.
pub(super) struct PeerHandle<Q> {
    pub commands: Arc<PeerCommands<Q>>,
    pub address: String,
    pub thread: Thread,
}

/// The members that the group begins with, as its options name them. A replica that is to be added begins
/// without members.
pub(super) fn founders(options: &GroupOptions) -> Members {
    let member = |member: &Member| MemberAt { replica: member.replica, address: member.address.to_string() };
    let list = if options.joins { Vec::new() } else { options.members.iter().map(member).collect() };
    Members { term: Term::ZERO, changed: false, list }
}
