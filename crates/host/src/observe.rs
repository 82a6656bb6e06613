//! Tells the world the steps of replicas and clients in it.
//!
//! The simulator's judges replay the steps against the rules (docs/protocol.md, "Invariants"). Without the
//! feature `observe`, which only the simulator asks for, there is no listener and the compiler knows it: no
//! event is built. An event never decides anything: the code that tells it continues as if it had not.

pub use crate::event::{Observation, ReplicaStep};
#[cfg(feature = "observe")]
use crate::world;

/// Tells the world that this machine has come to a step.
#[inline(always)]
pub fn reach(step: ReplicaStep) {
    observe(|| Observation::Reached { step });
}

/// Whether there can be a listener.
pub const WATCHED: bool = cfg!(feature = "observe");

/// Tells the world that this thread has entered, if any.
#[cfg(feature = "observe")]
pub fn observe(event: impl FnOnce() -> Observation) {
    if let Some(world) = world::entered() {
        world.observe(event());
    }
}

/// Does nothing, without the feature.
#[cfg(not(feature = "observe"))]
#[inline(always)]
pub fn observe(_event: impl FnOnce() -> Observation) {}
