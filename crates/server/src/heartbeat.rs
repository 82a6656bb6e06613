//! The heartbeat: vouches for the memory, every quarter of a lease, as long as the server makes progress.
//!
//! Progress is the workers': each sleeps with nothing to do, or its loop has turned within the stall bound,
//! or it announced a long copy. If not, no beat: clients stop trusting the memory when the lease is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use longarm_base::Nanos;
use longarm_host::Pause;

use crate::pulse::Pulse;
use crate::shared::Shared;

/// Beats in a lease: a client's clock may miss some.
const BEATS_A_LEASE: u32 = 4;

/// What was last seen of a worker.
#[derive(Debug, Default)]
struct Seen {
    rounds: u64,
    since: Nanos,
}

/// Beats until stopped.
pub(crate) fn run(shared: &Arc<Shared>, pause: &Pause) {
    let every = shared.options.lease / BEATS_A_LEASE;
    let stall = Nanos(shared.options.stall.as_nanos() as u64);
    let now = shared.moment().now;
    let mut seen: Vec<Seen> = shared.pulses.iter().map(|_| Seen { rounds: 0, since: now }).collect();
    let mut withholding = false;
    loop {
        let moment = shared.moment();
        let stuck = shared
            .pulses
            .iter()
            .zip(&mut seen)
            .position(|(pulse, seen)| is_stuck(pulse, seen, moment.now, stall));
        match stuck {
            None => {
                shared.control.beat(moment.now, moment.unix);
                // Relaxed: a counter.
                shared.beats.fetch_add(1, Ordering::Relaxed);
                if std::mem::take(&mut withholding) {
                    shared.log("all workers make progress again: heartbeats go on");
                }
            }
            Some(worker) => {
                // Relaxed: a counter.
                shared.withheld.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut withholding, true) {
                    let stall = shared.options.stall;
                    shared.log(&format!("worker {worker} made no progress for {stall:?}: heartbeats stop"));
                }
            }
        }
        if !pause.sleep(every) {
            return;
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
