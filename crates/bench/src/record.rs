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

/// A histogram that takes its memory, some 220 KiB, with its first value: of thousands of clients each has
/// few kinds of operations, and to zero memory for all kinds would take the time of those that are measured.
#[derive(Clone, Default)]
struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    #[inline]
    fn record(&mut self, nanos: u64, count: u64) {
        self.0.get_or_insert_with(histogram).saturating_record_n(nanos, count);
    }

    fn reset(&mut self) {
        self.0.iter_mut().for_each(Histogram::reset);
    }

    fn add(&mut self, other: &Latencies) {
        if let Some(other) = &other.0 {
            self.0.get_or_insert_with(histogram).add(other).expect("equal bounds");
        }
    }
}

/// Latencies and counts.
#[derive(Clone, Default)]
pub struct Record {
    /// By kind of operation, in the order of [`OpKind::ALL`].
    kinds: [Latencies; OpKind::ALL.len()],
    /// The reads and updates inside read-modify-writes: part of YCSB's READ and UPDATE figures.
    inner: [Latencies; 2],
    /// Time from sending to answer in an open loop, where `kinds` counts from the intended start.
    service: Latencies,
    /// Outcomes.
    pub counts: Counts,
}

impl Record {
    /// Nothing yet.
    pub fn new() -> Record {
        Record::default()
    }

    /// Forgets the warm-up, except that values were wrong.
    pub fn reset(&mut self) {
        self.kinds.iter_mut().chain(&mut self.inner).for_each(Latencies::reset);
        self.service.reset();
        self.counts = Counts { wrong: self.counts.wrong, ..Counts::default() };
    }

    /// `count` operations took `nanos` each.
    #[inline]
    pub fn operations(&mut self, kind: OpKind, nanos: u64, count: u64) {
        self.kinds[kind as usize].record(nanos, count);
        self.counts.operations += count;
    }

    /// The two halves of `count` read-modify-writes.
    pub fn halves(&mut self, read: u64, update: u64, count: u64) {
        self.inner[0].record(read, count);
        self.inner[1].record(update, count);
    }

    /// An operation of an open loop took `nanos` from sending to answer.
    pub fn service(&mut self, nanos: u64) {
        self.service.record(nanos, 1);
    }

    /// An operation that was due waited for `nanos` and was never sent.
    pub fn unsent(&mut self, kind: OpKind, nanos: u64) {
        self.kinds[kind as usize].record(nanos, 1);
        self.counts.unsent += 1;
    }

    /// Adds another client's.
    pub fn add(&mut self, other: &Record) {
        let mine = self.kinds.iter_mut().chain(&mut self.inner).chain([&mut self.service]);
        let others = other.kinds.iter().chain(&other.inner).chain([&other.service]);
        mine.zip(others).for_each(|(mine, other)| mine.add(other));
        self.counts.add(&other.counts);
    }

    /// All operations, each once.
    pub fn all(&self) -> Histogram<u64> {
        let mut all = Latencies::default();
        self.kinds.iter().for_each(|kind| all.add(kind));
        all.0.unwrap_or_else(histogram)
    }

    /// Operations of one kind; reads and updates include those inside read-modify-writes, as in YCSB.
    pub fn of(&self, kind: OpKind) -> Histogram<u64> {
        let mut of = self.kinds[kind as usize].clone();
        match kind {
            OpKind::Read => of.add(&self.inner[0]),
            OpKind::Update => of.add(&self.inner[1]),
            OpKind::Insert | OpKind::Scan | OpKind::ReadModifyWrite => {}
        }
        of.0.unwrap_or_else(histogram)
    }

    /// Times from sending to answer; none in a closed loop, where they are the latencies.
    pub fn services(&self) -> Option<&Histogram<u64>> {
        self.service.0.as_ref().filter(|service| !service.is_empty())
    }
}
