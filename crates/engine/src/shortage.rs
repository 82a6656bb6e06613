//! A shortage of memory: whether a write that found none waits or is refused.
//!
//! How long a write waits is counted in the time that the maintenance thread had for its work, not by the
//! clock. A machine that is suspended, or a process that is stopped, frees nothing meanwhile; a wait by the
//! clock would be over before anything was tried.
//!
//! Writes that wait try again one after the other, and so may find that younger ones have taken what was
//! freed. A write whose wait is half over insists: younger ones leave the next segment to it.

use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::Nanos;

use crate::outcome::Short;

/// How long a finding that nothing can be freed holds.
const EXHAUSTED_FOR: Nanos = Nanos::from_millis(10);
/// A shortage that pauses for so long begins anew: earlier findings no longer count.
const EPISODE: Nanos = Nanos::from_millis(1000);
/// Within this time of work collection and eviction show a first gain, or there is none to be had.
const FIRST_GAIN: Nanos = Nanos::from_millis(50);
/// How long a write insists, after it last said so. A write that waits tries again each millisecond.
const INSISTS_FOR: Nanos = Nanos::from_millis(5);
/// The most that counts as work between two passes of the maintenance thread: a little more than its longest
/// sleep.
const WORK_MOST: Nanos = Nanos::from_millis(100);

/// Hints between writers that found no memory and the maintenance thread. All words are Relaxed: each has its
/// time on it.
#[derive(Debug, Default)]
pub struct Shortage {
    /// When a writer last found no memory, by the clock.
    last: AtomicU64,
    /// When the shortage began, without a pause of [`EPISODE`], in time of work.
    since: AtomicU64,
    /// When the maintenance thread found that nothing can be freed, by the clock; zero if it did not.
    exhausted: AtomicU64,
    /// The time of work until now.
    worked: AtomicU64,
    /// When a write last insisted, by the clock, and when the wait of that one ends, in time of work.
    insisted: AtomicU64,
    eldest: AtomicU64,
}

fn get(word: &AtomicU64) -> Nanos {
    // Relaxed: a hint with a time on it, see `Shortage`.
    Nanos(word.load(Ordering::Relaxed))
}

fn set(word: &AtomicU64, time: Nanos) {
    // Relaxed: as in `get`.
    word.store(time.0, Ordering::Relaxed);
}

impl Shortage {
    /// Says at `now` whether a write that found no memory waits or is refused.
    #[cold]
    pub fn meet(&self, now: Nanos) -> Short {
        let before = get(&self.last);
        set(&self.last, now);
        if now.since(before) > EPISODE || before == Nanos(0) {
            set(&self.since, self.worked());
            set(&self.exhausted, Nanos(0));
        }
        let exhausted = get(&self.exhausted);
        if exhausted != Nanos(0) && now.since(exhausted) < EXHAUSTED_FOR {
            return Short::Refused;
        }
        Short::Wait
    }

    /// An item was removed: an earlier finding that nothing can be freed counts no more.
    #[inline]
    pub fn hope(&self) {
        if get(&self.exhausted) != Nanos(0) {
            set(&self.since, self.worked());
            set(&self.exhausted, Nanos(0));
        }
    }

    /// A write that waits until then, in time of work, insists at `now`. Of several the eldest does.
    #[cold]
    pub fn insist(&self, until: Nanos, now: Nanos) {
        if until <= get(&self.eldest) || now.since(get(&self.insisted)) >= INSISTS_FOR {
            set(&self.eldest, until);
            set(&self.insisted, now);
        }
    }

    /// Whether a write, which waits until then if it has waited before, leaves segments to one that insists.
    #[inline]
    pub fn yields(&self, until: Option<Nanos>, now: Nanos) -> bool {
        let insisted = get(&self.insisted);
        let insists = insisted != Nanos(0) && now.since(insisted) < INSISTS_FOR;
        insists && until.is_none_or(|until| until > get(&self.eldest))
    }

    /// The time that the maintenance thread had for its work since the start.
    pub fn worked(&self) -> Nanos {
        get(&self.worked)
    }

    /// The maintenance thread begins a pass, so long after the one before. Returns the time of work until
    /// now.
    pub fn work(&self, passed: Nanos) -> Nanos {
        let worked = self.worked() + passed.min(WORK_MOST);
        set(&self.worked, worked);
        worked
    }

    /// Notes that the maintenance thread has nothing to do at `now`, and last gained something at `gained` of
    /// its time of work. Memory in quarantine is such a gain, as it will be free.
    pub fn nothing_to_gain(&self, now: Nanos, gained: Nanos, quarantine: Nanos) {
        let since = get(&self.since).max(gained);
        let wanted = now.since(get(&self.last)) < EPISODE;
        if wanted && self.worked().since(since) > quarantine + FIRST_GAIN {
            set(&self.exhausted, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Nanos = Nanos::from_millis(1);
    const QUARANTINE: Nanos = Nanos::from_millis(100);

    fn millis(count: u64) -> Nanos {
        Nanos::from_millis(count)
    }

    /// The maintenance thread passes every millisecond of these, in vain; returns whether writers are refused
    /// at their end.
    fn in_vain(shortage: &Shortage, times: std::ops::Range<u64>, gained: Nanos) -> bool {
        for at in times.clone() {
            shortage.work(MILLI);
            shortage.meet(millis(at));
            shortage.nothing_to_gain(millis(at), gained, QUARANTINE);
        }
        shortage.meet(millis(times.end)) == Short::Refused
    }

    #[test]
    fn a_write_is_refused_once_nothing_can_be_freed() {
        let shortage = Shortage::default();
        assert!(!in_vain(&shortage, 1..150, Nanos(0)));
        assert!(in_vain(&shortage, 150..153, Nanos(0)));
        assert_eq!(shortage.meet(millis(153) + EXHAUSTED_FOR), Short::Wait, "it looks again");
        assert!(in_vain(&shortage, 170..171, Nanos(0)));
        let gained = shortage.worked();
        assert!(!in_vain(&shortage, 190..330, gained));
        assert!(in_vain(&shortage, 330..350, gained));
        assert!(!in_vain(&shortage, 2_000..2_100, gained), "another shortage");
    }

    #[test]
    fn a_removal_gives_hope() {
        let shortage = Shortage::default();
        assert!(in_vain(&shortage, 1..153, Nanos(0)));
        shortage.hope();
        assert_eq!(shortage.meet(millis(153)), Short::Wait);
        assert!(!in_vain(&shortage, 153..300, Nanos(0)));
        assert!(in_vain(&shortage, 300..310, Nanos(0)), "it was vain");
    }

    #[test]
    fn younger_writes_yield_to_the_eldest_that_insists() {
        let shortage = Shortage::default();
        let yields = |until| shortage.yields(until, millis(100));
        assert!(!yields(None));
        shortage.insist(millis(4_000), millis(99));
        assert!(yields(None) && yields(Some(millis(4_001))));
        assert!(!yields(Some(millis(4_000))) && !yields(Some(millis(3_999))));
        shortage.insist(millis(3_999), millis(100));
        shortage.insist(millis(5_000), millis(100));
        assert!(yields(Some(millis(4_000))) && !yields(Some(millis(3_999))));
        assert!(!shortage.yields(None, millis(100) + INSISTS_FOR), "it says so no more");
        shortage.insist(millis(9_000), millis(100) + INSISTS_FOR);
        assert!(!shortage.yields(Some(millis(5_000)), millis(101) + INSISTS_FOR), "this one is the eldest");
    }

    #[test]
    fn a_pause_of_the_machine_is_no_time_in_which_memory_could_be_freed() {
        let shortage = Shortage::default();
        assert!(!in_vain(&shortage, 1..40, Nanos(0)));
        shortage.work(millis(5_000));
        assert_eq!(shortage.worked(), millis(39) + WORK_MOST);
        shortage.nothing_to_gain(millis(5_040), Nanos(0), QUARANTINE);
        assert!(!in_vain(&shortage, 5_041..5_050, Nanos(0)));
    }
}
