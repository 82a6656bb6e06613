//! Tells the world what replicas and clients did in it.
//!
//! The simulator's judges replay it against the rules (docs/protocol.md, "Invariants"). Without the feature
//! `observe`, which only the simulator asks for, nobody is told anything and the compiler knows it: no event
//! is built. An event never decides anything: whoever tells it goes on as if it had not.

pub use crate::event::{Observation, ReplicaStep};
#[cfg(feature = "observe")]
use crate::world;

/// This machine has come to a step.
#[inline(always)]
pub fn reach(step: ReplicaStep) {
    observe(|| Observation::Reached { step });
}

/// Whether anybody can be told anything.
pub const WATCHED: bool = cfg!(feature = "observe");

/// Tells the world that this thread is in, if any.
#[cfg(feature = "observe")]
pub fn observe(event: impl FnOnce() -> Observation) {
    if let Some(world) = world::entered() {
        world.observe(event());
    }
}

/// Tells nobody.
#[cfg(not(feature = "observe"))]
#[inline(always)]
pub fn observe(_event: impl FnOnce() -> Observation) {}
