//! The server's two clocks, and the CPU time of its process. Stamps, leases and heartbeats are read from the
//! monotonic clock; the other clock is the calendar.

use std::time::Duration;

use longarm_base::{Mutant, Nanos, UnixMillis};
use longarm_engine::Timestamps;
use longarm_host::{now, sleep, unix};
use rustix::time::{ClockId, clock_gettime};

/// Both clocks, tied together at the start. The calendar is the unix time at the start plus what has passed
/// on the monotonic clock since. So it never jumps, and an item's time to live is true whatever happens to
/// the system's date. In a group it goes on from the calendar of the last leader, if the system's is behind
/// that: so no item comes back that had expired.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Nanos,
    unix: UnixMillis,
}

impl Clock {
    /// A clock whose calendar begins at `least`, or later.
    pub fn start(least: UnixMillis) -> Clock {
        Clock { start: now(), unix: unix().max(least) }
    }

    /// The same, where `least` may be ahead of the system's calendar by so much in any life: that is waited
    /// for, or lives that end soon would each be ahead of the one before.
    pub fn start_after(least: UnixMillis, ahead: Duration) -> Clock {
        let behind = Duration::from_millis(least.0.saturating_sub(unix().0));
        if behind <= ahead && !Mutant::RunAhead.is_on() {
            sleep(behind);
        }
        Clock::start(least)
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

/// The time that all threads of this process have spent on CPUs.
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

    #[test]
    fn a_calendar_that_is_a_little_ahead_is_waited_for() {
        let least = UnixMillis(unix().0 + 30);
        let clock = Clock::start_after(least, Duration::from_millis(40));
        assert!(unix().0 + 2 >= least.0 && clock.timestamps().unix >= least);
        // The system's date went back: nobody waits for that.
        let least = UnixMillis(unix().0 + 1_000_000);
        assert!(Clock::start_after(least, Duration::from_millis(40)).timestamps().unix >= least);
    }
}
