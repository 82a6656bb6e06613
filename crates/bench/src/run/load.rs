//! Puts the records of a plan into a target before the runs.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::driver::{OpRef, Seen, TargetError, TargetFactory, Verb};
use crate::plan::Plan;
use crate::workload::{Key, Values};

/// Threads that load; more do not help on one machine.
const LOADERS_MAX: usize = 4;
/// Records in one batch of a loader, and the bytes of values in it.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 1 << 20;

/// How loading went.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoadResult {
    /// Records loaded.
    pub records: u64,
    /// Seconds it took.
    pub seconds: f64,
}

/// Loads all records of the plan; the first refusal ends it.
pub fn fill(plan: &Plan, values: &Values, factory: &dyn TargetFactory) -> Result<LoadResult, TargetError> {
    let begun = Instant::now();
    let loaders = plan.clients.min(LOADERS_MAX) as u64;
    std::thread::scope(|scope| {
        let part = |number: u64| number * plan.records / loaders..(number + 1) * plan.records / loaders;
        let threads: Vec<_> = (0..loaders)
            .map(|number| {
                scope.spawn(move || fill_part(plan, values, factory, number as usize, part(number)))
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(LoadResult { records: plan.records, seconds: begun.elapsed().as_secs_f64() })
}

/// Removes the records 0..`records`, and nothing else.
pub fn remove(plan: &Plan, factory: &dyn TargetFactory, records: u64) -> Result<(), TargetError> {
    let mut target = factory.connect(0)?;
    for first in (0..records).step_by(BATCH) {
        let keys: Vec<Key> =
            (first..records.min(first + BATCH as u64)).map(|record| plan.key.key(record)).collect();
        target.remove(&keys.iter().map(Key::bytes).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn fill_part(
    plan: &Plan,
    values: &Values,
    factory: &dyn TargetFactory,
    number: usize,
    part: std::ops::Range<u64>,
) -> Result<(), TargetError> {
    let mut target = factory.connect(number)?;
    let batch = (BATCH_BYTES / plan.value_bytes.max(1)).clamp(1, BATCH) as u64;
    let mut next = part.start;
    while next < part.end {
        let records: Vec<u64> = (next..part.end.min(next + batch)).collect();
        let keys: Vec<Key> = records.iter().map(|&record| plan.key.key(record)).collect();
        let pairs = keys.iter().zip(&records);
        let ops: Vec<OpRef<'_>> = pairs.map(|(key, &record)| op(key, values.value(record, 0))).collect();
        let mut refused = None;
        target.batch(&ops, &mut |_, seen| {
            if let Seen::Refused(text) = seen {
                refused = Some(text.to_string());
            }
        })?;
        if let Some(text) = refused {
            return Err(TargetError::Refused(text));
        }
        next += records.len() as u64;
    }
    Ok(())
}

fn op<'a>(key: &'a Key, value: &'a [u8]) -> OpRef<'a> {
    OpRef { verb: Verb::Put, key: key.bytes(), value }
}
