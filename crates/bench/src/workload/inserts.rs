//! The counter that hands out the numbers of new records and knows which of them exist.
//!
//! Writes: every client thread of a run. Reads: the same threads, to choose among existing records.
//! (1) A number is handed out once. (2) `limit` is the highest number such that it and all below it were
//! acknowledged, so a client that reads at or below it reads records that exist (YCSB's
//! `AcknowledgedCounterGenerator`).

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of new records.
pub struct Inserts {
    next: AtomicU64,
    /// Highest number ever handed out, plus one.
    most: AtomicU64,
    /// Number of records that exist without a gap: one above YCSB's `limit`.
    existing: AtomicU64,
    /// Acknowledged numbers above a gap; at most one batch a client.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    /// Records 0..existing are there already.
    pub fn new(existing: u64) -> Inserts {
        Inserts {
            next: AtomicU64::new(existing),
            most: AtomicU64::new(existing),
            existing: AtomicU64::new(existing),
            ahead: Mutex::new(BTreeSet::new()),
        }
    }

    /// A number for a new record.
    pub fn take(&self) -> u64 {
        // Relaxed: a number publishes nothing.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The store answered the insert of `number` (also when it refused: the reader then sees a miss).
    pub fn acknowledge(&self, number: u64) {
        let mut ahead = self.ahead.lock().expect("no holder of this lock panics");
        // Relaxed: changed under the lock alone.
        let mut existing = self.existing.load(Ordering::Relaxed);
        ahead.insert(number);
        while ahead.remove(&existing) {
            existing += 1;
        }
        // Release: the insert was answered before; pairs with the Acquire in `existing`.
        self.existing.store(existing, Ordering::Release);
    }

    /// How many records exist without a gap.
    #[inline]
    pub fn existing(&self) -> u64 {
        // Acquire: pairs with the Release in `acknowledge`.
        self.existing.load(Ordering::Acquire)
    }

    /// All numbers below this may be in the store, none above.
    pub fn most(&self) -> u64 {
        // Relaxed: asked when the clients have ended (a join orders that).
        self.most.load(Ordering::Relaxed).max(self.next.load(Ordering::Relaxed))
    }

    /// Forgets numbers that were handed out and never acknowledged, at the end of a run.
    pub fn settle(&mut self) {
        let known = *self.existing.get_mut();
        let next = std::mem::replace(self.next.get_mut(), known);
        let most = self.most.get_mut();
        *most = next.max(*most);
        self.ahead.get_mut().expect("no holder of this lock panics").clear();
    }
}
