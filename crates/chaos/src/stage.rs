//! The state that all threads of a run share: the round of keys, whether to go on, and when PUTs, GETs and
//! scans worked.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use longarm_base::Nanos;
use longarm_host::Mutex;

/// A client that does the same operation all the time, to see when it works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// PUTs.
    Put = 0,
    /// GETs.
    Get = 1,
    /// Asks for pages of scans.
    Scan = 2,
}

impl Probe {
    /// The probes of each group; `scans`: with one that scans.
    pub fn all(scans: bool) -> &'static [Probe] {
        if scans { &[Probe::Put, Probe::Get, Probe::Scan] } else { &[Probe::Put, Probe::Get] }
    }
}

/// The answers to one probe.
#[derive(Default)]
struct Answers {
    all: Vec<Nanos>,
    /// When the probe asked for the last answer.
    asked: Nanos,
}

impl Answers {
    fn gap(&self, from: Nanos, to: Nanos) -> Option<Nanos> {
        let first = self.all.partition_point(|end| *end < from).saturating_sub(1);
        let touching = self.all[first..].windows(2).take_while(|pair| pair[0] <= to);
        touching.map(|pair| pair[1].since(pair[0])).max()
    }
}

/// The shared state.
pub struct Stage {
    ended: AtomicBool,
    /// Whether clients other than probes begin nothing.
    held: AtomicBool,
    /// The round whose keys clients use.
    round: AtomicU32,
    /// The answers to the probes of each group.
    answers: Vec<Vec<Mutex<Answers>>>,
    failures: Mutex<Vec<String>>,
}

impl Stage {
    /// The state for clients of so many groups; `scans`: there are probes that scan.
    pub fn new(groups: usize, scans: bool) -> Stage {
        let answers = || Probe::all(scans).iter().map(|_| Mutex::default()).collect();
        Stage {
            ended: AtomicBool::default(),
            held: AtomicBool::default(),
            round: AtomicU32::default(),
            answers: (0..groups).map(|_| answers()).collect(),
            failures: Mutex::default(),
        }
    }

    /// Tells all threads to end.
    pub fn end(&self) {
        // Relaxed: a flag to end; histories are read after the threads were joined.
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether all threads are to end.
    pub fn is_over(&self) -> bool {
        // Relaxed: as in `end`.
        self.ended.load(Ordering::Relaxed)
    }

    /// Has clients other than probes begin nothing, or go on.
    pub fn hold(&self, held: bool) {
        // Relaxed: some clients may begin one more operation.
        self.held.store(held, Ordering::Relaxed);
    }

    /// Whether clients other than probes are to begin nothing.
    pub fn is_held(&self) -> bool {
        // Relaxed: as in `hold`.
        self.held.load(Ordering::Relaxed)
    }

    /// The round whose keys clients use now.
    pub fn round(&self) -> u32 {
        // Relaxed: some clients may use the old keys a little longer.
        self.round.load(Ordering::Relaxed)
    }

    /// Begins another round, which has other keys.
    pub fn next_round(&self) {
        // Relaxed: as in `round`.
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a probe of a group had an answer.
    pub fn answered(&self, probe: Probe, group: usize, call: Nanos, end: Nanos) {
        let mut answers = self.answers[group][probe as usize].lock();
        answers.all.push(end);
        answers.asked = call;
    }

    /// The groups of which a probe has had no answer to what it asked after `since`.
    pub fn silent_since(&self, since: Nanos) -> Vec<usize> {
        let silent = |group: &usize| self.answers[*group].iter().any(|answers| answers.lock().asked <= since);
        (0..self.answers.len()).filter(silent).collect()
    }

    /// The longest time without an answer to such a probe of any group that touches the time from `from` to
    /// `to`; none where there is no such probe.
    pub fn gap(&self, probe: Probe, from: Nanos, to: Nanos) -> Nanos {
        let of_probe = self.answers.iter().filter_map(|group| group.get(probe as usize));
        let gaps = of_probe.filter_map(|answers| answers.lock().gap(from, to));
        gaps.max().unwrap_or(Nanos(0))
    }

    /// Notes a failure of the run.
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
        let stage = Stage::new(2, false);
        for end in [10, 20, 95, 100, 110, 300] {
            stage.answered(Probe::Get, 1, Nanos(end - 1), Nanos(end));
        }
        assert_eq!(stage.gap(Probe::Get, Nanos(30), Nanos(97)), Nanos(75), "begun before");
        assert_eq!(stage.gap(Probe::Get, Nanos(96), Nanos(105)), Nanos(10), "ended after");
        assert_eq!(stage.gap(Probe::Get, Nanos(111), Nanos(112)), Nanos(190), "around");
        assert_eq!(stage.gap(Probe::Put, Nanos(0), Nanos(500)), Nanos(0), "of the other");
        stage.answered(Probe::Put, 1, Nanos(400), Nanos(401));
        assert_eq!(stage.silent_since(Nanos(298)), [0], "nobody answers there");
        assert_eq!(stage.silent_since(Nanos(299)), [0, 1], "GETs have none");
        stage.answered(Probe::Get, 0, Nanos(1), Nanos(60));
        stage.answered(Probe::Get, 0, Nanos(61), Nanos(290));
        assert_eq!(
            stage.gap(Probe::Get, Nanos(96), Nanos(105)),
            Nanos(230),
            "of the group that waited longest"
        );
        assert_eq!(stage.gap(Probe::Scan, Nanos(0), Nanos(500)), Nanos(0), "nobody scans");
        let stage = Stage::new(1, true);
        for probe in [Probe::Put, Probe::Get] {
            stage.answered(probe, 0, Nanos(1), Nanos(2));
        }
        assert_eq!(stage.silent_since(Nanos(0)), [0], "scans have no answer");
        stage.answered(Probe::Scan, 0, Nanos(1), Nanos(2));
        assert!(stage.silent_since(Nanos(0)).is_empty());
    }
}
