//! A replica of a group (LoLKV; M1 to M14 in `docs/mechanisms.md`), and the core that it serves from when it
//! leads.
//!
//! - [`node`] is the replica's own thread: it drives the state machine of `longarm-replica` and does
//!   what that says. While it leads, a [`Service`] that the server hands in serves clients.
//! - [`inbound`]: connections that others made, and the fence. [`peer_channel`], [`peer`]:
//!   connections made to others; one thread a peer, which on a leader also syncs it ([`catch_up`]).
//! - [`scan`] is what a replica finds of its streams; [`install`] makes a [`leader_term`] of a start set;
//!   [`heart`] keeps it alive; [`takeover`] says what it took.
//! - [`vote_store`] keeps promises.
//! - [`replica`] is all of it together, of one group; a node has one in each of its groups. [`standing`] is
//!   what it says of itself.
//! - [`operate`] is the other side of orders that a node is given: who wants another to lead.
//! - [`replicate`] sends the entries of a stream; each worker of the service has one of its own.
//! - [`common`] is an engine and what its threads share, also those of a server that nobody replicates.
#![forbid(unsafe_code)]

mod attend;
mod catch_up;
mod checked_arena;
mod clock;
mod common;
mod events;
mod follower;
mod heart;
mod held;
mod inbound;
mod inbox;
mod install;
mod leader_term;
mod leaving;
mod liveness;
mod log;
mod node;
mod operate;
mod options;
mod peer;
mod peer_channel;
mod peer_commands;
mod pulse;
mod replica;
mod replicate;
mod scan;
mod seed;
mod seldom;
mod service;
mod standing;
mod stats;
mod takeover;
mod threads;
mod vote_store;

pub use clock::process_cpu;
pub use common::{Core, CoreOptions, Keys, Lent, Phase, TermStart};
pub use follower::SharedReleases;
pub use held::{Contents, Held, Versions};
pub use inbound::{CONNECTIONS_MAX, Inbound};
pub use inbox::Inbox;
pub use leader_term::Waker;
pub use liveness::Liveness;
pub use log::{Log, LogLine, Notice};
pub use operate::{Changed, Moved, Operator, OrderError};
pub use options::{GroupOptions, StartError};
pub use pulse::Pulse;
pub use replica::{Prepared, Replica};
pub use replicate::{Pumped, Replicator};
pub use seed::Seed;
pub use seldom::Seldom;
pub use service::{NewTerm, Replication, Service};
pub use standing::Standing;
pub use stats::{FollowerStats, GroupStats, Stands, TakeoverStats};
pub use threads::{join, spawn};
pub use vote_store::{FileVoteStore, Promise, VoteStore};

use longarm_fabric::{Incoming, Reason};
use longarm_wire::Refusal;

/// Sends one that asked to be let in away.
pub fn reject<I: Incoming>(incoming: I, refusal: &Refusal) {
    incoming.reject(Reason { text: refusal.text.clone(), bytes: refusal.encode() });
}

/// Whose lack is a broken invariant.
const OWN_HEADER: &str = "the header of our own arena";
/// Bytes of the rings of a channel between replicas.
const RING_BYTES: u64 = 64 << 10;
/// Longest message between replicas.
const MESSAGE_MAX: usize = 8 << 20;
