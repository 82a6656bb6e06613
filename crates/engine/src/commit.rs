//! When a write takes effect, and the state that the writes of a group share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::limits::LINE;
use longarm_base::{EntryRef, Mutant, Nanos, Term};
use longarm_memory::{Hash, Mapped};
use longarm_store::EntryKind;
use longarm_store::progress::ProgressWords;

use crate::outcome::Short;
use crate::reclaim::deletes::Deletes;
use crate::stripes::{Stripe, Stripes};

/// When a write takes effect. Chosen once, when the engine is made.
#[derive(Debug)]
pub enum Commit {
    /// At once: the server has no followers.
    Direct,
    /// When the followers of the group's leader have its entry.
    Replicated(Box<Replicated>),
}

/// The state that the writes of a group share.
#[derive(Debug)]
pub struct Replicated {
    /// The stripes, which decide who may write which key.
    pub stripes: Stripes,
    /// How far each stream is, by stream.
    pub progress: Vec<Arc<ProgressWords>>,
    /// The deletes that may explain an entry that no slot names.
    pub deletes: Deletes,
    /// Cache lines of what outlives that which it is about.
    tombstones: AtomicU64,
    outcomes: AtomicU64,
    /// When the leader's lease ends, in nanoseconds of the monotonic clock.
    lease: AtomicU64,
}

impl Replicated {
    /// The state of a leader of `term` with so many streams, nothing written, without a lease. `progress` is
    /// the region in which the streams say how far they are.
    pub fn new(streams: u16, progress: &Mapped, term: Term) -> Replicated {
        let begin = |stream| ProgressWords::begin(progress.clone(), stream, term);
        let progress = (0..usize::from(streams)).map(|stream| Arc::new(begin(stream))).collect();
        let (stripes, deletes) = Default::default();
        let (tombstones, outcomes, lease) = Default::default();
        Replicated { stripes, progress, deletes, tombstones, outcomes, lease }
    }

    fn kept(&self, kind: EntryKind) -> &AtomicU64 {
        if kind == EntryKind::Tombstone { &self.tombstones } else { &self.outcomes }
    }

    /// Notes that a tombstone or a saved outcome was written.
    pub(crate) fn keep(&self, kind: EntryKind, place: EntryRef) {
        // Relaxed: a number that only says when to look.
        self.kept(kind).fetch_add(u64::from(place.units()), Ordering::Relaxed);
    }

    /// Notes that one is needed no more.
    pub(crate) fn drop_kept(&self, kind: EntryKind, place: EntryRef) {
        // Relaxed: as in `keep`.
        let less = |kept: u64| Some(kept.saturating_sub(u64::from(place.units())));
        let _ = self.kept(kind).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Notes how many cache lines of them a restore found.
    pub(crate) fn found_kept(&self, tombstones: u64, outcomes: u64) {
        // Relaxed: as in `keep`.
        self.tombstones.store(tombstones, Ordering::Relaxed);
        self.outcomes.store(outcomes, Ordering::Relaxed);
    }

    /// The bytes of tombstones, and of saved outcomes.
    pub fn kept_bytes(&self) -> (u64, u64) {
        // Relaxed: as in `keep`.
        let bytes = |kept: &AtomicU64| kept.load(Ordering::Relaxed) * LINE;
        (bytes(&self.tombstones), bytes(&self.outcomes))
    }

    /// Sets the end of the lease.
    pub fn set_lease(&self, end: Nanos) {
        // Release: pairs with `leads`.
        self.lease.store(end.0, Ordering::Release);
    }

    /// The end of the lease, as far as it was renewed.
    pub fn lease(&self) -> Nanos {
        // Acquire: pairs with `set_lease`.
        Nanos(self.lease.load(Ordering::Acquire))
    }

    /// Whether what was seen before `now` was the newest. Call it after looking (L9, etcd 20418).
    pub fn leads(&self, now: Nanos) -> bool {
        // Acquire: pairs with `set_lease`.
        now.0 < self.lease.load(Ordering::Acquire) || Mutant::NoLease.is_on()
    }

    /// Takes the stripe of a write, if no other write is in its way.
    pub(crate) fn enter(&self, hash: Hash, blind: bool) -> Result<Stripe, Short> {
        let alone = !blind && !Mutant::ShareStripes.is_on();
        self.stripes.enter(hash, alone).ok_or(Short::Busy)
    }
}
