//! The sweep over versions: quick, over every operation, and it names who is guilty. It trusts what the store
//! says of its versions, so it finds what a store shows, not what it hides.

use std::collections::BTreeMap;

use longarm_base::{Csn, Nanos};

use crate::{Invocation, NEVER, Operation, OperationOutcome, Value, Violation};

/// Judges the operations of one key, which are in the order of their calls.
pub fn judge(operations: &[Operation]) -> Result<(), Violation> {
    let writers = writers(operations)?;
    one_value_a_version(operations)?;
    let versions = one_version_a_value(operations)?;
    versions_ascend(operations, &versions)?;
    found_was_written(operations, &writers)?;
    found_in_its_time(operations)?;
    gone_stays_gone(operations)?;
    absent_was_removed(operations, &writers)
}

fn violation<T>(rule: &'static str, guilty: &[&Operation]) -> Result<T, Violation> {
    Err(Violation::of(rule, guilty))
}

fn writers(operations: &[Operation]) -> Result<BTreeMap<Value, &Operation>, Violation> {
    let mut writers = BTreeMap::new();
    for operation in operations {
        if let Some(value) = operation.wrote()
            && let Some(other) = writers.insert(value, operation)
        {
            return violation(
                "two writes of one value: the history is not of unique values",
                &[other, operation],
            );
        }
    }
    Ok(writers)
}

/// A version is of one value.
fn one_value_a_version(operations: &[Operation]) -> Result<(), Violation> {
    let mut known: BTreeMap<Csn, (Value, &Operation)> = BTreeMap::new();
    for operation in operations {
        let Some((value, version)) = operation.named() else { continue };
        let &mut (first, other) = known.entry(version).or_insert((value, operation));
        if first != value {
            return violation("two values under one version", &[other, operation]);
        }
    }
    Ok(())
}

/// A value, which is of one write, has one version: otherwise that write was done twice.
fn one_version_a_value(operations: &[Operation]) -> Result<BTreeMap<Value, Csn>, Violation> {
    let mut known: BTreeMap<Value, (Csn, &Operation)> = BTreeMap::new();
    for operation in operations {
        let Some((value, version)) = operation.named() else { continue };
        let &mut (first, other) = known.entry(value).or_insert((version, operation));
        if first != version {
            return violation("one value under two versions: it was written twice", &[other, operation]);
        }
    }
    Ok(known.into_iter().map(|(value, (version, _))| (value, version)).collect())
}

/// What returned before a call bounds what the called one may see or become. A write in doubt has the version
/// under which its value was found.
fn versions_ascend(operations: &[Operation], versions: &BTreeMap<Value, Csn>) -> Result<(), Violation> {
    let version_of =
        |operation: &Operation| operation.version.or_else(|| versions.get(&operation.wrote()?).copied());
    let mut ended: Vec<(&Operation, Csn)> = operations
        .iter()
        .filter_map(|operation| version_of(operation).map(|version| (operation, version)))
        .collect();
    ended.sort_by_key(|(operation, _)| operation.end);
    let (mut ended, mut newest) = (ended.into_iter().peekable(), None::<(&Operation, Csn)>);
    for operation in operations {
        while let Some(earlier) = ended.next_if(|(earlier, _)| earlier.end < operation.call) {
            if newest.is_none_or(|newest| newest.1 < earlier.1) {
                newest = Some(earlier);
            }
        }
        let (Some(version), Some((before, least))) = (version_of(operation), newest) else { continue };
        if version < least {
            return violation("an older version than was seen before the call", &[before, operation]);
        }
        if version == least && operation.wrote().is_some() {
            return violation("a write under a version that was there before its call", &[before, operation]);
        }
    }
    Ok(())
}

/// Nothing is found that nobody wrote, or before anybody wrote it.
fn found_was_written(
    operations: &[Operation],
    writers: &BTreeMap<Value, &Operation>,
) -> Result<(), Violation> {
    for operation in operations {
        let OperationOutcome::Found(value) = operation.outcome else { continue };
        match writers.get(&value) {
            None => return violation("a value that nobody wrote", &[operation]),
            Some(writer) if writer.call > operation.end => {
                return violation("a value before it was written", &[operation, writer]);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Nothing is found after its time.
fn found_in_its_time(operations: &[Operation]) -> Result<(), Violation> {
    let over: BTreeMap<Value, &Operation> =
        operations.iter().filter_map(|operation| Some((operation.expires()?, operation))).collect();
    for operation in operations {
        let OperationOutcome::Found(value) = operation.outcome else { continue };
        if let Some(expiry) = over.get(&value).filter(|expiry| expiry.end < operation.call) {
            return violation("a value after its time was over", &[expiry, operation]);
        }
    }
    Ok(())
}

fn finds_nothing(operation: &Operation) -> bool {
    operation.outcome == OperationOutcome::Absent
        || matches!(
            (operation.action, operation.outcome),
            (Invocation::PutIfAbsent(_), OperationOutcome::Done)
        )
}

/// A value is written once: where somebody found nothing after it was there, nobody finds it later.
fn gone_stays_gone(operations: &[Operation]) -> Result<(), Violation> {
    // By value: when it surely was there first, and who found it last.
    let mut known: BTreeMap<Value, (Nanos, Option<&Operation>)> = BTreeMap::new();
    for operation in operations {
        let found = match operation.outcome {
            OperationOutcome::Found(value) => Some(value),
            _ => None,
        };
        let Some(value) = found.or_else(|| operation.wrote()) else { continue };
        let (first, last) = known.entry(value).or_insert((NEVER, None));
        *first = operation.end.min(*first);
        if found.is_some() {
            // They are in the order of their calls.
            *last = Some(operation);
        }
    }
    let nothing: Vec<&Operation> = operations.iter().filter(|operation| finds_nothing(operation)).collect();
    // From each of them on, the one that ended first.
    let mut earliest = nothing.clone();
    for at in (1..earliest.len()).rev() {
        if earliest[at].end < earliest[at - 1].end {
            earliest[at - 1] = earliest[at];
        }
    }
    for (first, last) in known.into_values() {
        let after = nothing.partition_point(|operation| operation.call <= first);
        if let (Some(gone), Some(last)) = (earliest.get(after), last)
            && gone.end < last.call
        {
            return violation("a value is there again after it was gone", &[gone, last]);
        }
    }
    Ok(())
}

/// Who finds nothing after a value was seen needs somebody who may have removed it.
fn absent_was_removed(
    operations: &[Operation],
    writers: &BTreeMap<Value, &Operation>,
) -> Result<(), Violation> {
    let sees = |operation: &&Operation| {
        matches!(operation.outcome, OperationOutcome::Found(_))
            || operation.wrote().is_some() && !operation.in_doubt()
    };
    let mut seen: Vec<&Operation> = operations.iter().filter(sees).collect();
    seen.sort_by_key(|operation| operation.end);
    let (mut seen, mut last_call) = (seen.into_iter().peekable(), None::<&Operation>);
    let mut found: BTreeMap<Value, Nanos> = BTreeMap::new();
    for operation in operations {
        if let OperationOutcome::Found(value) = operation.outcome {
            found.insert(value, operation.call);
        }
    }
    let last_seen = |value: Value| found.get(&value).copied().unwrap_or_default();
    // Of the removals up to each, in the order of their calls: the latest end.
    let mut removals: Vec<(Nanos, Nanos)> = Vec::new();
    for removal in operations.iter() {
        // A value whose time is over takes away itself, and what it had replaced.
        let end = match removal.expires() {
            Some(value) => writers.get(&value).map_or(NEVER, |writer| writer.end).max(last_seen(value)),
            None if removal.removed() => removal.end,
            None => continue,
        };
        let latest = removals.last().map_or(end, |&(_, latest)| latest.max(end));
        removals.push((removal.call, latest));
    }
    for operation in operations {
        // Of those that ended before, the one that was called last: no other is certainly later.
        while let Some(earlier) = seen.next_if(|earlier| earlier.end < operation.call) {
            if last_call.is_none_or(|last| last.call < earlier.call) {
                last_call = Some(earlier);
            }
        }
        let (true, Some(there)) = (finds_nothing(operation), last_call) else { continue };
        let called = removals.partition_point(|&(call, _)| call <= operation.end);
        if called.checked_sub(1).is_none_or(|last| removals[last].1 < there.call) {
            return violation("nothing is there, and nobody removed what was", &[there, operation]);
        }
    }
    Ok(())
}
