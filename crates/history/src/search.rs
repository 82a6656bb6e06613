//! All orders, tried one after the other (Wing and Gong, Testing and Verifying Concurrent Objects, JPDC 1993;
//! with Lowe's memory of what was tried, Testing for Linearizability, CCPE 2017).

use std::collections::{BTreeMap, HashSet};

use longarm_base::Nanos;

use crate::{Invocation, NEVER, Operation, OperationOutcome, Value, Violation};

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

/// What is there of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum There {
    Nothing,
    Value(Value),
    /// Nothing, because the time of this value was over.
    Over(Value),
}

impl There {
    fn is(self, value: Value) -> bool {
        self == There::Value(value)
    }

    fn is_something(self) -> bool {
        matches!(self, There::Value(_))
    }
}

/// Which operations were ordered, and what is there after them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration {
    ordered: Vec<u64>,
    there: There,
}

impl Configuration {
    fn has(&self, operation: usize) -> bool {
        self.ordered[operation / 64] >> (operation % 64) & 1 == 1
    }

    /// After one more operation.
    fn with(&self, operation: usize, there: There) -> Configuration {
        let mut ordered = self.ordered.clone();
        ordered[operation / 64] |= 1 << (operation % 64);
        Configuration { ordered, there }
    }
}

/// Judges the operations of one key, which are in the order of their calls, in at most so many steps.
pub fn judge(operations: &[Operation], steps: u64) -> Verdict {
    let start = Configuration { ordered: vec![0; operations.len().div_ceil(64)], there: There::Nothing };
    let times = Times::of(operations);
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
            // The time of a value is over only after it was written.
            if operation.expires().is_some_and(|value| !times.writer(value).is_some_and(|at| tried.has(at))) {
                continue;
            }
            let Some(there) = after(operation, tried.there, &times) else { continue };
            let next = tried.with(i, there);
            if seen.insert(next.clone()) {
                open.push((next, low));
            }
        }
    }
    let guilty = operations.get(furthest).into_iter().cloned().collect();
    Verdict::Illegal(Violation { rule: "no order explains the answers, up to this one", guilty })
}

fn end(operation: &Operation) -> Nanos {
    if operation.in_doubt() { NEVER } else { operation.end }
}

/// Where the writers of a history are, and when the time of their values is over at last.
struct Times {
    writers: BTreeMap<Value, usize>,
    over: BTreeMap<Value, Nanos>,
}

impl Times {
    fn of(operations: &[Operation]) -> Times {
        let writers = operations.iter().enumerate().filter_map(|(at, o)| Some((o.wrote()?, at))).collect();
        let over = operations.iter().filter_map(|o| Some((o.expires()?, end(o)))).collect();
        Times { writers, over }
    }

    fn writer(&self, value: Value) -> Option<usize> {
        self.writers.get(&value).copied()
    }

    /// Whether a value may have been there when the operation was called.
    fn may_last(&self, value: Value, operation: &Operation) -> bool {
        self.over.get(&value).is_none_or(|over| operation.call <= *over)
    }
}

/// What is there after the operation, if it can have been answered so; in doubt, if it took effect.
fn after(operation: &Operation, there: There, times: &Times) -> Option<There> {
    let doubt = operation.in_doubt();
    match (operation.action, operation.outcome) {
        (Invocation::Get, OperationOutcome::Found(value)) => there.is(value).then_some(there),
        (Invocation::Get | Invocation::Delete, OperationOutcome::Absent) => {
            (!there.is_something()).then_some(there)
        }
        (Invocation::Get, _) => doubt.then_some(there),
        (Invocation::Delete, _) => (doubt || there.is_something()).then_some(There::Nothing),
        (Invocation::Put(value), _) => Some(There::Value(value)),
        (Invocation::PutIfAbsent(_), OperationOutcome::Refused) => there.is_something().then_some(there),
        (Invocation::PutIfAbsent(value), _) => (!there.is_something()).then_some(There::Value(value)),
        (Invocation::Replace { expected, .. }, OperationOutcome::Refused) => {
            (!there.is(expected)).then_some(there)
        }
        (Invocation::Replace { expected, new }, _) => {
            // It was judged when it arrived.
            let lasted = there == There::Over(expected) && times.may_last(expected, operation);
            (there.is(expected) || lasted).then_some(There::Value(new))
        }
        (Invocation::Expire(value), _) if there.is(value) => Some(There::Over(value)),
        (Invocation::Expire(_), _) => Some(there),
    }
}
