//! How much of the arena a follower looks at for its standby index: little while its group writes much and
//! its machine has no core to spare, more otherwise.
//!
//! What a follower has not looked at is left to do when it becomes the leader (`standby.rs`), so it keeps up
//! where that takes no time from others. Where much is written and all cores are busy, it would take its core
//! from the threads that write; an operator may want that nevertheless ([`KeepUp::Always`]).

use longarm_base::Nanos;
use longarm_store::WriteWindow;

use crate::common::KeepUp;

/// The shortest time between two looks, and how much of a longer time a look makes up for at most.
const EVERY: Nanos = Nanos::from_millis(5);
const MISSED: Nanos = Nanos::from_millis(20);
/// The time between two looks while nothing is written and all was looked at.
const RESTED: Nanos = Nanos::from_millis(40);
/// The number of bytes that a follower looks at in a second, about: half a hundredth of a core's time.
const RATE: u64 = 3 << 20;
/// By how much that rate is multiplied while little is written, or a core is idle: up to a quarter of a
/// core's time. While little is written short entries take a hundredth of it. Twelve thousand values of ten
/// kilobytes a second must not outrun the follower: what it did not look at is left to the next leader, at a
/// time when no client is served.
const HURRY: u64 = 128;
/// A core is to spare if the idle times of all cores add up to this part of the time: one half. Several
/// followers may share that core.
const IDLE: u64 = 2;

/// When the follower looked last, and how much was written since.
pub(super) struct Pace {
    keep_up: KeepUp,
    /// When the follower looked last; in the future, if it is to wait for longer.
    at: Nanos,
    /// How much was written by the last look, if that came to the end of all there was.
    all: Option<u64>,
    window: WriteWindow,
    /// How long the machine's cores together had been idle when the window began.
    idle: Option<Nanos>,
    /// Whether the follower takes up to a quarter of a core: in the last window little was written, or a core
    /// was idle.
    hurries: bool,
}

impl Pace {
    /// The pace of a follower that has not looked yet.
    pub fn new(keep_up: KeepUp) -> Pace {
        Pace {
            keep_up,
            at: Nanos::default(),
            all: None,
            window: WriteWindow::default(),
            idle: None,
            hurries: keep_up == KeepUp::Always,
        }
    }

    /// Whether it is time to look.
    pub fn is_due(&self, now: Nanos) -> bool {
        now.since(self.at) >= EVERY
    }

    /// Whether a look that is due would find nothing and may wait: of what is written all was looked at.
    pub fn may_rest(&self, now: Nanos, written: u64) -> bool {
        self.all == Some(written) && now.since(self.at) < RESTED
    }

    /// Notes a look at this much written; `all`: it came to the end of it.
    pub fn looked(&mut self, all: bool, written: u64) {
        self.all = all.then_some(written);
    }

    /// The number of bytes to look at now. `written` is how many positions of all streams together are known
    /// to be here, and `idle` how long all of the machine's cores together have been idle, if that is known.
    pub fn step(&mut self, now: Nanos, written: u64, idle: impl FnOnce() -> Option<Nanos>) -> u64 {
        if let Some(ended) = self.window.end(now, written) {
            let before = std::mem::replace(&mut self.idle, idle());
            let rested = self.idle.zip(before).map_or(0, |(now, then)| now.since(then).0);
            self.hurries = self.keep_up == KeepUp::Always || ended.little || rested >= ended.passed.0 / IDLE;
        }
        let past = now.since(self.at).0;
        self.at = now;
        let rate = if self.hurries { HURRY * RATE } else { RATE };
        rate * past.min(MISSED.0) / 1_000_000_000
    }

    /// Has the follower look at nothing before `until`.
    pub fn wait(&mut self, until: Nanos) {
        self.at = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of `times` looks, 10 ms apart, while `each` entries are written between two of them.
    fn looks(pace: &mut Pace, written: &mut u64, times: u64, each: u64) -> u64 {
        let look = |_| {
            let now = pace.at + Nanos::from_millis(10);
            assert!(pace.is_due(now));
            *written += each;
            pace.step(now, *written, || None)
        };
        (0..times).map(look).sum()
    }

    #[test]
    fn it_keeps_to_its_rate_while_much_is_written_and_hurries_afterwards() {
        let (mut pace, mut written) = (Pace::new(KeepUp::WhileIdle), 0);
        let mut looks = |times, each| looks(&mut pace, &mut written, times, each);
        let (slow, fast) = (RATE / 100, HURRY * RATE / 100);
        assert_eq!(looks(100, 3_000), 100 * slow);
        assert_eq!(looks(10, 320), 9 * slow + fast, "a window ends with its last look");
        // Much that is written at once is little over the window.
        assert_eq!(looks(1, 3_200) + looks(9, 0), 10 * fast);
        assert_eq!(looks(10, 321), 9 * fast + slow);
    }

    #[test]
    fn it_keeps_up_with_what_is_written_while_a_core_is_idle() {
        let (mut pace, mut written, mut rested) = (Pace::new(KeepUp::WhileIdle), 0, Nanos(0));
        let (slow, fast) = (RATE / 50, HURRY * RATE / 50);
        // Each look is a tenth of a second after the one before. `idle` is how long cores were idle in it.
        let mut bytes = |idle: Option<u64>| {
            rested = rested + Nanos::from_millis(idle.unwrap_or(0));
            (written, pace.at) = (written + 1_000_000, pace.at + Nanos::from_millis(80));
            pace.step(pace.at + Nanos(MISSED.0), written, || idle.map(|_| rested))
        };
        assert_eq!(bytes(Some(0)), slow);
        assert_eq!([Some(49), Some(50), Some(1600), Some(49)].map(&mut bytes), [slow, fast, fast, slow]);
        assert_eq!([None, Some(200), Some(200)].map(bytes), [slow, slow, fast], "it is to know both ends");
    }

    #[test]
    fn it_hurries_always_if_that_is_wanted() {
        let (mut pace, mut written) = (Pace::new(KeepUp::Always), 0);
        assert_eq!(looks(&mut pace, &mut written, 100, 3_000), 100 * (HURRY * RATE / 100));
    }

    #[test]
    fn it_rests_where_all_was_looked_at_until_more_is_written() {
        let mut pace = Pace::new(KeepUp::WhileIdle);
        let now = pace.at + Nanos::from_millis(500);
        assert!(!pace.may_rest(now, 0), "it has not looked yet");
        pace.step(now, 7, || None);
        pace.looked(true, 7);
        let (soon, later) = (now + EVERY, now + RESTED);
        assert!(pace.may_rest(soon, 7) && !pace.may_rest(soon, 8) && !pace.may_rest(later, 7));
        pace.looked(false, 7);
        assert!(!pace.may_rest(soon, 7), "there was more");
    }

    #[test]
    fn what_it_missed_is_made_up_for_in_part() {
        let mut pace = Pace::new(KeepUp::WhileIdle);
        let late = pace.at + Nanos::from_millis(5_000);
        assert_eq!(pace.step(late, 0, || None), HURRY * RATE * MISSED.0 / 1_000_000_000);
        assert!(!pace.is_due(late + Nanos(EVERY.0 - 1)));
        pace.wait(late + Nanos::from_millis(100));
        assert!(!pace.is_due(late + Nanos::from_millis(100)));
    }
}
