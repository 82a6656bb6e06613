//! The server's two clocks, the only place that asks for them. Stamps, leases and heartbeats are of the
//! monotonic one.

use longarm_base::{Nanos, UnixMillis};
use longarm_engine::Timestamps;
use longarm_host::{now, unix};
use rustix::time::{ClockId, clock_gettime};

/// Both clocks, tied together once: the unix clock here is its value at the start and what has passed since,
/// so it never jumps, and an item's time to live is true whatever happens to the system's date. In a group it
/// goes on from where that of the last leader was, should this system's be behind: so nothing comes back that
/// was gone.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Nanos,
    unix: UnixMillis,
}

impl Clock {
    /// At `least`, or later.
    pub fn start(least: UnixMillis) -> Clock {
        Clock { start: now(), unix: unix().max(least) }
    }

    #[inline]
    pub fn timestamps(&self) -> Timestamps {
        let now = now();
        Timestamps { now, unix: UnixMillis(self.unix.0 + now.since(self.start).0 / 1_000_000) }
    }

    pub fn started(&self) -> Nanos {
        self.start
    }
}

/// Time that all threads of this process have spent on CPUs.
pub fn process_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_goes_on_from_that_of_leaders_before() {
        let behind = UnixMillis(unix().0 + 1_000_000_000);
        let clock = Clock::start(behind);
        let first = clock.timestamps().unix;
        assert!(first >= behind && first.0 < behind.0 + 100_000);
        assert!(Clock::start(UnixMillis(0)).timestamps().unix < behind, "the system's, where that is ahead");
    }
}
