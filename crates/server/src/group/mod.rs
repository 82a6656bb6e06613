//! A node as a replica of a group (LoLKV; M1 to M14 in `docs/mechanisms.md`).
//!
//! - [`node`] is the replica's own thread: it drives the state machine of `longarm-replica` and does
//!   what that says.
//! - [`inbound`]: connections that others made, and the fence. [`talk`], [`peer`]:
//!   connections made to others; one thread a peer, which on a leader also syncs it ([`push`]).
//! - [`look`] is what a replica finds of its streams; [`install`] makes a [`reign`] of a start set; [`heart`]
//!   keeps it alive; [`takeover`] says what it took.
//! - [`vault`] keeps promises.
//! - [`replica`] is all of it together, of one group; a node has one in each of its groups. [`standing`] is
//!   what it says of itself.
//! - [`operate`] is the other side of orders that a node is given: who wants another to lead.
//!
//! Entries do not come by here: each worker sends its own (`replicate.rs`).

mod heart;
mod held;
mod inbound;
mod install;
mod look;
mod node;
mod operate;
mod options;
mod peer;
mod push;
mod reign;
mod replica;
mod standing;
mod takeover;
mod talk;
mod vault;

pub(crate) use inbound::{CONNECTIONS_MAX, Inbound};
pub(crate) use reign::Releases;
pub(crate) use replica::{Prepared, Replica};
pub(crate) use standing::Standing;

pub use held::{Contents, Held, Versions};
pub use operate::{Changed, Moved, Operator, OrderError};
pub use options::GroupOptions;
pub use vault::{FileVault, Promise, Vault};

/// Whose lack is a broken invariant.
const OWN_HEADER: &str = "the header of our own arena";
/// Bytes of the rings of a talk.
const RING_BYTES: u64 = 64 << 10;
/// Longest message of a talk.
const MESSAGE_MAX: usize = 8 << 20;
