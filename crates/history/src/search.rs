//! All orders, tried one after the other (Wing and Gong, Testing and Verifying Concurrent Objects, JPDC 1993;
//! with Lowe's memory of what was tried, Testing for Linearizability, CCPE 2017).

use std::collections::HashSet;

use crate::sweep::NEVER;
use crate::{Action, Operation, Outcome, Value, Violation};

/// What came of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// An order explains all answers.
    Legal,
    /// None does.
    Illegal(Violation),
    /// The steps were used up.
    Unknown,
}

/// Which operations were ordered, and what is there after them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Tried {
    ordered: Vec<u64>,
    there: Option<Value>,
}

impl Tried {
    fn has(&self, operation: usize) -> bool {
        self.ordered[operation / 64] >> (operation % 64) & 1 == 1
    }

    /// After one more operation.
    fn with(&self, operation: usize, there: Option<Value>) -> Tried {
        let mut ordered = self.ordered.clone();
        ordered[operation / 64] |= 1 << (operation % 64);
        Tried { ordered, there }
    }
}

/// Judges the operations of one key, which are in the order of their calls, in at most so many steps.
pub fn judge(operations: &[Operation], steps: u64) -> Verdict {
    let start = Tried { ordered: vec![0; operations.len().div_ceil(64)], there: None };
    let (mut seen, mut open, mut left) = (HashSet::from([start.clone()]), vec![(start, 0)], steps);
    let mut furthest = 0;
    while let Some((tried, low)) = open.pop() {
        let low = (low..operations.len()).find(|&i| !tried.has(i)).unwrap_or(operations.len());
        furthest = furthest.max(low);
        if operations[low..].iter().enumerate().all(|(i, o)| tried.has(low + i) || o.in_doubt()) {
            return Verdict::Legal;
        }
        // Whoever was called after another's end comes after it.
        let mut first_end = NEVER;
        for (i, operation) in operations.iter().enumerate().skip(low) {
            if operation.call > first_end {
                break;
            }
            if tried.has(i) {
                continue;
            }
            first_end = first_end.min(end(operation));
            let Some(left_now) = left.checked_sub(1) else { return Verdict::Unknown };
            left = left_now;
            let Some(there) = after(operation, tried.there) else { continue };
            let next = tried.with(i, there);
            if seen.insert(next.clone()) {
                open.push((next, low));
            }
        }
    }
    let guilty = operations.get(furthest).into_iter().cloned().collect();
    Verdict::Illegal(Violation { rule: "no order explains the answers, up to this one", guilty })
}

fn end(operation: &Operation) -> longarm_base::Nanos {
    if operation.in_doubt() { NEVER } else { operation.end }
}

/// What is there after the operation, if it can have been answered so; in doubt, if it took effect.
fn after(operation: &Operation, there: Option<Value>) -> Option<Option<Value>> {
    let doubt = operation.in_doubt();
    match (operation.action, operation.outcome) {
        (Action::Get, Outcome::Found(value)) => (there == Some(value)).then_some(there),
        (Action::Get | Action::Delete, Outcome::Absent) => there.is_none().then_some(there),
        (Action::Get, _) => doubt.then_some(there),
        (Action::Delete, _) => (doubt || there.is_some()).then_some(None),
        (Action::Put(value), _) => Some(Some(value)),
        (Action::PutIfAbsent(_), Outcome::Refused) => there.is_some().then_some(there),
        (Action::PutIfAbsent(value), _) => there.is_none().then_some(Some(value)),
        (Action::Replace { expected, .. }, Outcome::Refused) => (there != Some(expected)).then_some(there),
        (Action::Replace { expected, new }, _) => (there == Some(expected)).then_some(Some(new)),
    }
}
