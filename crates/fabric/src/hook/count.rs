//! Counts requests, bytes and doorbells. "One READ per lookup" is a test with this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pass_through;
use crate::{Completion, Completions, Op, PostError, QueuePair, SetupError, Ticket};

/// Counters of one or many queue pairs. Requests that were refused at the post are not counted.
#[derive(Debug, Default)]
pub struct QueuePairCounts {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_imms: AtomicU64,
    sends: AtomicU64,
    sent_bytes: AtomicU64,
    atomics: AtomicU64,
    rings: AtomicU64,
    arrivals: AtomicU64,
    failures: AtomicU64,
    revocations: AtomicU64,
}

/// What the counters showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountsSeen {
    /// READs posted.
    pub reads: u64,
    /// Bytes they asked for.
    pub read_bytes: u64,
    /// WRITEs posted, those with an immediate aside.
    pub writes: u64,
    /// WRITE_WITH_IMMs posted.
    pub write_imms: u64,
    /// SENDs posted.
    pub sends: u64,
    /// Bytes of WRITEs, WRITE_WITH_IMMs and SENDs.
    pub sent_bytes: u64,
    /// CAS and FAA posted.
    pub atomics: u64,
    /// Doorbells.
    pub rings: u64,
    /// WRITE_WITH_IMMs and SENDs of the peer.
    pub arrivals: u64,
    /// Requests that completed with an error.
    pub failures: u64,
    /// Peers that were revoked.
    pub revocations: u64,
}

impl QueuePairCounts {
    /// All counters; each is read at a moment of its own.
    pub fn see(&self) -> CountsSeen {
        // Relaxed: statistics that publish nothing.
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CountsSeen {
            reads: get(&self.reads),
            read_bytes: get(&self.read_bytes),
            writes: get(&self.writes),
            write_imms: get(&self.write_imms),
            sends: get(&self.sends),
            sent_bytes: get(&self.sent_bytes),
            atomics: get(&self.atomics),
            rings: get(&self.rings),
            arrivals: get(&self.arrivals),
            failures: get(&self.failures),
            revocations: get(&self.revocations),
        }
    }
}

fn add(counter: &AtomicU64, more: u64) {
    // Relaxed: as in `see`.
    counter.fetch_add(more, Ordering::Relaxed);
}

/// A queue pair that counts.
#[derive(Debug)]
pub struct Counted<Q> {
    inner: Q,
    counts: Arc<QueuePairCounts>,
}

impl<Q: QueuePair> Counted<Q> {
    /// Counts `inner` into `counts`, which may be shared.
    pub fn new(inner: Q, counts: Arc<QueuePairCounts>) -> Counted<Q> {
        Counted { inner, counts }
    }
}

impl<Q: QueuePair> QueuePair for Counted<Q> {
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        self.inner.post(op, ticket)?;
        let counts = &*self.counts;
        match op {
            Op::Read { from, .. } => {
                add(&counts.reads, 1);
                add(&counts.read_bytes, u64::from(from.len));
            }
            Op::Write { bytes, .. } => {
                add(&counts.writes, 1);
                add(&counts.sent_bytes, bytes.len() as u64);
            }
            Op::WriteImm { bytes, .. } => {
                add(&counts.write_imms, 1);
                add(&counts.sent_bytes, bytes.len() as u64);
            }
            Op::Send { bytes } => {
                add(&counts.sends, 1);
                add(&counts.sent_bytes, bytes.len() as u64);
            }
            Op::CompareSwap { .. } | Op::FetchAdd { .. } => add(&counts.atomics, 1),
        }
        Ok(())
    }

    fn ring(&mut self) {
        add(&self.counts.rings, 1);
        self.inner.ring()
    }

    fn poll(&mut self, done: &mut Completions) -> usize {
        let before = done.as_slice().len();
        let count = self.inner.poll(done);
        for completion in &done.as_slice()[before..] {
            match completion {
                Completion::Done(_, Ok(_)) => {}
                Completion::Done(_, Err(_)) => add(&self.counts.failures, 1),
                Completion::Arrived { .. } | Completion::Message { .. } => add(&self.counts.arrivals, 1),
            }
        }
        count
    }

    fn revoke(&mut self) -> Result<(), SetupError> {
        add(&self.counts.revocations, 1);
        self.inner.revoke()
    }

    pass_through!(landing message release arm wait state granted fence);

    fn describe(&self) -> String {
        format!("counted {}", self.inner.describe())
    }
}
