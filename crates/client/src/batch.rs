//! Keys that are looked up together: the keys without an answer, and the progress of each lookup.

use longarm_base::Nanos;

use crate::link::BATCH;
use crate::lookup::{Lookup, LookupStep};

/// Keys that are looked up together on one connection.
#[derive(Default)]
pub(crate) struct Batch {
    /// The numbers of the keys without an answer.
    pub(crate) rest: Vec<usize>,
    /// The keys among them that are got one by one, since their values are so long, or change so often, or
    /// since the server must be asked for them.
    pub(crate) large: Vec<usize>,
    pub(crate) flights: Vec<BatchLookup>,
    /// The number of READs under way.
    pub(crate) open: usize,
    /// The moment from which the READs count.
    pub(crate) begin: Nanos,
}

impl Batch {
    /// Takes as many numbers, at most; returns whether there was any.
    pub(crate) fn load(&mut self, numbers: &mut impl Iterator<Item = usize>, most: usize) -> bool {
        self.rest.clear();
        self.rest.extend(numbers.take(most));
        !self.rest.is_empty()
    }
}

/// How many keys are looked up together.
///
/// The READs of a batch count if all of them are complete within the lease. Where a round trip is slow, those
/// of a full batch may never be, and to try the same again would be in vain each time. So after such a batch
/// fewer keys are looked up together, half as many each time, and after some that counted a quarter more.
pub(crate) struct BatchLimit {
    keys: usize,
    /// Whether the batch before was late. One alone may be so by chance: its thread had no core.
    late: bool,
    /// Batches of so many keys in a row that counted.
    good: u32,
}

/// Batches that count before more keys are tried.
const GOOD: u32 = 8;

impl Default for BatchLimit {
    fn default() -> BatchLimit {
        BatchLimit { keys: BATCH, late: false, good: 0 }
    }
}

impl BatchLimit {
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    /// The READs of a batch of so many keys were complete within the lease.
    pub(crate) fn counted(&mut self, keys: usize) {
        self.late = false;
        if keys < self.keys || self.keys == BATCH {
            return;
        }
        self.good += 1;
        if self.good == GOOD {
            (self.keys, self.good) = ((self.keys + self.keys / 4 + 1).min(BATCH), 0);
        }
    }

    /// They were not.
    pub(crate) fn late(&mut self, keys: usize) {
        self.good = 0;
        if std::mem::replace(&mut self.late, true) {
            self.keys = (keys / 2).clamp(1, self.keys);
        }
    }
}

/// One key's lookup in a batch.
pub(crate) struct BatchLookup {
    pub(crate) key: usize,
    pub(crate) lookup: Lookup,
    pub(crate) step: LookupStep,
    /// Whether the READ that it wants is in the queue.
    pub(crate) posted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries batches until all keys are there, where so many at a time are complete within the lease; how
    /// many lookups that took.
    fn lookups(limit: &mut BatchLimit, mut keys: usize, within: usize) -> usize {
        let mut lookups = 0;
        while keys > 0 {
            let tried = limit.keys().min(keys);
            lookups += tried;
            if tried <= within {
                keys -= tried;
                limit.counted(tried);
            } else {
                limit.late(tried);
            }
        }
        lookups
    }

    #[test]
    fn as_many_keys_are_looked_up_together_as_a_lease_allows() {
        for within in 1..=BATCH {
            let mut limit = BatchLimit::default();
            let first = lookups(&mut limit, BATCH, within);
            assert!(first <= 5 * BATCH, "{within}: {first}");
            let later = lookups(&mut limit, 100 * BATCH, within);
            assert!(later <= 180 * BATCH, "{within}: {later}");
        }
    }

    #[test]
    fn a_batch_that_is_late_by_chance_changes_nothing() {
        let mut limit = BatchLimit::default();
        for _ in 0..10 {
            limit.late(BATCH);
            limit.counted(BATCH);
            assert_eq!(limit.keys(), BATCH);
        }
        // Slow for a time, and quick again.
        (0..10).for_each(|_| limit.late(limit.keys()));
        assert_eq!(limit.keys(), 1);
        lookups(&mut limit, 100 * BATCH, BATCH);
        assert_eq!(limit.keys(), BATCH);
    }
}
