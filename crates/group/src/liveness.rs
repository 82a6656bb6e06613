//! Whether a server makes progress. If it does not, no heartbeat vouches for its memory.
//!
//! A worker makes progress if it sleeps with nothing to do, if its loop has turned within the stall bound, or
//! if it announced a long copy. While some worker makes none, no heartbeat is sent, and clients stop trusting
//! the memory when their lease is over.

use std::sync::atomic::Ordering;

use longarm_base::Nanos;
use longarm_host::now;

use crate::common::Core;
use crate::pulse::Pulse;

/// What was last seen of a worker.
#[derive(Debug, Default)]
struct Seen {
    rounds: u64,
    since: Nanos,
}

/// Finds out whether all workers make progress, and logs when that changes.
#[derive(Debug)]
pub struct Liveness {
    seen: Vec<Seen>,
    withholding: bool,
}

impl Liveness {
    /// Begins as if each worker's loop had turned just now.
    pub fn new(core: &Core) -> Liveness {
        let now = now();
        let seen = core.pulses.iter().map(|_| Seen { rounds: 0, since: now }).collect();
        Liveness { seen, withholding: false }
    }

    /// Whether a heartbeat may be sent at `now`.
    pub fn made(&mut self, core: &Core, now: Nanos) -> bool {
        let stall = core.options.stall;
        let limit = Nanos(stall.as_nanos() as u64);
        let mut workers = core.pulses.iter().zip(&mut self.seen);
        match workers.position(|(pulse, seen)| is_stuck(pulse, seen, now, limit)) {
            None => {
                // Relaxed: a counter.
                core.beats.fetch_add(1, Ordering::Relaxed);
                if std::mem::take(&mut self.withholding) {
                    core.log("all workers make progress again: heartbeats go on");
                }
                true
            }
            Some(worker) => {
                // Relaxed: a counter.
                core.withheld.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut self.withholding, true) {
                    core.log(&format!("worker {worker} made no progress for {stall:?}: heartbeats stop"));
                }
                false
            }
        }
    }
}

fn is_stuck(pulse: &Pulse, seen: &mut Seen, now: Nanos, stall: Nanos) -> bool {
    let rounds = pulse.rounds();
    if rounds != seen.rounds || pulse.is_sleeping() {
        *seen = Seen { rounds, since: now };
        return false;
    }
    now.since(seen.since) > stall && now > pulse.patience()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stuck_when_nothing_excuses_it() {
        let (pulse, mut seen) = (Pulse::default(), Seen::default());
        let mut stuck = |pulse: &Pulse, now| is_stuck(pulse, &mut seen, Nanos(now), Nanos(10));
        assert!(!stuck(&pulse, 10) && stuck(&pulse, 11));
        pulse.round();
        assert!(!stuck(&pulse, 20) && !stuck(&pulse, 30) && stuck(&pulse, 31));
        pulse.be_patient(Nanos(50));
        assert!(!stuck(&pulse, 50) && stuck(&pulse, 51));
        pulse.set_sleeping(true);
        assert!(!stuck(&pulse, 100));
        pulse.set_sleeping(false);
        assert!(!stuck(&pulse, 110) && stuck(&pulse, 111));
    }
}
