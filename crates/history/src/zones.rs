//! The zones of values (Gibbons and Korach, Testing Shared Memories, SIAM J. Comput. 1997, section 4): a
//! register whose writes are unique is linearizable if the times in which its values must have been there do
//! not get into each other's way. It trusts no version.

use std::collections::BTreeMap;

use longarm_base::Nanos;

use crate::{Operation, OperationOutcome, Value, Violation};

/// All that is known of one value, or of one removal.
struct Zone<'a> {
    /// First end and last call of the operations that wrote or saw it.
    first_end: &'a Operation,
    last_call: &'a Operation,
    write_call: Nanos,
}

impl Zone<'_> {
    /// It must have been there from its first end to its last call.
    fn is_forward(&self) -> bool {
        self.first_end.end < self.last_call.call
    }
}

/// Judges the operations of one key. What found nothing is left to the other judges, and so is what was
/// refused.
pub fn judge(operations: &[Operation]) -> Result<(), Violation> {
    let mut zones: BTreeMap<Value, Zone<'_>> = BTreeMap::new();
    let mut lone: Vec<Zone<'_>> = Vec::new();
    for operation in operations {
        if let Some(value) = operation.wrote() {
            zones.insert(value, zone(operation));
        } else if operation.removed() {
            lone.push(zone(operation));
        }
    }
    for operation in operations {
        let OperationOutcome::Found(value) = operation.outcome else { continue };
        let Some(zone) = zones.get_mut(&value) else {
            return Err(Violation::of("a value that nobody wrote", &[operation]));
        };
        if operation.end < zone.write_call {
            return violation("a value before it was written", operation, zone.last_call);
        }
        if operation.end < zone.first_end.end {
            zone.first_end = operation;
        }
        if operation.call > zone.last_call.call {
            zone.last_call = operation;
        }
    }
    lone.extend(zones.into_values());
    in_each_others_way(&lone)
}

fn zone(write: &Operation) -> Zone<'_> {
    Zone { first_end: write, last_call: write, write_call: write.call }
}

fn violation<T>(rule: &'static str, one: &Operation, other: &Operation) -> Result<T, Violation> {
    Err(Violation::of(rule, &[one, other]))
}

fn in_each_others_way(zones: &[Zone<'_>]) -> Result<(), Violation> {
    let mut forward: Vec<&Zone<'_>> = zones.iter().filter(|zone| zone.is_forward()).collect();
    forward.sort_by_key(|zone| zone.first_end.end);
    for pair in forward.windows(2) {
        if pair[1].first_end.end < pair[0].last_call.call {
            return violation(
                "two values that must have been there at one time",
                pair[0].last_call,
                pair[1].first_end,
            );
        }
    }
    // Forward zones do not overlap: at most one can hold a backward zone's beginning.
    for zone in zones.iter().filter(|zone| !zone.is_forward()) {
        let (begin, end) = (zone.last_call.call, zone.first_end.end);
        let before = forward.partition_point(|forward| forward.first_end.end < begin);
        let Some(around) = before.checked_sub(1).map(|at| forward[at]) else { continue };
        if end < around.last_call.call {
            return violation("a value while another must have been there", zone.first_end, around.last_call);
        }
    }
    Ok(())
}
