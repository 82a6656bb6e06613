//! A replica of a group (LoLKV; M1 to M14 in `docs/mechanisms.md`), and the core from which a replica serves
//! while it leads.
//!
//! - [`node`] is the replica's own thread: it drives the state machine of `longarm-replica`, and does what
//!   the machine says. While the replica leads, a [`Service`] that the server hands in serves clients.
//! - [`inbound`]: the connections that other replicas made to this one, and the fence. [`peer_channel`],
//!   [`peer`]: the connections that this replica makes to others. Each peer has a thread, which on a leader
//!   also catches that peer up ([`catch_up`]).
//! - [`scan`] is what a replica finds of its streams; [`install`] completes a start set, from which a
//!   [`leader_term`] begins; [`heart`] keeps the term alive; [`takeover`] says how long each step took.
//! - [`vote_store`] keeps promises. [`durable`] is the disk of a replica's arena.
//! - [`replica`] is all of this together, for one group; a node of the cluster has one in each of its
//!   groups. [`standing`] is what a replica says of itself.
//! - [`operate`] is the operator's side of the orders that a leader takes: who is to lead, and who the
//!   replicas are.
//! - [`replicate`] sends the entries of a stream to the followers; each worker of the service has one.
//! - [`common`] is an engine and what its threads share, also in a server without replicas. [`alone`] is
//!   a group that a server alone makes of itself.
#![forbid(unsafe_code)]

mod alone;
mod attend;
mod catch_up;
mod checked_arena;
mod clock;
mod common;
mod durable;
mod events;
mod follower;
mod follower_disk;
mod heart;
mod held;
mod inbound;
mod inbox;
mod install;
mod keys;
mod leader_term;
mod leaving;
mod liveness;
mod log;
mod merge;
mod node;
mod operate;
mod options;
mod order_book;
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
mod vault;
mod vote_store;

pub use alone::DataOptions;
pub use clock::process_cpu;
pub use common::{Core, CoreOptions, KeepUp, Lent, Phase, TermStart};
pub use durable::gate::DiskGate;
pub use durable::look::{DirectoryReport, EntryAt, Look, LookError, look};
pub use durable::look_served::{ServedReport, look_served};
pub use durable::new_directory::NewDirectory;
pub use durable::options::{DiskSource, Durability, Durable, ReplicaDisk};
pub use durable::replica_directory::ReplicaDirectory;
pub use durable::scrub::Scrubbing;
pub use durable::served::PersistentData;
pub use follower::SharedReleases;
pub use held::{Contents, Held, Versions};
pub use inbound::{CONNECTIONS_MAX, Inbound};
pub use inbox::Inbox;
pub use keys::Keys;
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
pub use stats::{DiskStats, FollowerStats, GroupStats, Stands, TakeoverStats};
pub use threads::{join, spawn};
pub use vault::Vault;
pub use vote_store::{FileVoteStore, Promise, VoteStore};

use longarm_fabric::{Incoming, Reason};
use longarm_wire::Refusal;

/// Refuses a connection, and tells its other end why.
pub fn reject<I: Incoming>(incoming: I, refusal: &Refusal) {
    incoming.reject(Reason { text: refusal.text.clone(), bytes: refusal.encode() });
}

/// The header of the replica's own arena, in the message of a panic: its lack is a broken invariant.
const OWN_HEADER: &str = "the header of our own arena";
/// The number of bytes of each ring of a channel between replicas.
const RING_BYTES: u64 = 64 << 10;
/// The length of the longest message between replicas.
const MESSAGE_MAX: usize = 8 << 20;
