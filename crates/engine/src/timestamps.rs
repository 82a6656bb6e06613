//! The time on both clocks, as whoever calls the engine tells it: the engine reads no clock.

use longarm_base::{Nanos, UnixMillis};

/// One moment on both clocks; operations take it as an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamps {
    /// Monotonic.
    pub now: Nanos,
    /// Judges expiry.
    pub unix: UnixMillis,
}
