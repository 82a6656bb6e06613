//! The server: it owns the memory that clients read, and executes their writes.
//!
//! - [`Server`] starts everything and stops it ([`start`](Server::start), [`stop`](Server::stop)).
//! - `accept` lets clients in, a `worker` serves many `connection`s and has the engine execute.
//! - `heartbeat` vouches for the memory, `housekeeper` grows, collects, expires and evicts in the background.
//! - `group` makes replicas of a group of it.
//!
//! Absent: no thread here takes part in a one-sided GET. What a request comes to is the engine's
//! (`longarm-engine`), which is told the time and knows no connection.
#![forbid(unsafe_code)]

mod accept;
mod clock;
mod connection;
mod execute;
mod gentle;
mod group;
mod hall;
mod heartbeat;
mod housekeeper;
mod inbox;
mod options;
mod pulse;
mod regions;
mod replicate;
mod saved;
mod seldom;
mod shared;
mod staff;
mod start;
mod stats;
mod stop;
mod worker;

#[cfg(test)]
mod tests;

pub use group::{
    Changed, Contents, FileVault, GroupOptions, Held, Moved, Operator, OrderError, Promise, Vault, Versions,
};
pub use longarm_engine::Eviction;
pub use longarm_engine::recover::RESTORE_ENTRY;
pub use longarm_fabric::Member;
pub use longarm_replica::Timing;
pub use longarm_wire::{Deny, Members, Stay};
pub use options::{Log, Pages, ServerOptions, StartError};
pub use saved::Saved;
pub use start::Server;
pub use stats::{ClientStats, FollowerStats, GroupStats, Stats, StoreStats, TakeoverStats};
pub use stop::StopReport;
