//! What one client measured, and how clients are added up.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::workload::OpKind;

/// Longest latency told apart from longer ones, in nanoseconds.
const LATENCY_MAX: u64 = 100_000_000_000;
/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// An empty histogram of nanoseconds.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, DIGITS).expect("these bounds are valid")
}

/// Counts of outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Operations answered; a read-modify-write is one.
    pub operations: u64,
    /// Gets that found a value, and scans that began with the record they asked for.
    pub hits: u64,
    /// Gets that the client answered from a place it remembered, where it remembers any.
    #[serde(default)]
    pub remembered: u64,
    /// Items that scans showed.
    #[serde(default)]
    pub items: u64,
    /// Gets and scans that did not find a record, although it was loaded or inserted.
    pub misses: u64,
    /// Operations that the store refused.
    pub refused: u64,
    /// Values that were never written for their key, or have the wrong length; scans that show too few items,
    /// too many, or keys out of order.
    pub wrong: u64,
    /// Values compared byte for byte.
    pub checked: u64,
    /// Operations of an open loop that were due and could not even be sent before the run ended. Their
    /// waiting so far is in the latencies.
    pub unsent: u64,
}

impl Counts {
    /// Adds another client's.
    pub fn add(&mut self, other: &Counts) {
        self.operations += other.operations;
        self.hits += other.hits;
        self.remembered += other.remembered;
        self.items += other.items;
        self.misses += other.misses;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.checked += other.checked;
        self.unsent += other.unsent;
    }
}

/// Latencies and counts.
#[derive(Clone)]
pub struct Record {
    /// By kind of operation, in the order of [`OpKind::ALL`].
    kinds: [Histogram<u64>; OpKind::ALL.len()],
    /// The reads and updates inside read-modify-writes: part of YCSB's READ and UPDATE figures.
    inner: [Histogram<u64>; 2],
    /// Time from sending to answer in an open loop, where `kinds` counts from the intended start.
    service: Histogram<u64>,
    /// Outcomes.
    pub counts: Counts,
}

impl Record {
    /// Nothing yet.
    pub fn new() -> Record {
        Record {
            kinds: std::array::from_fn(|_| histogram()),
            inner: std::array::from_fn(|_| histogram()),
            service: histogram(),
            counts: Counts::default(),
        }
    }

    /// Forgets the warm-up, except that values were wrong.
    pub fn reset(&mut self) {
        self.kinds.iter_mut().chain(&mut self.inner).for_each(Histogram::reset);
        self.service.reset();
        self.counts = Counts { wrong: self.counts.wrong, ..Counts::default() };
    }

    /// `count` operations took `nanos` each.
    #[inline]
    pub fn operations(&mut self, kind: OpKind, nanos: u64, count: u64) {
        self.kinds[kind as usize].saturating_record_n(nanos, count);
        self.counts.operations += count;
    }

    /// The two halves of `count` read-modify-writes.
    pub fn halves(&mut self, read: u64, update: u64, count: u64) {
        self.inner[0].saturating_record_n(read, count);
        self.inner[1].saturating_record_n(update, count);
    }

    /// An operation of an open loop took `nanos` from sending to answer.
    pub fn service(&mut self, nanos: u64) {
        self.service.saturating_record(nanos);
    }

    /// An operation that was due waited for `nanos` and was never sent.
    pub fn unsent(&mut self, kind: OpKind, nanos: u64) {
        self.kinds[kind as usize].saturating_record(nanos);
        self.counts.unsent += 1;
    }

    /// Adds another client's.
    pub fn add(&mut self, other: &Record) {
        let mine = self.kinds.iter_mut().chain(&mut self.inner).chain([&mut self.service]);
        let others = other.kinds.iter().chain(&other.inner).chain([&other.service]);
        mine.zip(others).for_each(|(mine, other)| mine.add(other).expect("equal bounds"));
        self.counts.add(&other.counts);
    }

    /// All operations, each once.
    pub fn all(&self) -> Histogram<u64> {
        let mut all = histogram();
        self.kinds.iter().for_each(|kind| all.add(kind).expect("equal bounds"));
        all
    }

    /// Operations of one kind; reads and updates include those inside read-modify-writes, as in YCSB.
    pub fn of(&self, kind: OpKind) -> Histogram<u64> {
        let mut of = self.kinds[kind as usize].clone();
        match kind {
            OpKind::Read => of.add(&self.inner[0]).expect("equal bounds"),
            OpKind::Update => of.add(&self.inner[1]).expect("equal bounds"),
            OpKind::Insert | OpKind::Scan | OpKind::ReadModifyWrite => {}
        }
        of
    }

    /// Times from sending to answer; empty in a closed loop, where they are the latencies.
    pub fn services(&self) -> &Histogram<u64> {
        &self.service
    }
}

impl Default for Record {
    fn default() -> Record {
        Record::new()
    }
}
