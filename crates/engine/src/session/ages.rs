//! How long ago versions were drawn, also under earlier leaders.
//!
//! What entries say of a client's operations is kept for as long as the client may repeat them (L17;
//! `session.rs`). Leaders may follow each other faster than that, so each goes on where the one before was:
//! it tells its followers how old two of its versions are, and they keep that in their pages (decision 27).
//! (1) A leader tells only of versions up to its stable point: a version that it merely drew may be drawn
//!     again, by the next leader.
//! (2) An age is told as less than it is, and the time between two leaders counts for nothing. So what is
//!     said of a version stays true, whoever said it and whenever it is read.

use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::{Csn, Mutant, Nanos};
use longarm_host::Mutex;

/// A version, and for how long it and all before it have been drawn, at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VersionAge {
    /// The version.
    pub csn: Csn,
    /// The time since it was drawn.
    pub age: Nanos,
}

/// Two versions whose ages are known, the older one first.
pub type ToldAges = [VersionAge; 2];

/// The last version that is so old that nobody asks for it any more, if sessions are kept for so long.
pub fn aged(told: &ToldAges, keep: Nanos) -> Csn {
    let aged = told.iter().filter(|it| it.age >= keep || Mutant::AgeAtOnce.is_on());
    aged.map(|it| it.csn).max().unwrap_or(Csn::NONE)
}

/// The ages of versions, as far as they are known.
#[derive(Debug)]
pub struct Ages {
    /// The age at which nobody asks for a version any more.
    keep: Nanos,
    /// Versions up to this one are as old as that.
    aged: AtomicU64,
    marks: Mutex<Marks>,
}

/// What is known at a moment.
#[derive(Debug, Default)]
struct Marks {
    at: Nanos,
    ages: ToldAges,
}

impl Marks {
    fn ages(&self, now: Nanos) -> ToldAges {
        let passed = now.since(self.at).0;
        self.ages.map(|VersionAge { csn, age }| VersionAge { csn, age: Nanos(age.0.saturating_add(passed)) })
    }
}

impl Ages {
    /// Nothing is known but that no version was drawn before the clock began.
    pub fn new(keep: Nanos) -> Ages {
        Ages { keep, aged: AtomicU64::new(0), marks: Mutex::default() }
    }

    /// Goes on from what an earlier leader told.
    pub fn go_on(&self, now: Nanos, told: ToldAges) {
        *self.marks.lock() = Marks { at: now, ages: told };
        self.find_aged(&told);
    }

    /// Notes that all versions up to `stable` are drawn, and what has grown old meanwhile.
    pub fn advance(&self, now: Nanos, stable: Csn) {
        let mut marks = self.marks.lock();
        let mut ages = marks.ages(now);
        if ages[1].age >= self.keep {
            ages = [ages[1], VersionAge { csn: stable, age: Nanos(0) }];
            *marks = Marks { at: now, ages };
        }
        drop(marks);
        self.find_aged(&ages);
    }

    fn find_aged(&self, ages: &ToldAges) {
        // Relaxed: a value that is seen late only keeps more.
        self.aged.fetch_max(aged(ages, self.keep).0, Ordering::Relaxed);
    }

    /// Whether the version was drawn so long ago that nobody asks for it any more.
    pub fn is_aged(&self, csn: Csn) -> bool {
        // Relaxed: as in `find_aged`.
        csn.0 <= self.aged.load(Ordering::Relaxed)
    }

    /// What a next leader may go on from.
    pub fn told(&self, now: Nanos) -> ToldAges {
        self.marks.lock().ages(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Nanos = Nanos(100);

    fn is_aged(ages: &Ages, csn: u64) -> bool {
        ages.is_aged(Csn(csn))
    }

    #[test]
    fn a_version_is_aged_when_it_was_stable_for_as_long_as_sessions_are_kept() {
        let ages = Ages::new(KEEP);
        ages.advance(Nanos(1000), Csn(5));
        ages.advance(Nanos(1099), Csn(7));
        assert!(is_aged(&ages, 0) && !is_aged(&ages, 5));
        ages.advance(Nanos(1100), Csn(9));
        assert!(is_aged(&ages, 5) && !is_aged(&ages, 6), "the others were seen later");
        ages.advance(Nanos(1199), Csn(12));
        assert!(!is_aged(&ages, 6));
        ages.advance(Nanos(1200), Csn(12));
        assert!(is_aged(&ages, 9) && !is_aged(&ages, 10));
    }

    /// Twenty leaders, each for a fifth of the time that sessions are kept: what the first wrote is aged by
    /// then, and what the last few wrote is not.
    #[test]
    fn leaders_that_follow_each_other_fast_go_on_from_each_other() {
        let mut told = ToldAges::default();
        let (mut now, mut drawn) = (Nanos(0), Vec::new());
        for leader in 1..=20 {
            // Their clocks have nothing to do with each other.
            let clock = Nanos(1_000_000 * (leader * 7 % 5));
            let ages = Ages::new(KEEP);
            ages.go_on(clock, told);
            for step in 1..=20 {
                now = now + Nanos(1);
                drawn.push((now, Csn(drawn.len() as u64 + 1)));
                ages.advance(clock + Nanos(step), Csn(drawn.len() as u64));
                for &(then, csn) in &drawn {
                    assert!(!ages.is_aged(csn) || now.since(then) >= KEEP, "{csn:?} by leader {leader}");
                    assert!(ages.is_aged(csn) || now.since(then) <= Nanos(2 * KEEP.0 + 20), "{csn:?} is old");
                }
            }
            told = ages.told(clock + Nanos(20));
        }
    }
}
