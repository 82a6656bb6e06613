//! A worker's sign of life, and what it counts. Written by that worker alone, read by heartbeat and
//! statistics.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use longarm_base::Nanos;
use longarm_wire::RequestKind;

/// Kinds of requests.
pub const KINDS: usize = 9;

/// All Relaxed: each word stands for itself. Aligned so that two workers never share a line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Pulse {
    /// Turns of its loop.
    rounds: AtomicU64,
    /// It sleeps until there is something to do.
    sleeping: AtomicBool,
    /// A long copy is under way and may take until then.
    patience: AtomicU64,
    /// It has answered everything that had arrived when the stop began.
    drained: AtomicBool,
    /// Connections it serves or is about to.
    pub load: AtomicUsize,
    kinds: [AtomicU64; KINDS],
    /// Tests make it hang here.
    #[cfg(test)]
    pub hang: AtomicBool,
}

impl Pulse {
    /// The worker's loop has turned.
    #[inline]
    pub fn round(&self) {
        // Relaxed: as said above; one writer, so load and store suffice.
        self.rounds.store(self.rounds.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How often it has.
    pub fn rounds(&self) -> u64 {
        // Relaxed: as said above.
        self.rounds.load(Ordering::Relaxed)
    }

    /// The worker sleeps, or does no more.
    pub fn set_sleeping(&self, sleeping: bool) {
        // Relaxed: as said above.
        self.sleeping.store(sleeping, Ordering::Relaxed);
    }

    /// Whether it sleeps.
    pub fn is_sleeping(&self) -> bool {
        // Relaxed: as said above.
        self.sleeping.load(Ordering::Relaxed)
    }

    /// Asks not to be taken for stuck until then.
    pub fn be_patient(&self, until: Nanos) {
        // Relaxed: as said above.
        self.patience.store(until.0, Ordering::Relaxed);
    }

    /// Until when it asks not to be taken for stuck.
    pub fn patience(&self) -> Nanos {
        // Relaxed: as said above.
        Nanos(self.patience.load(Ordering::Relaxed))
    }

    /// All that had arrived when the stop began is answered.
    pub fn set_drained(&self) {
        // Release: what was answered before; pairs with `is_drained`.
        self.drained.store(true, Ordering::Release);
    }

    /// Whether it is.
    pub fn is_drained(&self) -> bool {
        // Acquire: pairs with `set_drained`.
        self.drained.load(Ordering::Acquire)
    }

    /// A request was answered.
    #[inline]
    pub fn count(&self, kind: RequestKind) {
        let counter = &self.kinds[kind as usize];
        // Relaxed: as said above; one writer.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How many of this kind were.
    pub fn counted(&self, kind: RequestKind) -> u64 {
        // Relaxed: as said above.
        self.kinds[kind as usize].load(Ordering::Relaxed)
    }
}
