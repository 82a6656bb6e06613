//! What all threads of a run share: what to do, whether to go on, and when a PUT and a GET last worked.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use longarm_base::Nanos;
use longarm_host::Mutex;

/// Keys of one round: some that everybody wants, and others.
pub const HOT: u32 = 4;
const COLD: u32 = 200;
/// The last one is the probes'.
pub const KEYS: u32 = HOT + COLD + 1;
/// Counters of one round.
pub const COUNTERS: u32 = 2;

/// A client that does one thing all the time, to see when it works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// PUTs.
    Put = 0,
    /// GETs.
    Get = 1,
}

/// What is shared.
#[derive(Default)]
pub struct Stage {
    ended: AtomicBool,
    /// Keys are of a round, so that the history of each is short enough to be searched.
    round: AtomicU32,
    /// When each probe had its answers, and when it had asked for the last of them.
    answers: [Mutex<(Vec<Nanos>, Nanos)>; 2],
    failures: Mutex<Vec<String>>,
}

impl Stage {
    /// Everybody is to end.
    pub fn end(&self) {
        // Relaxed: a flag to end; histories are read after the threads were joined.
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether everybody is to end.
    pub fn is_over(&self) -> bool {
        // Relaxed: as in `end`.
        self.ended.load(Ordering::Relaxed)
    }

    /// Which keys to use now.
    pub fn round(&self) -> u32 {
        // Relaxed: some may use the old ones a little longer.
        self.round.load(Ordering::Relaxed)
    }

    /// Other keys from now on.
    pub fn next_round(&self) {
        // Relaxed: as in `round`.
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    /// A probe had an answer.
    pub fn answered(&self, probe: Probe, call: Nanos, end: Nanos) {
        let mut answers = self.answers[probe as usize].lock();
        answers.0.push(end);
        answers.1 = call;
    }

    /// Whether a probe asked after `since` and had its answer.
    pub fn works_since(&self, probe: Probe, since: Nanos) -> bool {
        self.answers[probe as usize].lock().1 > since
    }

    /// The longest time without an answer to a probe that touches the time from `from` to `to`.
    pub fn gap(&self, probe: Probe, from: Nanos, to: Nanos) -> Nanos {
        let answers = self.answers[probe as usize].lock();
        let first = answers.0.partition_point(|end| *end < from).saturating_sub(1);
        let touching = answers.0[first..].windows(2).take_while(|pair| pair[0] <= to);
        touching.map(|pair| pair[1].since(pair[0])).max().unwrap_or(Nanos(0))
    }

    /// Something that must not be.
    pub fn fail(&self, what: String) {
        self.failures.lock().push(what);
    }

    /// The first of that.
    pub fn failure(&self) -> Option<String> {
        self.failures.lock().first().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_the_longest_that_touches_the_time() {
        let stage = Stage::default();
        for end in [10, 20, 95, 100, 110, 300] {
            stage.answered(Probe::Get, Nanos(end - 1), Nanos(end));
        }
        assert_eq!(stage.gap(Probe::Get, Nanos(30), Nanos(97)), Nanos(75), "begun before");
        assert_eq!(stage.gap(Probe::Get, Nanos(96), Nanos(105)), Nanos(10), "ended after");
        assert_eq!(stage.gap(Probe::Get, Nanos(111), Nanos(112)), Nanos(190), "around");
        assert_eq!(stage.gap(Probe::Put, Nanos(0), Nanos(500)), Nanos(0), "of the other");
        assert!(stage.works_since(Probe::Get, Nanos(298)) && !stage.works_since(Probe::Get, Nanos(299)));
    }
}
