//! The engine executes writes, reads and collection over index and store: for a server of its own, or for a
//! group's leader in its term.
//!
//! - `engine` holds index, store and version counter together, and what all operations on them share. A
//!   [`WorkerContext`] is a thread's own part: its writer, buffers and stream.
//! - `write` judges every write in one way; [`Commit`] says when it takes effect. `get` reads for clients
//!   whose one-sided READs cannot settle a GET. `session` has each operation run once.
//! - `reclaim` gives memory back. `recover` makes an engine of an arena that another leader filled.
//! - `persistent` goes on from memory that outlived its process, by way of the root in it.
//! - `stream`, `stripes`: the entries that a group's leader has written and not applied yet.
//!
//! The engine has no thread, no clock and no fabric. Time is an argument, and the caller that replicates an
//! entry says when it is committed ([`Stream::committed`]).
#![forbid(unsafe_code)]

mod commit;
mod counts;
mod engine;
mod entries;
mod get;
mod index;
mod newest;
mod options;
mod outcome;
pub mod persistent;
pub mod reclaim;
pub mod recover;
pub mod session;
mod shortage;
pub mod stream;
mod stripes;
mod timestamps;
mod worker_context;
mod write;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use commit::{Commit, Replicated};
pub use counts::EngineCounts;
pub use engine::{Current, Engine};
pub use entries::Arena;
pub use options::{CreateEngineError, EngineOptions, Eviction};
pub use outcome::{Outcome, Short};
pub use persistent::{PersistentMemory, ReopenEngineError};
pub use shortage::Shortage;
pub use stream::Stream;
pub use timestamps::Timestamps;
pub use worker_context::WorkerContext;
