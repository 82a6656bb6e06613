//! A machine: a clock of its own, and whether its CPUs run.

use longarm_base::Nanos;

/// By how many nanoseconds a machine's calendar is ahead, at most.
const CALENDAR: u64 = 20_000_000;

/// Parts of a million.
const MILLION: i128 = 1_000_000;

/// What is wrong with a machine's clock, within what the protocol allows or beyond it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// What the clock shows at the beginning of the world.
    pub offset: Nanos,
    /// How much too fast the clock goes, in parts of a million; too slow if negative.
    pub rate: i32,
}

/// A machine's state.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its clock.
    pub drift: Drift,
    /// Until when its CPUs do nothing; its NIC answers all the same.
    pub paused_until: Nanos,
    /// By how many milliseconds a fault set its calendar ahead; behind, if negative.
    pub set_ahead: i64,
    /// Whether it runs. After a crash it does not, until it is started again.
    pub up: bool,
    /// The task on whose account the world stopped last at an event of this machine: it may hold locks.
    pub struck: Option<u64>,
}

impl Machine {
    /// A machine that runs.
    pub fn new(drift: Drift) -> Machine {
        Machine { drift, paused_until: Nanos(0), set_ahead: 0, up: true, struck: None }
    }

    /// What its calendar says when its clock says `now`, in milliseconds since the world began. Calendars are
    /// right but for some milliseconds, unless a fault sets them.
    pub fn calendar(&self, now: Nanos) -> i64 {
        let right = now.since(Nanos(self.drift.offset.0 / CALENDAR * CALENDAR));
        (right.0 / 1_000_000) as i64 + self.set_ahead
    }

    /// What its clock shows at a time of the world.
    pub fn clock(&self, time: Nanos) -> Nanos {
        let gained = (i128::from(time.0) * i128::from(self.drift.rate)).div_euclid(MILLION);
        Nanos((i128::from(self.drift.offset.0) + i128::from(time.0) + gained) as u64)
    }

    /// The first time of the world at which its clock shows at least this.
    pub fn when(&self, clock: Nanos) -> Nanos {
        let passed = i128::from(clock.0) - i128::from(self.drift.offset.0);
        let time = (passed * MILLION).div_euclid(MILLION + i128::from(self.drift.rate)).max(2) as u64;
        // Both divisions round: the first such time is near.
        (time - 2..).map(Nanos).find(|&time| self.clock(time) >= clock).expect("clocks go on")
    }
}

#[test]
fn a_clock_and_the_time_agree() {
    for rate in [-9_000, -1, 0, 1, 250, 10_000] {
        let machine = Machine::new(Drift { offset: Nanos(5_000_000), rate });
        for time in [0, 1, 999, 1_000_000, 123_456_789_012] {
            let clock = machine.clock(Nanos(time));
            let when = machine.when(clock);
            assert!(machine.clock(when) >= clock && when <= Nanos(time), "{rate} {time}");
        }
        assert_eq!(machine.when(Nanos(0)), Nanos(0), "long ago");
    }
}
