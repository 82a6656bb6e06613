//! What a client knows of the server's calendar, by which items are gone: bounds on it, both of them true.
//!
//! An item is gone for everybody from one moment on, at which the server's calendar reaches its expiry. A
//! client has that calendar from heartbeats, which are old when it sees them. So it judges only what is
//! surely there; of all else it asks the server, also where an item is surely over: a write that found it
//! in its time may be under way, and then it is there again.
//! (1) *Not earlier.* A heartbeat was stored before the READ of it ended. The calendar has gone on since, by
//!     our clock less what two clocks may drift apart.
//! (2) *Not later.* The heartbeat's stamp was taken not before a moment of our clock, which the lease's
//!     anchor tells (`lease.rs`), and its calendar not before its stamp.
//! (3) Neither bound ever goes back.

use longarm_base::{Nanos, UnixMillis};

use crate::lease::DRIFT;

const MILLI: u64 = 1_000_000;

/// A moment of our clock, and what the server's calendar said then at least, or at most.
#[derive(Clone, Copy, Debug)]
struct CalendarReading {
    at: Nanos,
    unix: UnixMillis,
}

/// The bounds on one server's calendar.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calendar {
    least: Option<CalendarReading>,
    most: Option<CalendarReading>,
}

impl Calendar {
    /// A heartbeat with this calendar was there at `seen`; its stamp was not taken before `stamped`.
    pub(crate) fn observe(&mut self, unix: UnixMillis, stamped: Option<Nanos>, seen: Nanos) {
        // A page on which no heartbeat was written yet: as a bound from above it would hold for decades.
        if unix == UnixMillis(0) {
            return;
        }
        if unix > self.least(seen) || self.least.is_none() {
            self.least = Some(CalendarReading { at: seen, unix });
        }
        let Some(stamped) = stamped else { return };
        let most = CalendarReading { at: stamped.min(seen), unix };
        if self.most.is_none_or(|before| latest(most, seen) < latest(before, seen)) {
            self.most = Some(most);
        }
    }

    /// The server's calendar at `now` says this, or more.
    #[inline]
    pub(crate) fn least(&self, now: Nanos) -> UnixMillis {
        self.least.map_or(UnixMillis(0), |CalendarReading { at, unix }| {
            let passed = now.since(at).0;
            UnixMillis(unix.0 + (passed - passed / DRIFT) / MILLI)
        })
    }

    /// Whether an item with this expiry is surely there at `now`; if not, the server can tell.
    #[inline]
    pub(crate) fn is_in_time(&self, expiry: UnixMillis, now: Nanos) -> bool {
        expiry == UnixMillis::NEVER || self.most.is_some_and(|most| !expiry.expired(latest(most, now)))
    }
}

/// What the calendar says at most at `now`.
fn latest(CalendarReading { at, unix }: CalendarReading, now: Nanos) -> UnixMillis {
    let passed = now.since(at).0;
    // It counts whole milliseconds, and may have been at the end of one.
    UnixMillis(unix.0 + (passed + passed / DRIFT).div_ceil(MILLI))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lease::ClientLease;

    proptest! {
        /// Clocks of any offset that drift within the bound, heartbeats of any age: what is judged is what
        /// the server's calendar says at that very moment, and what was gone is never there again.
        #[test]
        fn what_is_judged_is_what_the_server_would_say(
            (skew, ppm) in (0u64..1_000_000_000_000, -19_000i64..19_000),
            steps in proptest::collection::vec((0u64..5_000_000, 0u64..5_000_000, 1u64..40_000_000), 1..30),
            (late, ttl) in (0u64..10_000_000, 1u64..80),
        ) {
            // True time is the client's.
            let server = |t: u64| (i128::from(skew) + i128::from(t)
                + i128::from(t) * i128::from(ppm) / 1_000_000) as u64;
            let unix = |t: u64| UnixMillis(1_700_000_000_000 + server(t) / MILLI);
            let mut t = 1_000_000_000u64;
            let expiry = UnixMillis(unix(t).0 + ttl);
            let (mut lease, mut calendar) = (ClientLease::new(Nanos::from_millis(10)), Calendar::default());
            for (out, back, gap) in steps {
                lease.anchor(Nanos(t), Nanos(server(t + out)));
                let beat = t + out;
                // A leader's calendar in a heartbeat may be later than its stamp.
                let stored = beat + late.min(back);
                t = beat + back;
                let stamped = lease.earliest(Nanos(server(beat)), Nanos(t));
                calendar.observe(unix(stored), stamped, Nanos(t));
                for now in [t, t + gap / 2, t + gap] {
                    let over = expiry.expired(unix(now));
                    prop_assert!(!(over && calendar.is_in_time(expiry, Nanos(now))), "it is over");
                    prop_assert!(calendar.least(Nanos(now)) <= unix(now), "a bound from below");
                }
                t += gap;
            }
        }
    }

    #[test]
    fn an_item_is_there_without_asking_until_a_heartbeats_age_before_its_end() {
        let mut calendar = Calendar::default();
        let ms = Nanos::from_millis;
        assert!(!calendar.is_in_time(UnixMillis(1), ms(5)), "nothing is known yet");
        assert!(calendar.is_in_time(UnixMillis::NEVER, ms(5)));
        calendar.observe(UnixMillis(1000), Some(ms(100)), ms(103));
        let in_time = |calendar: &Calendar, expiry| calendar.is_in_time(UnixMillis(expiry), ms(103));
        assert_eq!([1000, 1001, 1004, 1005].map(|at| in_time(&calendar, at)), [false, false, false, true]);
        // A page that nobody has written yet says nothing.
        calendar.observe(UnixMillis(0), Some(ms(1)), ms(103));
        assert!(!in_time(&calendar, 1001));
        // Older ones, which say less, set nothing back.
        calendar.observe(UnixMillis(990), Some(ms(80)), ms(103));
        assert!(in_time(&calendar, 1005) && !in_time(&calendar, 1004));
        assert_eq!(calendar.least(ms(103)), UnixMillis(1000));
    }
}
