//! The two clocks.

use longarm_base::{Nanos, UnixMillis};
use rustix::time::{ClockId, clock_gettime};

use crate::world::entered;

/// The monotonic clock (`CLOCK_MONOTONIC`): the same for all processes of a machine, never compared between
/// machines.
#[inline]
pub fn now() -> Nanos {
    match entered() {
        None => read(ClockId::Monotonic),
        Some(world) => world.now(),
    }
}

/// The calendar: milliseconds since the Unix epoch. It may jump.
pub fn unix() -> UnixMillis {
    match entered() {
        None => UnixMillis(read(ClockId::Realtime).0 / 1_000_000),
        Some(world) => world.unix(),
    }
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
