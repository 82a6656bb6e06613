//! The times of a group, and what they must be to each other.

use longarm_base::Nanos;
use longarm_base::limits::DRIFT_PPM;

/// A candidate has longer with each election before it that came to nothing, up to so many doublings: what
/// it has to fetch and to build may take longer than the time of one, on a busy machine or of a large group.
pub(crate) const DOUBLINGS_MAX: u32 = 4;

/// A leader is suspected after so many times the usual silence, whatever was learnt.
const PATIENCE: u64 = 5;

/// Times of a group; all of its replicas have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Between two heartbeats.
    pub heartbeat: Nanos,
    /// Without a heartbeat for so long, the leader is suspected; later, if leaders that lived on were silent
    /// for long ([`patience`](Self::patience)).
    pub suspect: Nanos,
    /// D: no report within this time after a heartbeat was seen.
    pub promise: Nanos,
    /// A candidate that has not become leader by then starts over.
    pub election: Nanos,
}

impl Timing {
    /// The same with another promise, and elections that are given the time for it.
    pub fn with_promise(self, promise: Nanos) -> Timing {
        let spare = self.election.since(self.promise);
        Timing { promise, election: promise + spare, ..self }
    }

    /// However long leaders were silent, whoever is silent for so long is suspected.
    pub fn patience(&self) -> Nanos {
        Nanos(self.suspect.0.saturating_mul(PATIENCE)).min(self.election)
    }

    /// The promise in milliseconds, of which calendars are made, rounded up.
    pub fn promise_millis(&self) -> u64 {
        self.promise.0.div_ceil(1_000_000)
    }

    /// The leader's share of a promise of D: what has passed of it on a clock that runs fast, seen from one
    /// that runs slow, and a millionth for rounding.
    pub fn lease(&self) -> Nanos {
        Nanos(self.promise.0 - self.promise.0 / 1_000_000 * 2 * DRIFT_PPM - self.promise.0 % 1_000_000)
    }

    /// Names what is wrong with the times, if something is.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.heartbeat == Nanos(0) || self.promise < Nanos::from_millis(1) {
            return Err("a heartbeat needs a time, and a promise at least a millisecond");
        }
        if self.suspect < self.heartbeat + self.heartbeat {
            return Err("a leader is to be suspected after two heartbeats that did not come, or more");
        }
        if self.lease() < self.heartbeat + self.heartbeat {
            return Err("a promise must outlast two heartbeats, or the lease runs out between them");
        }
        if self.election < self.promise + self.suspect {
            return Err("an election must be given the time of a promise and of a suspicion");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_before_the_promise_whatever_the_clocks() {
        for promise in [1_000_000, 5_000_000, 9_999_999, 50_000_000] {
            let timing = Timing {
                heartbeat: Nanos(300_000),
                suspect: Nanos(900_000),
                promise: Nanos(promise),
                election: Nanos(20_000_000),
            };
            // The follower's clock runs fast, the leader's slow.
            let follower = promise as f64 / 1.01;
            let leader = timing.lease().0 as f64 / 0.99;
            assert!(leader < follower, "{promise}");
        }
    }
}
