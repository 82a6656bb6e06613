//! How much a follower looks at ahead: little while its group writes, more once that is over.
//!
//! While much is written its core belongs to whoever writes, and it could not keep up anyway. Afterwards what
//! it has not looked at would be missing from the next leader's index (`ahead.rs`), so it hurries.

use longarm_base::Nanos;

/// Between two looks, at least, and what of a longer time is made up for at most.
const EVERY: Nanos = Nanos::from_millis(5);
const MISSED: Nanos = Nanos::from_millis(20);
/// Bytes that it looks at in a second, about: half a hundredth of a core's time.
const RATE: u64 = 3 << 20;
/// So many times that while little is written.
const HURRY: u64 = 8;
/// Little are so many entries a second: those that it keeps up with in any case.
const LITTLE: u64 = 8_000;
/// It hurries after so many looks that found little written: floors arrive in bursts.
const CALM: u32 = 8;

/// When it looked, and what was written since.
#[derive(Default)]
pub(super) struct Pace {
    /// When it looked last; in the future, if it is to wait for longer.
    at: Nanos,
    /// Positions of all streams that were known to be here then.
    written: u64,
    /// Looks since much was written.
    calm: u32,
}

impl Pace {
    /// Whether it is time to look.
    pub fn is_due(&self, now: Nanos) -> bool {
        now.since(self.at) >= EVERY
    }

    /// How many bytes to look at now. `written`: positions of all streams that are known to be here.
    pub fn step(&mut self, now: Nanos, written: u64) -> u64 {
        let past = now.since(self.at).0;
        // A new term counts anew.
        let news = written.saturating_sub(self.written);
        let is_little = u128::from(news) * 1_000_000_000 <= u128::from(LITTLE) * u128::from(past);
        self.calm = if is_little { self.calm.saturating_add(1) } else { 0 };
        (self.at, self.written) = (now, written);
        let rate = if self.calm > CALM { HURRY * RATE } else { RATE };
        rate * past.min(MISSED.0) / 1_000_000_000
    }

    /// There is nothing to look at before `until`.
    pub fn wait(&mut self, until: Nanos) {
        self.at = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of `times` looks, 10 ms apart, while `each` entries are written between two of them.
    fn looks(pace: &mut Pace, times: u64, each: u64) -> u64 {
        let look = |_| {
            let now = pace.at + Nanos::from_millis(10);
            assert!(pace.is_due(now));
            pace.step(now, pace.written + each)
        };
        (0..times).map(look).sum()
    }

    #[test]
    fn it_keeps_to_its_rate_while_much_is_written_and_hurries_afterwards() {
        let mut pace = Pace::default();
        assert_eq!(looks(&mut pace, 100, 3_000), 100 * (RATE / 100));
        // Some of what was written is told of late.
        assert_eq!(looks(&mut pace, u64::from(CALM), 0), u64::from(CALM) * (RATE / 100));
        assert_eq!(looks(&mut pace, 100, 80), 100 * (HURRY * RATE / 100));
        assert_eq!(looks(&mut pace, 1, 81), RATE / 100);
    }

    #[test]
    fn what_it_missed_is_made_up_for_in_part() {
        let mut pace = Pace::default();
        let late = pace.at + Nanos::from_millis(5_000);
        assert_eq!(pace.step(late, 0), RATE * MISSED.0 / 1_000_000_000);
        assert!(!pace.is_due(late + Nanos(EVERY.0 - 1)));
        pace.wait(late + Nanos::from_millis(100));
        assert!(!pace.is_due(late + Nanos::from_millis(100)));
    }
}
