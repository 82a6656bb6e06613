//! The server: it owns the memory that clients read, and executes their writes.
//!
//! - [`Server`] starts everything and stops it ([`start`](Server::start), [`stop`](Server::stop)).
//! - `accept` admits clients, `router` finds their group's `endpoint`, a `worker` serves many `connection`s
//!   and has the engine execute.
//! - `heartbeat` vouches for the memory, `maintenance` grows, collects, expires and evicts in the background.
//! - `replicas` makes it a host of replicas (`longarm-group`), which serve clients in the terms that they
//!   lead.
//!
//! No thread of this crate takes part in a one-sided GET. The engine (`longarm-engine`) decides the outcome
//! of a request; it is told the time and knows no connection.
#![forbid(unsafe_code)]

mod accept;
mod backup;
mod connection;
mod connections;
mod endpoint;
mod execute;
mod heartbeat;
mod lookahead;
mod maintenance;
mod move_rate;
mod options;
mod ordered;
mod regions;
mod replicas;
mod router;
mod shared;
mod start;
mod stats;
mod steer;
mod stop;
mod sweep;
mod term;
mod threads;
mod worker;
mod worker_inbox;

#[cfg(test)]
mod tests;

pub use longarm_disk::{DiskError, MediumKind};
pub use longarm_engine::Eviction;
pub use longarm_engine::recover::RESTORE_ENTRY;
pub use longarm_fabric::Member;
pub use longarm_group::{
    Changed, Contents, DataOptions, DirectoryReport, DiskSource, DiskStats, Durability, Durable, EntryAt,
    FileVoteStore, FollowerStats, GroupOptions, GroupStats, Held, KeepUp, Keys, Log, LogLine, Look,
    LookError, Moved, Notice, Operator, OrderError, PersistentData, Promise, ReplicaDirectory, ReplicaDisk,
    Scrubbing, ServedReport, StartError, TakeoverStats, Vault, Versions, VoteStore, look, look_served,
};
pub use longarm_replica::Timing;
pub use longarm_wire::{Deny, Members, Stay};
pub use options::{Pages, ServerOptions};
pub use start::Server;
pub use stats::{ClientStats, OrderedIndexStats, Stats, StoreStats};
pub use stop::StopReport;
