//! The pace of a backup: so many bytes a second at most.

use std::time::{Duration, Instant};

/// How much was taken since when.
pub struct Pace {
    rate: Option<u64>,
    begun: Instant,
    taken: u64,
}

impl Pace {
    /// A pace of so many bytes a second, or none.
    pub fn new(rate: Option<u64>) -> Pace {
        Pace { rate, begun: Instant::now(), taken: 0 }
    }

    /// Notes that so many bytes were taken.
    pub fn took(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// How long to wait before more is taken.
    pub fn wait(&self) -> Option<Duration> {
        self.wait_at(self.begun.elapsed())
    }

    fn wait_at(&self, passed: Duration) -> Option<Duration> {
        let due = Duration::from_secs_f64(self.taken as f64 / self.rate?.max(1) as f64);
        due.checked_sub(passed).filter(|wait| !wait.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_the_rate_allows() {
        let mut pace = Pace::new(Some(1000));
        assert_eq!(pace.wait_at(Duration::ZERO), None);
        pace.took(500);
        assert_eq!(pace.wait_at(Duration::from_millis(200)), Some(Duration::from_millis(300)));
        assert_eq!(pace.wait_at(Duration::from_millis(500)), None);
        let mut free = Pace::new(None);
        free.took(1 << 40);
        assert_eq!(free.wait_at(Duration::ZERO), None);
    }
}
