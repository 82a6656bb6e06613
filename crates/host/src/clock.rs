//! The two clocks.

use longarm_base::{Nanos, UnixMillis};
use rustix::time::{ClockId, clock_gettime};

use crate::world::entered;

/// The monotonic clock (`CLOCK_BOOTTIME`): the same for all processes of a machine, never compared between
/// machines. It continues while the machine is suspended, as the clocks of other machines do, so a lease or a
/// promise ends meanwhile. `CLOCK_MONOTONIC`, which bounds sleeps, stands still then: sleeps last longer, no
/// more.
#[inline]
pub fn now() -> Nanos {
    match entered() {
        None => read(ClockId::Boottime),
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
