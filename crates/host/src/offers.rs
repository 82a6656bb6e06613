//! The core offered to other threads, by a thread that has always something to do or looks for it.
//!
//! A thread that serves others may have the core that one of these waits for: it then waits for the end of a
//! slice, milliseconds, for what takes microseconds. A thread that offers its core now and then lets it go
//! first. But where a thread that never rests wants the core, an offer costs a whole slice: then there are
//! none for a while.

use longarm_base::Nanos;

use crate::now;
use crate::rest::Rest;
use crate::world::is_simulated;

/// An offer that takes so long cost a slice.
pub(crate) const DEAR: Nanos = Nanos::from_micros(500);
/// For how long there are no offers after a dear one: at first, and at most.
const REST: Nanos = Nanos::from_millis(4);
const REST_MAX: Nanos = Nanos::from_millis(1024);

/// Whether to offer the core, by what offers cost of late.
#[derive(Clone, Debug)]
pub struct Offers {
    rest: Rest,
}

impl Default for Offers {
    fn default() -> Offers {
        Offers { rest: Rest::new(REST, REST_MAX) }
    }
}

impl Offers {
    /// Offers the core once, if that is cheap. In a simulated world each thread has a core.
    pub fn offer(&mut self) {
        if is_simulated() {
            return;
        }
        let begun = now();
        if self.is_due(begun) {
            std::thread::yield_now();
            let ended = now();
            self.took(ended, ended.since(begun));
        }
    }

    fn is_due(&self, now: Nanos) -> bool {
        self.rest.is_over(now)
    }

    /// Notes how long an offer took that ended now.
    fn took(&mut self, now: Nanos, time: Nanos) {
        if time < DEAR {
            return;
        }
        // Offers were cheap for longer than there were none.
        if self.rest.over_for(now) > self.rest.next() + self.rest.next() {
            self.rest.forget();
        }
        self.rest.begin(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Offers for so long, each of which takes so much; the share of the time that they took.
    fn share(offers: &mut Offers, at: &mut Nanos, lasts: Duration, each: Nanos) -> f64 {
        let (begun, mut took) = (*at, 0);
        while at.since(begun).0 < lasts.as_nanos() as u64 {
            if offers.is_due(*at) {
                *at = *at + each;
                took += each.0;
                offers.took(*at, each);
            }
            *at = *at + Nanos::from_micros(10);
        }
        took as f64 / at.since(begun).0 as f64
    }

    #[test]
    fn cheap_offers_go_on_and_dear_ones_end_soon_and_come_back() {
        let (mut offers, mut at) = (Offers::default(), Nanos::from_millis(5_000));
        let (cheap, slice) = (Nanos::from_micros(10), Nanos::from_millis(3));
        assert!(share(&mut offers, &mut at, Duration::from_secs(1), cheap) > 0.4);
        assert!(share(&mut offers, &mut at, Duration::from_secs(10), slice) < 0.01);
        share(&mut offers, &mut at, Duration::from_secs(1), cheap);
        assert!(share(&mut offers, &mut at, Duration::from_secs(1), cheap) > 0.4, "the other thread is gone");
    }
}
