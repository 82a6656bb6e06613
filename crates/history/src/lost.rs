//! No acknowledged write is lost: what is left of a key, when all is healed and everybody is done, is of the
//! last write that was acknowledged, or of one in doubt.

use crate::{Operation, OperationOutcome, Value, Violation};

/// Judges the operations of one key by `left`, a get of that key after all of them. A look that was not
/// answered shows nothing.
pub fn judge(operations: &[Operation], left: &Operation) -> Result<(), Violation> {
    match left.outcome {
        OperationOutcome::Found(value) => newest_is_left(operations, left, value),
        OperationOutcome::Absent => all_was_removed(operations, left),
        _ => Ok(()),
    }
}

fn violation(rule: &'static str, guilty: &[&Operation]) -> Result<(), Violation> {
    Err(Violation::of(rule, guilty))
}

/// What was acknowledged and changed something.
fn acknowledged(operations: &[Operation]) -> impl Iterator<Item = &Operation> {
    operations
        .iter()
        .filter(|operation| operation.outcome == OperationOutcome::Done && operation.expires().is_none())
}

fn newest_is_left(operations: &[Operation], left: &Operation, value: Value) -> Result<(), Violation> {
    let Some(writer) = operations.iter().find(|operation| operation.wrote() == Some(value)) else {
        return violation("what is left was written by nobody", &[left]);
    };
    if writer.version.zip(left.version).is_some_and(|(written, left)| written != left) {
        return violation("what is left has another version than it was written under", &[writer, left]);
    }
    let its = |operation: &&Operation| operation.expires() == Some(value) && operation.end < left.call;
    if let Some(expiry) = operations.iter().find(its) {
        return violation("what is left is there after its time was over", &[expiry, left]);
    }
    for other in acknowledged(operations) {
        let newer = other.version.zip(left.version).is_some_and(|(other, left)| other > left);
        // Also where versions are not known, or lie. A writer in doubt has no end.
        if newer || writer.end < other.call {
            return violation("an acknowledged write is lost: what is left is older", &[other, writer, left]);
        }
    }
    Ok(())
}

fn all_was_removed(operations: &[Operation], left: &Operation) -> Result<(), Violation> {
    let ended = |value| operations.iter().find(|operation| operation.wrote() == Some(value)).map(|o| o.end);
    let removed = |operation: &Operation| match operation.expires() {
        // It took away itself, and what it had replaced.
        Some(value) if operation.call <= left.end => ended(value),
        Some(_) => None,
        None => operation.removed().then_some(operation.end),
    };
    let removed = operations.iter().filter_map(removed).max();
    for write in acknowledged(operations).filter(|operation| operation.wrote().is_some()) {
        if removed.is_none_or(|removed| removed < write.call) {
            return violation(
                "an acknowledged write is lost: nothing is left, nobody removed it",
                &[write, left],
            );
        }
    }
    Ok(())
}
