//! The time on both clocks, as the caller of the engine passes it: the engine reads no clock.

use longarm_base::{Nanos, UnixMillis};

/// One moment on both clocks; operations take it as an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamps {
    /// The monotonic clock.
    pub now: Nanos,
    /// The calendar, which judges expiry.
    pub unix: UnixMillis,
}
