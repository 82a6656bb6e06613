//! The server: it owns the memory that clients read, and executes their writes.
//!
//! - [`Server`] starts everything and stops it ([`start`](Server::start), [`stop`](Server::stop)).
//! - `accept` lets clients in, a `worker` serves many `connection`s, the `engine` executes: one file an
//!   operation (`put`, `delete`, `increment`, `touch`, `get`).
//! - `heartbeat` vouches for the memory, `housekeeper` grows, collects, expires and evicts in the background.
//!
//! Absent: no thread here takes part in a one-sided GET. Protocol and index are other crates' (`wire`,
//! `index`, `store`); the engine draws csns and keeps the order of stores that they ask for, and reads no
//! clock.
#![forbid(unsafe_code)]

mod accept;
mod account;
mod ahead;
mod clock;
mod collect;
mod connection;
mod engine;
mod entries;
mod evict;
mod execute;
mod expire;
mod findings;
mod gentle;
mod get;
mod group;
mod hall;
mod heartbeat;
mod housekeeper;
mod inbox;
mod newest;
mod options;
mod pulse;
mod records;
mod regions;
mod replicate;
mod restore;
mod saved;
mod seldom;
mod session;
mod shared;
mod soon;
mod staff;
mod start;
mod stats;
mod stop;
mod stream;
mod stripes;
mod worker;
mod write;

#[cfg(test)]
mod tests;

pub use group::{
    Changed, Contents, FileVault, GroupOptions, Held, Moved, Operator, OrderError, Promise, Vault, Versions,
};
pub use longarm_fabric::Member;
pub use longarm_replica::Timing;
pub use longarm_wire::{Deny, Members, Stay};
pub use options::{Eviction, Log, Pages, ServerOptions, StartError};
pub use restore::ENTRY as RESTORE_ENTRY;
pub use saved::Saved;
pub use start::Server;
pub use stats::{ClientStats, FollowerStats, GroupStats, Stats, StoreStats, TakeoverStats};
pub use stop::StopReport;
