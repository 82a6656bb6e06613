//! The operations of one client, one after another, determined by the seed and the client's number.
//!
//! The draws (kinds, ranks, variants) depend on nothing else. Which record a rank of `latest` means, and the
//! number of a new record, depend on what all clients have inserted so far, as in YCSB; with one client the
//! whole stream is determined.

use std::sync::Arc;

use longarm_base::random::SplitMix64;
use longarm_workload::random::stream;

use super::{Chooser, Inserts, Lengths, Shares};

/// Kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum OpKind {
    /// Read of an existing record.
    Read,
    /// Replacement of an existing record.
    Update,
    /// A new record.
    Insert,
    /// Some records in the order of keys, from an existing one on.
    Scan,
    /// Read, then replacement of the same record.
    ReadModifyWrite,
}

impl OpKind {
    /// All kinds, in the order of reports.
    pub const ALL: [OpKind; 5] =
        [OpKind::Read, OpKind::Update, OpKind::Insert, OpKind::Scan, OpKind::ReadModifyWrite];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Update => "update",
            OpKind::Insert => "insert",
            OpKind::Scan => "scan",
            OpKind::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// Which record.
    pub record: u64,
    /// Which value a write writes.
    pub variant: u64,
    /// How many items a scan asks for; zero for all else.
    pub length: u32,
}

/// What the streams of all clients of a run share: built once, since sums of millions of terms are in it.
#[derive(Clone)]
pub struct StreamStart {
    /// Shares of the kinds.
    pub shares: Shares,
    /// How long the scans are, if there are any.
    pub lengths: Option<Lengths>,
    /// Chooser of records in its first state.
    pub chooser: Chooser,
    /// Seed of the run.
    pub seed: u64,
}

/// Operations of one client.
pub struct Stream {
    /// Cumulated shares as 64-bit thresholds, in the order of [`OpKind::ALL`]; the last kind takes the rest.
    thresholds: [u64; 4],
    lengths: Option<Lengths>,
    chooser: Chooser,
    kinds: SplitMix64,
    records: SplitMix64,
    inserts: Arc<Inserts>,
}

impl Stream {
    /// The stream of client number `client`.
    pub fn new(start: &StreamStart, client: u64, inserts: Arc<Inserts>) -> Stream {
        let shares = &start.shares;
        let mut sum = 0.0;
        let sums = [shares.read, shares.update, shares.insert, shares.scan].map(|share| {
            sum += share;
            sum
        });
        // A sum of one means "always"; sums that rounding left just below one are closed here.
        let thresholds =
            sums.map(|sum| if sum > 1.0 - 1e-12 { u64::MAX } else { (sum * 2f64.powi(64)) as u64 });
        Stream {
            thresholds,
            lengths: start.lengths,
            chooser: start.chooser.clone(),
            kinds: stream(start.seed, 2 * client + 1),
            records: stream(start.seed, 2 * client + 2),
            inserts,
        }
    }

    /// The next operation.
    #[inline]
    pub fn draw(&mut self) -> Op {
        let draw = self.kinds.draw();
        // u64::MAX as a threshold means "always".
        let under = |threshold: u64| draw < threshold || threshold == u64::MAX;
        let kind = match self.thresholds {
            [read, ..] if under(read) => OpKind::Read,
            [_, update, ..] if under(update) => OpKind::Update,
            [_, _, insert, _] if under(insert) => OpKind::Insert,
            [.., scan] if under(scan) => OpKind::Scan,
            _ => OpKind::ReadModifyWrite,
        };
        let record = match kind {
            OpKind::Insert => self.inserts.take(),
            _ => self.chooser.next(&mut self.records, &self.inserts),
        };
        // Drawn for scans alone, so that the other mixes are what they were before there were any.
        let length = match (kind, self.lengths) {
            (OpKind::Scan, Some(lengths)) => lengths.draw(&mut self.records),
            _ => 0,
        };
        Op { kind, record, variant: draw >> 7, length }
    }

    /// Tells the stream that the store answered an insert.
    #[inline]
    pub fn answered(&mut self, op: &Op) {
        if op.kind == OpKind::Insert {
            self.inserts.acknowledge(op.record);
        }
    }
}
