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
/// So many times that while little is written. Twelve thousand values of ten kilobytes a second are not to
/// outrun it: what it did not look at is left to the next leader, while nobody is served.
const HURRY: u64 = 128;
/// Little are so many entries a second, what is moved included: to keep up with short ones takes a hundredth
/// of a core's time.
const LITTLE: u64 = 32_000;
/// How much is written is found out over this time: floors arrive in bursts, and so does what is moved.
const WINDOW: Nanos = Nanos::from_millis(100);

/// When it looked, and what was written since.
#[derive(Default)]
pub(super) struct Pace {
    /// When it looked last; in the future, if it is to wait for longer.
    at: Nanos,
    /// When the window began, and the positions of all streams that were known to be here then.
    window: (Nanos, u64),
    /// Little was written in the last window.
    hurries: bool,
}

impl Pace {
    /// Whether it is time to look.
    pub fn is_due(&self, now: Nanos) -> bool {
        now.since(self.at) >= EVERY
    }

    /// How many bytes to look at now. `written`: positions of all streams that are known to be here.
    pub fn step(&mut self, now: Nanos, written: u64) -> u64 {
        let (begun, before) = self.window;
        let window = now.since(begun);
        // A new term counts anew.
        let news = written.saturating_sub(before);
        if window >= WINDOW {
            let little = u128::from(LITTLE) * u128::from(window.0);
            (self.hurries, self.window) = (u128::from(news) * 1_000_000_000 <= little, (now, written));
        }
        let past = now.since(self.at).0;
        self.at = now;
        let rate = if self.hurries { HURRY * RATE } else { RATE };
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
    fn looks(pace: &mut Pace, written: &mut u64, times: u64, each: u64) -> u64 {
        let look = |_| {
            let now = pace.at + Nanos::from_millis(10);
            assert!(pace.is_due(now));
            *written += each;
            pace.step(now, *written)
        };
        (0..times).map(look).sum()
    }

    #[test]
    fn it_keeps_to_its_rate_while_much_is_written_and_hurries_afterwards() {
        let (mut pace, mut written) = (Pace::default(), 0);
        let mut looks = |times, each| looks(&mut pace, &mut written, times, each);
        let (slow, fast) = (RATE / 100, HURRY * RATE / 100);
        assert_eq!(looks(100, 3_000), 100 * slow);
        assert_eq!(looks(10, 320), 9 * slow + fast, "a window ends with its last look");
        // Much at a time is not much.
        assert_eq!(looks(1, 3_200) + looks(9, 0), 10 * fast);
        assert_eq!(looks(10, 321), 9 * fast + slow);
    }

    #[test]
    fn what_it_missed_is_made_up_for_in_part() {
        let mut pace = Pace::default();
        let late = pace.at + Nanos::from_millis(5_000);
        assert_eq!(pace.step(late, 0), HURRY * RATE * MISSED.0 / 1_000_000_000);
        assert!(!pace.is_due(late + Nanos(EVERY.0 - 1)));
        pace.wait(late + Nanos::from_millis(100));
        assert!(!pace.is_due(late + Nanos::from_millis(100)));
    }
}
