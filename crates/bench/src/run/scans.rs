//! Judges what scans show: that they begin with the record they were asked for, that keys ascend, that there
//! are no fewer items than wanted unless there are no more, and the values as of all reads.

use super::sample::Sample;
use crate::driver::{ScanRef, Target, TargetError};
use crate::plan::Plan;
use crate::record::{Counts, Record};
use crate::workload::{Key, KeyFormat, Op, Values};

/// The greatest key of the records that are loaded, if there are scans: one that ends before it has shown all
/// that it was asked for.
pub fn greatest(plan: &Plan) -> Option<Key> {
    plan.lengths()?;
    (0..plan.records).map(|record| plan.key.key(record)).max()
}

/// The scans of one client.
pub struct Scans {
    format: KeyFormat,
    keys_only: bool,
    greatest: Option<Key>,
    /// The last key that was shown.
    last: Vec<u8>,
}

/// Where the findings of a client go.
pub struct Findings<'a> {
    /// What it counts.
    pub record: &'a mut Record,
    /// The values of the run.
    pub values: &'a Values,
    /// Which values are compared byte by byte.
    pub sample: &'a mut Sample,
}

impl Scans {
    /// None yet.
    pub fn new(plan: &Plan, greatest: Option<Key>) -> Scans {
        Scans { format: plan.key, keys_only: plan.keys_only, greatest, last: Vec::new() }
    }

    /// Has one scan, and judges it.
    pub fn run(
        &mut self,
        target: &mut dyn Target,
        op: &Op,
        key: &Key,
        into: Findings<'_>,
    ) -> Result<(), TargetError> {
        let wanted = ScanRef { from: key.bytes(), limit: op.length, keys_only: self.keys_only };
        let Findings { record: Record { counts, .. }, values, sample } = into;
        let (mut items, mut begins, mut wrong) = (0u32, false, false);
        self.last.clear();
        let outcome = target.scan(&wanted, &mut |key, value| {
            if items == 0 {
                begins = key == wanted.from;
            }
            wrong |= key <= self.last.as_slice() || key < wanted.from;
            self.last.clear();
            self.last.extend_from_slice(key);
            items += 1;
            wrong |= !self.is_right(key, value, values, sample, counts);
        });
        match outcome {
            Ok(()) => {}
            Err(TargetError::Refused(_)) => {
                counts.refused += 1;
                return Ok(());
            }
            Err(lost) => return Err(lost),
        }
        let all = self.greatest.is_none_or(|greatest| self.last.as_slice() >= greatest.bytes());
        wrong |= items > wanted.limit || (items < wanted.limit && !all);
        counts.items += u64::from(items);
        counts.hits += u64::from(begins);
        counts.misses += u64::from(!begins);
        counts.wrong += u64::from(wrong);
        Ok(())
    }

    /// Whether a value may be there, by its length, or by its bytes where it is one of the sample.
    fn is_right(
        &self,
        key: &[u8],
        value: &[u8],
        values: &Values,
        sample: &mut Sample,
        counts: &mut Counts,
    ) -> bool {
        if self.keys_only {
            return value.is_empty();
        }
        if value.len() != values.bytes() || !sample.is_next() {
            return value.len() == values.bytes();
        }
        // Of hashed keys nobody knows the record.
        let Some(record) = self.format.record(key) else { return true };
        counts.checked += 1;
        values.is_valid(record, value)
    }
}
