//! The times of a group, and the relations that they must have.

use longarm_base::Nanos;
use longarm_base::limits::DRIFT_PPM;

/// How often the time of a candidate doubles. It has longer with each election before it that failed:
/// fetching and building may take longer than one election, on a busy machine or in a large group.
pub(crate) const DOUBLINGS_MAX: u32 = 4;

/// The most times the configured silence after which a leader is suspected, whatever was learnt.
const PATIENCE: u64 = 5;
/// A follower looks so many times at least before it suspects its leader: so much longer that may take.
const LOOKS_A_SUSPICION: u64 = 16;

/// Times of a group; all of its replicas have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// The time between two heartbeats.
    pub heartbeat: Nanos,
    /// The silence after which the leader is suspected; later, if leaders that lived on were silent for long
    /// ([`patience`](Self::patience)).
    pub suspect: Nanos,
    /// D: no report within this time after a heartbeat was seen.
    pub promise: Nanos,
    /// The time after which a candidate that has not become leader starts over.
    pub election: Nanos,
}

impl Timing {
    /// The same times with another promise, and elections that are long enough for it.
    pub fn with_promise(self, promise: Nanos) -> Timing {
        let spare = self.election.since(self.promise);
        Timing { promise, election: promise + spare, ..self }
    }

    /// The silence after which any leader is suspected, however long leaders were silent before.
    pub fn patience(&self) -> Nanos {
        Nanos(self.suspect.0.saturating_mul(PATIENCE)).min(self.election)
    }

    /// How often a follower looks whether its leader lives, at the least.
    pub fn looks(&self) -> Nanos {
        self.heartbeat.max(Nanos(self.suspect.0 / LOOKS_A_SUSPICION))
    }

    /// The promise in milliseconds, the unit of calendars, rounded up.
    pub fn promise_millis(&self) -> u64 {
        self.promise.0.div_ceil(1_000_000)
    }

    /// The leader's share of a promise of D: its length on a fast clock, seen from a slow one, less a
    /// millionth for rounding.
    pub fn lease(&self) -> Nanos {
        Nanos(self.promise.0 - self.promise.0 / 1_000_000 * 2 * DRIFT_PPM - self.promise.0 % 1_000_000)
    }

    /// Checks the times; the error names what is wrong.
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
