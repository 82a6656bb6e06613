//! Replication without a log (LoLKV), as state machines that do no I/O and take time as an argument.
//!
//! - [`Machine`]: who leads. Promise, gather, start set, sync term (M1 to M3); it decides, and a
//!   driver does what it says.
//! - [`LeaderWatch`] and [`LeaderLease`]: what a follower promised by seeing a heartbeat, and what the leader
//!   may conclude from it (M6).
//! - [`Gate`]: which entries of a stream are committed (M4).
//! - [`page`]: the bytes by which a leader tells passive followers that it lives.
//!
//! The specification is `docs/spec/ViewChange.tla`; names are the same. Absent: entries, segments, queue
//! pairs, clocks, disks.
#![forbid(unsafe_code)]

mod gate;
mod gather;
mod group;
mod lease;
mod machine;
pub mod page;
mod timing;
mod watch;

pub use gate::Gate;
pub use gather::{StartSet, StreamCut};
pub use group::{Group, GroupError, Nodes};
pub use lease::LeaderLease;
pub use machine::{
    Action, ChangeRequest, ChangeStage, Event, KeptMemory, LeadershipTransfer, Machine, MembershipChange,
    PersistentState, Prepare, Role, RoleKind,
};
pub use timing::Timing;
pub use watch::LeaderWatch;
