//! A worker's signs of life, and its counters. The worker writes them; the heart and the statistics read
//! them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use longarm_base::Nanos;
use longarm_wire::RequestKind;

/// The number of kinds of requests.
pub const KINDS: usize = 10;

/// A worker's signs of life, and its counters. All loads and stores are Relaxed, unless noted: each word
/// stands for itself. The alignment keeps two workers from sharing a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Pulse {
    /// How often the worker's loop has turned.
    rounds: AtomicU64,
    /// Whether the worker sleeps until there is something to do.
    sleeping: AtomicBool,
    /// Until when a long copy that is under way may take.
    patience: AtomicU64,
    /// Whether the worker has answered all requests that had arrived when the stop began.
    drained: AtomicBool,
    /// The number of connections that the worker serves, or is about to.
    pub load: AtomicUsize,
    kinds: [AtomicU64; KINDS],
    /// Whether a test makes the worker hang.
    #[cfg(test)]
    pub hang: AtomicBool,
}

impl Pulse {
    /// Counts a turn of the worker's loop.
    #[inline]
    pub fn round(&self) {
        // Relaxed: as said above; one writer, so load and store suffice.
        self.rounds.store(self.rounds.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How often the worker's loop has turned.
    pub fn rounds(&self) -> u64 {
        // Relaxed: as said above.
        self.rounds.load(Ordering::Relaxed)
    }

    /// Notes whether the worker sleeps.
    pub fn set_sleeping(&self, sleeping: bool) {
        // Relaxed: as said above.
        self.sleeping.store(sleeping, Ordering::Relaxed);
    }

    /// Whether the worker sleeps.
    pub fn is_sleeping(&self) -> bool {
        // Relaxed: as said above.
        self.sleeping.load(Ordering::Relaxed)
    }

    /// Asks that the worker not be taken for stuck before `until`.
    pub fn be_patient(&self, until: Nanos) {
        // Relaxed: as said above.
        self.patience.store(until.0, Ordering::Relaxed);
    }

    /// Until when the worker asks not to be taken for stuck.
    pub fn patience(&self) -> Nanos {
        // Relaxed: as said above.
        Nanos(self.patience.load(Ordering::Relaxed))
    }

    /// Notes that the worker has answered all requests that had arrived when the stop began.
    pub fn set_drained(&self) {
        // Release: publishes what the worker answered before; pairs with `is_drained`.
        self.drained.store(true, Ordering::Release);
    }

    /// Whether the worker has answered all requests that had arrived when the stop began.
    pub fn is_drained(&self) -> bool {
        // Acquire: pairs with `set_drained`.
        self.drained.load(Ordering::Acquire)
    }

    /// Counts a request that was answered.
    #[inline]
    pub fn count(&self, kind: RequestKind) {
        let counter = &self.kinds[kind as usize];
        // Relaxed: as said above; one writer.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How many requests of this kind were answered.
    pub fn counted(&self, kind: RequestKind) -> u64 {
        // Relaxed: as said above.
        self.kinds[kind as usize].load(Ordering::Relaxed)
    }
}
