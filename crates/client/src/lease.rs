//! The reader's lease, as arithmetic: until when the server's memory may be trusted, on the client's clock.
//!
//! The server stores a stamp of its clock while it makes progress (control page). A stamp vouches for its
//! memory for the lease's length D. Clocks of two machines are never compared (M7, X4): from one request and
//! its answer the client learns that the stamp `s0` in the answer was not taken before the client sent, at
//! `t0`. So server time `s` is not earlier than `t0 + (s - s0)(1 - rho)` on the client's clock, and a result
//! that was complete before that plus D counts. On shared memory both sides read one clock, and the bound is
//! exact.
//! (1) `end` never promises more than D after a moment at which the server was alive.
//! (2) Only rates are assumed: two clocks drift apart by at most one part in [`DRIFT`].
//! (3) An anchor is worth less with time. Before that costs much of the lease, the client asks the server for
//!     a new one ([`ClientLease::wants_anchor`]) and does not wait for the answer.

use longarm_base::limits::DRIFT_PPM;
use longarm_base::{Mutant, Nanos};

/// Two clocks drift apart by at most one part in so many: one may be fast by [`DRIFT_PPM`], the other slow.
pub(crate) const DRIFT: u64 = 1_000_000 / (2 * DRIFT_PPM) - 1;
/// A new anchor is wanted when the old one has cost one part in so many of the lease.
const LOOSE: u64 = 8;

/// One client's lease on one server's memory. In LoLKV 3.3.4 the leader alone has a lease, as it serves GETs.
#[derive(Clone, Debug)]
pub(crate) struct ClientLease {
    length: Nanos,
    /// The most that client time minus server time can be; `None` until anchored.
    offset: Option<i128>,
    exact: bool,
    anchored: Nanos,
    /// When a new anchor was last wanted.
    wanted: Nanos,
    end: Nanos,
}

impl ClientLease {
    pub(crate) fn new(length: Nanos) -> ClientLease {
        ClientLease {
            length,
            offset: None,
            exact: false,
            anchored: Nanos(0),
            wanted: Nanos(0),
            end: Nanos(0),
        }
    }

    /// Notes that both sides read the same clock.
    pub(crate) fn same_clock(&mut self) {
        (self.offset, self.exact) = (Some(0), true);
    }

    /// Notes that an answer to a request sent at `sent` carried the server's clock.
    pub(crate) fn anchor(&mut self, sent: Nanos, stamp: Nanos) {
        if self.exact {
            return;
        }
        let candidate = i128::from(sent.0) - i128::from(stamp.0);
        let kept = self.offset.map(|offset| offset - i128::from(sent.since(self.anchored).0 / DRIFT));
        if kept.is_none_or(|kept| candidate > kept) {
            self.offset = Some(candidate);
            self.anchored = sent;
        }
    }

    /// Notes that the server was alive at `stamp` of its clock; `now` is the client's.
    pub(crate) fn observe(&mut self, stamp: Nanos, now: Nanos) {
        let Some(earliest) = self.earliest(stamp, now) else { return };
        let end = earliest + Nanos(self.length.0 / DRIFT * (DRIFT - 1));
        // A stamp beyond the bound comes from a broken clock: it counts no more than a fresh one.
        self.end = self.end.max(end).min(now + self.length);
    }

    /// The least that the client's clock said when `stamp` was taken, as far as is known at `now`; `None`
    /// until anchored.
    pub(crate) fn earliest(&self, stamp: Nanos, now: Nanos) -> Option<Nanos> {
        let drift =
            if self.exact || Mutant::NoDrift.is_on() { 0 } else { now.since(self.anchored).0 / DRIFT };
        let earliest = i128::from(stamp.0) + self.offset? - i128::from(drift);
        Some(Nanos(u64::try_from(earliest.max(0)).unwrap_or(u64::MAX)))
    }

    /// When trust ends, as far as it was renewed.
    pub(crate) fn end(&self) -> Nanos {
        self.end
    }

    /// Whether to ask the server for an answer, which anchors the lease anew; at most once in a lease.
    pub(crate) fn wants_anchor(&mut self, now: Nanos) -> bool {
        let lost = now.since(self.anchored).0 / DRIFT;
        let wanted = !self.exact && lost > self.length.0 / LOOSE && now.since(self.wanted) > self.length;
        if wanted {
            self.wanted = now;
        }
        wanted
    }

    /// Forgets all trust, as after a broken connection.
    pub(crate) fn forget(&mut self) {
        self.end = Nanos(0);
    }

    /// Whether a result that was complete at `now` counts.
    #[inline(always)]
    pub(crate) fn valid(&self, now: Nanos) -> bool {
        now < self.end || Mutant::NoLease.is_on()
    }

    /// Whether it is time to look at the stamp again.
    #[inline(always)]
    pub(crate) fn should_renew(&self, now: Nanos) -> bool {
        now.0 + self.length.0 / 2 >= self.end.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Two clocks with any offset and a drift within the bound: the lease never outlives D after the
        /// stamp's true moment (I9, in the client's part).
        #[test]
        fn never_longer_than_the_length_after_the_server_lived(
            skew in -1_000_000_000_000i64..1_000_000_000_000, ppm in -19_000i64..19_000,
            round_trips in proptest::collection::vec((0u64..5_000_000, 0u64..5_000_000,
                1u64..50_000_000), 1..20),
        ) {
            let length = Nanos::from_millis(10);
            // True time; the client's clock is true, the server's runs at another rate from another start.
            let server = |t: u64| Nanos((2_000_000_000_000i128 + i128::from(t) + i128::from(skew)
                + i128::from(t) * i128::from(ppm) / 1_000_000) as u64);
            let mut lease = ClientLease::new(length);
            let mut t = 1_000_000_000u64;
            let mut last_beat = 0;
            for (out, back, gap) in round_trips {
                let (sent, seen) = (t, t + out);
                lease.anchor(Nanos(sent), server(seen));
                t = seen + back + gap;
                // A beat happened at some true moment between the answer and now.
                let beat = seen + (back + gap) / 2;
                lease.observe(server(beat), Nanos(t));
                last_beat = last_beat.max(beat);
                prop_assert!(!lease.valid(Nanos(last_beat + length.0)),
                    "outlives the beat by more than the lease");
            }
        }
    }

    #[test]
    fn a_tight_round_trip_makes_a_useful_lease() {
        let mut lease = ClientLease::new(Nanos::from_millis(10));
        lease.observe(Nanos(5), Nanos(5));
        assert!(!lease.valid(Nanos(5)), "not anchored");
        lease.anchor(Nanos(1_000_000), Nanos(77_000_000));
        lease.observe(Nanos(77_050_000), Nanos(1_100_000));
        assert!(lease.valid(Nanos(10_000_000)) && !lease.valid(Nanos(11_060_000)));
        lease.forget();
        assert!(!lease.valid(Nanos(1_100_000)));
    }

    #[test]
    fn an_old_anchor_is_replaced_before_it_costs_much() {
        let mut lease = ClientLease::new(Nanos::from_millis(10));
        lease.anchor(Nanos(0), Nanos(0));
        // Two per cent of this are an eighth of the lease.
        let late = Nanos::from_millis(62);
        assert!(!lease.wants_anchor(Nanos::from_millis(60)), "not yet");
        assert!(lease.wants_anchor(late) && !lease.wants_anchor(late), "once in a lease");
        assert!(lease.wants_anchor(late + Nanos::from_millis(11)), "and again, should no answer come");
        lease.same_clock();
        assert!(!lease.wants_anchor(Nanos::from_millis(60_000)), "there is nothing to anchor");
    }
}
