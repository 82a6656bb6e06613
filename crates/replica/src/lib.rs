//! Replication without a log (LoLKV), as state machines that do no I/O and take time as an argument.
//!
//! - [`Machine`]: who leads. Promise, gather, start set, sync term (M1 to M3); the machine decides, and a
//!   driver does what it says.
//! - [`LeaderWatch`] and [`LeaderLease`]: what a follower promised by seeing a heartbeat, and what the leader
//!   may conclude from it (M6).
//! - [`LeaderState`]: where a leader is in its term, to its end.
//! - [`Gate`]: which entries of a stream are committed (M4). [`Sender`]: what of a stream is sent next to one
//!   follower; a [`Run`] of neighbours in one WRITE.
//! - [`CatchUp`]: how a follower catches up, step by step.
//! - [`FollowerProgress`]: how far a follower is, and what that allows. [`Releases`]: which segments
//!   followers are asked to let go of (M9).
//! - [`page`]: the bytes by which a leader tells passive followers that it lives.
//!
//! The specification is `docs/spec/ViewChange.tla`; names are the same. The crate knows no entries, segments,
//! queue pairs, clocks or disks.
#![forbid(unsafe_code)]

mod catch_up;
#[cfg(test)]
mod followers_twin;
mod gate;
mod gather;
mod group;
mod leader_state;
mod lease;
mod machine;
pub mod page;
mod progress;
mod recall;
mod releases;
mod run;
mod sender;
mod timing;
mod watch;

pub use catch_up::{CatchUp, CatchUpStep};
pub use gate::Gate;
pub use gather::{FromDisk, StartSet, StreamCut};
pub use group::{Group, GroupError, ReplicaSet};
pub use leader_state::{LeaderState, Turns};
pub use lease::LeaderLease;
pub use machine::{
    Action, ChangeRequest, ChangeStage, Event, KeptMemory, LeadershipTransfer, Machine, MembershipChange,
    PersistentState, Prepare, Role, RoleKind,
};
pub use progress::{FollowerProgress, StreamProgress};
pub use recall::Basis;
pub use releases::{LetGo, Party, Releases, raise};
pub use run::Run;
pub use sender::{Send, Sender};
pub use timing::Timing;
pub use watch::LeaderWatch;
