//! The memory limit of one server, shared by everything that takes from it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts bytes against a limit.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes, none used.
    pub fn new(limit: u64) -> Budget {
        Budget { limit, used: AtomicU64::new(0) }
    }

    /// Takes `bytes`, or nothing if they would exceed the limit.
    #[must_use]
    pub fn take(&self, bytes: u64) -> bool {
        // Relaxed: a counter that publishes nothing else.
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|&sum| sum <= self.limit)
        });
        taken.is_ok()
    }

    /// Takes `bytes` also beyond the limit: for what must not fail. Others get nothing until that much is
    /// given back.
    pub fn take_anyway(&self, bytes: u64) {
        // Relaxed: as in `take`.
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives back what was taken.
    pub fn give(&self, bytes: u64) {
        // Relaxed: as in `take`.
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "gave back {bytes} bytes of {before} taken");
    }

    /// Bytes taken.
    pub fn used(&self) -> u64 {
        // Relaxed: as in `take`.
        self.used.load(Ordering::Relaxed)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_up_to_the_limit_and_no_further() {
        let budget = Budget::new(10);
        assert!(budget.take(7) && budget.take(3));
        assert!(!budget.take(1) && !budget.take(u64::MAX));
        budget.give(3);
        assert_eq!(budget.used(), 7);
        budget.take_anyway(20);
        assert!(!budget.take(0) && budget.used() == 27);
    }
}
