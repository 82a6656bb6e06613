pub(crate) mod draw;
mod evidence;
mod expiry;
mod mutations;
mod pages;
mod scans;
mod twin;

use longarm_base::{Csn, Nanos};
use proptest::prelude::*;

use crate::NEVER;
use crate::search::Verdict;
use crate::{History, Invocation, Operation, OperationOutcome, Value, search, sweep, zones};

const STEPS: u64 = 1 << 20;

fn operation(client: u32, action: Invocation, outcome: OperationOutcome, call: u64, end: u64) -> Operation {
    let end = if outcome == OperationOutcome::InDoubt { NEVER } else { Nanos(end) };
    Operation { client, key: 0, action, outcome, call: Nanos(call), end, version: None }
}

fn put(value: u64, call: u64, end: u64) -> Operation {
    operation(1, Invocation::Put(Value(value)), OperationOutcome::Done, call, end)
}

fn lost(value: u64, call: u64) -> Operation {
    operation(1, Invocation::Put(Value(value)), OperationOutcome::InDoubt, call, 0)
}

fn get(value: u64, call: u64, end: u64) -> Operation {
    operation(2, Invocation::Get, OperationOutcome::Found(Value(value)), call, end)
}

fn none(call: u64, end: u64) -> Operation {
    operation(2, Invocation::Get, OperationOutcome::Absent, call, end)
}

fn delete(call: u64, end: u64) -> Operation {
    operation(3, Invocation::Delete, OperationOutcome::Done, call, end)
}

fn of(version: u64, operation: Operation) -> Operation {
    Operation { version: Some(Csn(version)), ..operation }
}

fn rule<T: std::fmt::Debug>(judged: Result<T, crate::Violation>) -> &'static str {
    judged.expect_err("a violation").rule
}

/// Sorted, as the judges want them.
fn sorted(operations: &[Operation]) -> Vec<Operation> {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| (operation.call, operation.end));
    operations
}

#[test]
fn each_rule_of_the_sweep_has_its_breach() {
    let judge = |operations: &[Operation]| sweep::judge(&sorted(operations));
    judge(&[of(1, put(1, 0, 9)), of(1, get(1, 5, 12)), of(2, put(2, 3, 20)), of(2, get(2, 13, 15))])
        .expect("legal");
    assert!(rule(judge(&[of(1, put(1, 0, 1)), of(1, put(2, 0, 3))])).starts_with("two values under one"));
    let stale = [of(1, put(1, 0, 1)), of(2, put(2, 2, 3)), of(1, get(1, 4, 5))];
    assert!(rule(judge(&stale)).starts_with("an older version"));
    let reused = [of(2, put(1, 0, 1)), of(2, get(1, 2, 3)), of(2, put(1, 4, 5))];
    assert!(rule(judge(&reused)).starts_with("two writes of one value"));
    let again = [of(2, put(1, 0, 1)), of(2, operation(3, Invocation::Delete, OperationOutcome::Done, 2, 3))];
    judge(&again).expect("a removal needs no version of its own");
    assert!(rule(judge(&[get(7, 0, 1)])).starts_with("a value that nobody"));
    assert!(rule(judge(&[get(7, 0, 1), put(7, 2, 3)])).starts_with("a value before"));
    assert!(rule(judge(&[put(1, 0, 1), none(2, 3)])).starts_with("nothing is there"));
    judge(&[put(1, 0, 1), delete(2, 9), none(3, 4)]).expect("it may be gone already");
    judge(&[put(1, 0, 1), operation(3, Invocation::Delete, OperationOutcome::InDoubt, 2, 0), none(90, 91)])
        .expect("in doubt");
    assert!(
        rule(judge(&[put(1, 0, 1), delete(2, 3), get(1, 4, 5), none(6, 7)])).starts_with("nothing is there")
    );
}

#[test]
fn each_rule_of_the_zones_has_its_breach() {
    let judge = |operations: &[Operation]| zones::judge(&sorted(operations));
    judge(&[put(1, 0, 9), put(2, 0, 9), get(2, 1, 2), get(1, 3, 4)]).expect("legal");
    let back = [put(1, 0, 9), put(2, 0, 9), get(2, 1, 2), get(1, 3, 4), get(2, 5, 6)];
    assert!(rule(judge(&back)).starts_with("a value while another"));
    let lost_write = [put(1, 0, 1), put(2, 2, 3), get(1, 4, 5)];
    assert!(rule(judge(&lost_write)).starts_with("a value while another"));
    judge(&[put(1, 0, 1), lost(2, 2), get(1, 4, 5), get(2, 6, 7)]).expect("it took effect late");
    let returns = [put(1, 0, 1), lost(2, 2), get(2, 4, 5), get(1, 6, 7)];
    assert!(rule(judge(&returns)).starts_with("a value while another"));
    let crossed = [put(1, 0, 1), put(2, 2, 3), get(2, 6, 7), get(1, 8, 9)];
    assert!(rule(judge(&crossed)).starts_with("two values that must"));
}

#[test]
fn the_search_knows_conditions() {
    let judge = |operations: &[Operation]| search::judge(&sorted(operations), STEPS);
    let swap = |expected, new, outcome, call, end| {
        operation(4, Invocation::Replace { expected: Value(expected), new: Value(new) }, outcome, call, end)
    };
    let first =
        |value, outcome, call, end| operation(5, Invocation::PutIfAbsent(Value(value)), outcome, call, end);
    let legal = [
        first(1, OperationOutcome::Done, 0, 5),
        first(2, OperationOutcome::Refused, 1, 6),
        swap(1, 3, OperationOutcome::Done, 2, 9),
    ];
    assert_eq!(judge(&legal), Verdict::Legal);
    let both = [first(1, OperationOutcome::Done, 0, 5), first(2, OperationOutcome::Done, 1, 6)];
    assert!(matches!(judge(&both), Verdict::Illegal(_)), "two cannot both be first");
    let twice =
        [put(1, 0, 1), swap(1, 2, OperationOutcome::Done, 2, 9), swap(1, 3, OperationOutcome::Done, 2, 9)];
    assert!(matches!(judge(&twice), Verdict::Illegal(_)), "one of them lost");
    let refused = [put(1, 0, 1), swap(1, 2, OperationOutcome::Refused, 2, 3)];
    assert!(matches!(judge(&refused), Verdict::Illegal(_)), "it held");
    let resurrected = [put(1, 0, 1), delete(2, 3), get(1, 4, 5)];
    assert!(matches!(judge(&resurrected), Verdict::Illegal(_)));
    let many: Vec<_> = (0..20).map(|i| put(i, 0, 99)).chain([get(99, 100, 101)]).collect();
    assert_eq!(search::judge(&many, 1000), Verdict::Unknown);
}

/// Times are closed: the removal may come after a write that was called at the moment of its end.
#[test]
fn operations_that_touch_are_under_way_at_one_time() {
    let touching = sorted(&[delete(0, 1), put(2, 1, 2), none(3, 4)]);
    assert_eq!(search::judge(&touching, STEPS), Verdict::Legal);
    sweep::judge(&touching).expect("legal");
    zones::judge(&touching).expect("legal");
    let apart = sorted(&[delete(0, 1), put(2, 2, 3), none(4, 5)]);
    assert!(matches!(search::judge(&apart, STEPS), Verdict::Illegal(_)));
    assert!(rule(sweep::judge(&apart)).starts_with("nothing is there"));
}

/// All orders of a few operations, without any cleverness.
fn by_force(operations: &[Operation]) -> bool {
    fn explain(rest: &[Operation], there: Option<Value>) -> bool {
        rest.iter().all(Operation::in_doubt)
            || (0..rest.len()).any(|i| {
                let chosen = &rest[i];
                let others: Vec<_> =
                    rest.iter().filter(|other| !std::ptr::eq(*other, chosen)).cloned().collect();
                let first = others.iter().all(|other| other.end >= chosen.call);
                let next = match (chosen.action, chosen.outcome) {
                    (Invocation::Put(value), _) => Some(Some(value)),
                    (Invocation::Delete, OperationOutcome::Absent) => there.is_none().then_some(None),
                    (Invocation::Delete, OperationOutcome::Done) => there.is_some().then_some(None),
                    (Invocation::Delete, _) => Some(None),
                    (Invocation::PutIfAbsent(_), OperationOutcome::Refused) => there.map(Some),
                    (Invocation::PutIfAbsent(value), _) => there.is_none().then_some(Some(value)),
                    (Invocation::Replace { expected, .. }, OperationOutcome::Refused) => {
                        (there != Some(expected)).then_some(there)
                    }
                    (Invocation::Replace { expected, new }, _) => {
                        (there == Some(expected)).then_some(Some(new))
                    }
                    (_, OperationOutcome::Found(value)) => (there == Some(value)).then_some(there),
                    (_, _) => there.is_none().then_some(None),
                };
                first && next.is_some_and(|there| explain(&others, there))
            })
    }
    explain(operations, None)
}

/// A few operations of a key, whose writes are unique: puts and gets are four kinds, with removals it is six,
/// with conditional ones nine.
fn few(kinds: u8) -> impl Strategy<Value = Vec<Operation>> {
    let one = (0..kinds, 0..12u64, 1..8u64, 0..4u64);
    prop::collection::vec(one, 1..8).prop_map(|all| {
        let outcome = |any| {
            [OperationOutcome::Done, OperationOutcome::Refused, OperationOutcome::InDoubt][any as usize % 3]
        };
        let make = |(i, (kind, call, takes, found)): (usize, (u8, u64, u64, u64))| match kind {
            0 => put(i as u64, call, call + takes),
            1 => lost(i as u64, call),
            2 | 3 => get(found, call, call + takes),
            4 => delete(call, call + takes),
            5 => none(call, call + takes),
            // Whether it was done, refused, or is in doubt.
            6 => operation(5, Invocation::PutIfAbsent(Value(i as u64)), outcome(takes), call, call + takes),
            7 => operation(3, Invocation::Delete, OperationOutcome::InDoubt, call, 0),
            _ => {
                let action = Invocation::Replace { expected: Value(found), new: Value(i as u64) };
                operation(4, action, outcome(takes), call, call + takes)
            }
        };
        sorted(&all.into_iter().enumerate().map(make).collect::<Vec<_>>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn zones_and_search_agree_with_all_orders(operations in few(4)) {
        let legal = by_force(&operations);
        prop_assert_eq!(search::judge(&operations, STEPS) == Verdict::Legal, legal);
        // A get of a value that nobody wrote, or only later, is found, too.
        prop_assert_eq!(zones::judge(&operations).is_ok(), legal);
    }

    #[test]
    fn the_search_agrees_with_all_orders_of_removals_too(operations in few(6)) {
        let legal = by_force(&operations);
        prop_assert_eq!(search::judge(&operations, STEPS) == Verdict::Legal, legal);
        prop_assert!(!legal || sweep::judge(&operations).is_ok(), "the sweep accuses nobody wrongly");
        prop_assert!(!legal || zones::judge(&operations).is_ok(), "nor do the zones");
    }
    #[test]
    fn the_search_agrees_with_all_orders_of_conditions_too(operations in few(9)) {
        let legal = by_force(&operations);
        prop_assert_eq!(search::judge(&operations, STEPS) == Verdict::Legal, legal);
        prop_assert!(!legal || sweep::judge(&operations).is_ok(), "the sweep accuses nobody wrongly");
        prop_assert!(!legal || zones::judge(&operations).is_ok(), "nor do the zones");
    }
}

/// A register as many clients see it: each operation takes effect at a moment between call and end.
fn long(operations: u64, keys: u64) -> History {
    let mut history = History::default();
    let mut there = vec![None; keys as usize];
    for i in 0..operations {
        // Any numbers will do, if they are always the same.
        let word = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (moment, key) = (100 + i * 10, (word >> 40) % keys);
        let (call, end) = (moment - word % 90, moment + (word >> 8) % 300);
        let state = &mut there[key as usize];
        let done = if word & 3 == 0 {
            *state = Some((i, i + 1));
            of(i + 1, put(i, call, end))
        } else {
            state.map_or_else(|| none(call, end), |(value, version)| of(version, get(value, call, end)))
        };
        history.push(Operation { key: key as u32, client: (word >> 20) as u32 % 64, ..done });
    }
    history
}

#[test]
fn a_long_legal_history_is_accepted_and_one_stale_read_in_it_is_not() {
    let history = long(50_000, 50);
    history.judge(1 << 16).expect("legal");
    let mut operations = history.operations().to_vec();
    // Somebody finds what was there long ago.
    let old = operations[1_000..].iter().find(|o| o.wrote().is_some()).expect("writes").clone();
    let late = operations.iter().rposition(|o| o.key == old.key && o.version.is_some()).expect("later");
    let call = operations[late].end + Nanos(1_000);
    let stale = Operation {
        call,
        end: call + Nanos(5),
        version: old.version,
        ..get(old.wrote().expect("a write").0, 0, 0)
    };
    operations.push(Operation { key: old.key, ..stale });
    let judged = |unversioned: bool| {
        let mut history = History::default();
        for operation in &operations {
            let version = operation.version.filter(|_| !unversioned);
            history.push(Operation { version, ..operation.clone() });
        }
        history.judge(1 << 16)
    };
    assert_eq!(rule(judged(false)), "an older version than was seen before the call");
    assert!(rule(judged(true)).contains("must have been there"), "also without versions");
}
