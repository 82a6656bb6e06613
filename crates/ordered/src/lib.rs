//! The ordered index of a replica, and the answers to scans: a group has a hash table and an ordered index of
//! the same keys (HiStore 3.2.1), and the backups keep the ordered one (HiStore 3.3).
//!
//! A thread of its own, the [`Orderer`], owns the tree of a replica. It READs how far the leader's streams
//! are ([`longarm_store::progress`]), takes the entries from the replica's own arena, where the leader WRITEs
//! them anyway, and answers pages by the window rule (decision 30). No thread of the leader takes part.
//!
//! - `order`: what the replica tells the orderer: whom to follow, and when to stop.
//! - `leader`: the way to the leader's words. `feed`: which entries come next, as a value.
//! - `arena`: entries in the replica's own arena. `rank`: their order. `build`: a tree of all of them.
//! - `following`: one term: building, following, the tree's state. `page`: a page. `conflicts`: what may have
//!   changed before it is shown.
//! - `snapshot`: moments of the tree that are kept for pages to come.
//! - `stand_in`: when a leader that has followers keeps a tree.
//! - `door`: the connections of clients that scan. `orderer`: the thread.
#![forbid(unsafe_code)]

mod arena;
mod build;
mod conflicts;
mod door;
mod following;
mod leader;
mod order;
mod orderer;
mod page;
mod rank;
mod snapshot;
mod source;
mod stand_in;
#[cfg(test)]
mod tests;

pub use door::{Door, ScanConnection};
pub use leader::{Connector, LANDING};
pub use longarm_wire::{OrderedStage, OrderedStats};
pub use order::{Kept, Order, Orders, StableOf};
pub use orderer::{Orderer, OrdererOptions};
