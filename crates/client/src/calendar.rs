//! A client's knowledge of the server's calendar, by which items expire: two bounds, both of them true.
//!
//! An item is gone for all clients from one moment on, when the server's calendar reaches its expiry. A
//! client has that calendar from heartbeats, which are old when it sees them. So it judges only items that
//! are surely there. It asks the server about all others, even an item that has surely expired: a write that
//! found it alive may be under way, and then the item is there again.
//! (1) *Not earlier.* A heartbeat was stored before the READ of it ended. The calendar has advanced since, by
//!     the client's clock less what two clocks may drift apart.
//! (2) *Not later.* The heartbeat's stamp was not taken before a moment of the client's clock, which the
//!     lease's anchor tells (`lease.rs`), and its calendar not before its stamp.
//! (3) Neither bound ever goes back.

use longarm_base::{Nanos, UnixMillis};

use crate::lease::DRIFT;

const MILLI: u64 = 1_000_000;

/// A moment of the client's clock, and the least, or the most, that the server's calendar said then.
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
    /// Notes that a heartbeat with this calendar was there at `seen`; its stamp was not taken before
    /// `stamped`.
    pub(crate) fn observe(&mut self, unix: UnixMillis, stamped: Option<Nanos>, seen: Nanos) {
        // No heartbeat was written on this page yet: as an upper bound zero would hold for decades.
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

    /// The least that the server's calendar says at `now`.
    #[inline]
    pub(crate) fn least(&self, now: Nanos) -> UnixMillis {
        self.least.map_or(UnixMillis(0), |CalendarReading { at, unix }| {
            let passed = now.since(at).0;
            UnixMillis(unix.0 + (passed - passed / DRIFT) / MILLI)
        })
    }

    /// Whether an item with this expiry is surely there at `now`; if not, the server can tell.
    #[inline(always)]
    pub(crate) fn is_in_time(&self, expiry: UnixMillis, now: Nanos) -> bool {
        expiry == UnixMillis::NEVER || self.is_before(expiry, now)
    }

    #[cold]
    fn is_before(&self, expiry: UnixMillis, now: Nanos) -> bool {
        self.most.is_some_and(|most| !expiry.expired(latest(most, now)))
    }
}

/// The most that the calendar says at `now`.
fn latest(CalendarReading { at, unix }: CalendarReading, now: Nanos) -> UnixMillis {
    let passed = now.since(at).0;
    // The calendar counts whole milliseconds, and may have been at the end of one.
    UnixMillis(unix.0 + (passed + passed / DRIFT).div_ceil(MILLI))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lease::ClientLease;

    proptest! {
        /// Clocks have any offset and drift within the bound, heartbeats have any age. A judgement is what
        /// the server's calendar says at that very moment, and an item that was gone is never there again.
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
        // A page that was not written yet says nothing.
        calendar.observe(UnixMillis(0), Some(ms(1)), ms(103));
        assert!(!in_time(&calendar, 1001));
        // Older heartbeats, which say less, set no bound back.
        calendar.observe(UnixMillis(990), Some(ms(80)), ms(103));
        assert!(in_time(&calendar, 1005) && !in_time(&calendar, 1004));
        assert_eq!(calendar.least(ms(103)), UnixMillis(1000));
    }
}
