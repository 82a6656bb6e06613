//! All orders, tried one after the other (Wing and Gong, Testing and Verifying Concurrent Objects, JPDC 1993;
//! with Lowe's memory of what was tried, Testing for Linearizability, CCPE 2017).

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

use longarm_base::Nanos;

use crate::violation::Who;
use crate::{History, Invocation, Item, NEVER, Operation, OperationOutcome, Page, Value, Violation};

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

/// Which deeds were ordered, and what is there after them: of a key, or of all keys.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration<S> {
    ordered: Vec<u64>,
    there: S,
}

impl<S> Configuration<S> {
    fn has(&self, deed: usize) -> bool {
        self.ordered[deed / 64] >> (deed % 64) & 1 == 1
    }

    /// After one more deed.
    fn with(&self, deed: usize, there: S) -> Configuration<S> {
        let mut ordered = self.ordered.clone();
        ordered[deed / 64] |= 1 << (deed % 64);
        Configuration { ordered, there }
    }
}

/// When something was done.
#[derive(Clone, Copy)]
struct Span {
    call: Nanos,
    /// In doubt, never.
    end: Nanos,
    doubt: bool,
}

/// What came of trying all orders.
enum Tried {
    Explained,
    /// None explains more than the deeds up to this one.
    Unexplained(usize),
    OutOfSteps,
}

/// Judges the operations of one key, which are in the order of their calls, in at most so many steps.
pub fn judge(operations: &[Operation], steps: u64) -> Verdict {
    let times = Times::of(operations.iter().enumerate());
    let spans: Vec<Span> = operations
        .iter()
        .map(|operation| Span { call: operation.call, end: end(operation), doubt: operation.in_doubt() })
        .collect();
    let tried = explore(&spans, There::Nothing, steps, |at, tried| {
        next(&operations[at], tried.there, &times, |writer| tried.has(writer))
    });
    verdict(tried, |at| operations.get(at).map(Who::Operation))
}

/// Judges all operations and pages of a group together, in at most so many steps: all keys are one map. It
/// trusts no version. It is for short histories.
pub fn judge_map(history: &History, steps: u64) -> Verdict {
    let deeds = history.by_call();
    if let Some((page, rule)) = history.pages().iter().find_map(|page| Some((page, page.shape().err()?))) {
        return Verdict::Illegal(Violation::by(rule, [Who::Page(page)]));
    }
    let map = Map::of(&deeds);
    let span = |who: &Who<'_>| Span { call: who.call(), end: who.end(), doubt: who.in_doubt() };
    let spans: Vec<Span> = deeds.iter().map(span).collect();
    let nothing = vec![There::Nothing; map.keys.len()];
    let tried = explore(&spans, nothing, steps, |at, tried| match deeds[at] {
        Who::Operation(operation) => {
            let (place, times) = map.keys.get(&operation.key)?;
            let mut there = tried.there.clone();
            there[*place] = next(operation, there[*place], times, |writer| tried.has(writer))?;
            Some(there)
        }
        Who::Page(page) => map.shows(page, &tried.there).then(|| tried.there.clone()),
    });
    verdict(tried, |at| deeds.get(at).copied())
}

fn verdict<'a>(tried: Tried, who: impl Fn(usize) -> Option<Who<'a>>) -> Verdict {
    match tried {
        Tried::Explained => Verdict::Legal,
        Tried::OutOfSteps => Verdict::Unknown,
        Tried::Unexplained(at) => {
            Verdict::Illegal(Violation::by("no order explains the answers, up to this one", who(at)))
        }
    }
}

/// Tries all orders of deeds, which are in the order of their calls. `after` says what is there after a deed,
/// if it can have been answered so after what was ordered.
fn explore<S: Clone + Eq + Hash>(
    spans: &[Span],
    start: S,
    steps: u64,
    after: impl Fn(usize, &Configuration<S>) -> Option<S>,
) -> Tried {
    let start = Configuration { ordered: vec![0; spans.len().div_ceil(64)], there: start };
    let (mut seen, mut open, mut left) = (HashSet::from([start.clone()]), vec![(start, 0)], steps);
    let mut furthest = 0;
    while let Some((tried, low)) = open.pop() {
        let low = (low..spans.len()).find(|&i| !tried.has(i)).unwrap_or(spans.len());
        furthest = furthest.max(low);
        if spans[low..].iter().enumerate().all(|(i, span)| tried.has(low + i) || span.doubt) {
            return Tried::Explained;
        }
        // Whoever was called after another's end comes after it.
        let mut first_end = NEVER;
        for (i, span) in spans.iter().enumerate().skip(low) {
            if span.call > first_end {
                break;
            }
            if tried.has(i) {
                continue;
            }
            first_end = first_end.min(span.end);
            let Some(left_now) = left.checked_sub(1) else { return Tried::OutOfSteps };
            left = left_now;
            let Some(there) = after(i, &tried) else { continue };
            let next = tried.with(i, there);
            if seen.insert(next.clone()) {
                open.push((next, low));
            }
        }
    }
    Tried::Unexplained(furthest)
}

fn end(operation: &Operation) -> Nanos {
    if operation.in_doubt() { NEVER } else { operation.end }
}

/// The keys of a history: the place of each in what is there, and the times of its values.
struct Map {
    keys: BTreeMap<u32, (usize, Times)>,
}

impl Map {
    fn of(deeds: &[Who<'_>]) -> Map {
        let mut operations: BTreeMap<u32, Vec<(usize, &Operation)>> = BTreeMap::new();
        for (at, deed) in deeds.iter().enumerate() {
            match deed {
                Who::Operation(operation) => {
                    operations.entry(operation.key).or_default().push((at, operation))
                }
                Who::Page(page) => page.items.iter().for_each(|item| {
                    operations.entry(item.key).or_default();
                }),
            }
        }
        let places = operations.into_iter().enumerate();
        Map { keys: places.map(|(at, (key, of))| (key, (at, Times::of(of.into_iter())))).collect() }
    }

    /// Whether a page shows what is there of the keys that it covers. No key stands in it twice.
    fn shows(&self, page: &Page, there: &[There]) -> bool {
        let found = |item: &Item| {
            let there = self.keys.get(&item.key).map(|(place, _)| there[*place]);
            there.is_some_and(|there| item.value.map_or(there.is_something(), |value| there.is(value)))
        };
        let something = page.among(&self.keys).filter(|(_, (place, _))| there[*place].is_something());
        something.count() == page.items.len() && page.items.iter().all(found)
    }
}

/// Where the writers of a history are, and when the time of their values is over at last.
struct Times {
    writers: BTreeMap<Value, usize>,
    over: BTreeMap<Value, Nanos>,
}

impl Times {
    /// Of the operations of a key, each with its place in the history.
    fn of<'a>(operations: impl Iterator<Item = (usize, &'a Operation)>) -> Times {
        let mut times = Times { writers: BTreeMap::new(), over: BTreeMap::new() };
        for (at, operation) in operations {
            times.writers.extend(operation.wrote().map(|value| (value, at)));
            times.over.extend(operation.expires().map(|value| (value, end(operation))));
        }
        times
    }

    fn writer(&self, value: Value) -> Option<usize> {
        self.writers.get(&value).copied()
    }

    /// Whether a value may have been there when the operation was called.
    fn may_last(&self, value: Value, operation: &Operation) -> bool {
        self.over.get(&value).is_none_or(|over| operation.call <= *over)
    }
}

/// What is there of its key after the operation, if it can have been answered so after those that `ordered`
/// knows.
fn next(
    operation: &Operation,
    there: There,
    times: &Times,
    ordered: impl Fn(usize) -> bool,
) -> Option<There> {
    // The time of a value is over only after it was written.
    if operation.expires().is_some_and(|value| !times.writer(value).is_some_and(ordered)) {
        return None;
    }
    after(operation, there, times)
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
