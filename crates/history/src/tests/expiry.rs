//! Values with a time to live: gone at some time between two bounds, and never back.

use super::*;
use crate::lost;

/// It lives for 100, more or less 10.
fn over(write: &Operation) -> Operation {
    write.expiry(Nanos(100), Nanos(10), Nanos(10)).expect("it wrote")
}

fn replace(expected: u64, new: u64, outcome: OperationOutcome, call: u64, end: u64) -> Operation {
    operation(4, Invocation::Replace { expected: Value(expected), new: Value(new) }, outcome, call, end)
}

fn judged(operations: &[Operation]) -> [bool; 2] {
    let operations = sorted(operations);
    let searched = match search::judge(&operations, STEPS) {
        Verdict::Legal => true,
        Verdict::Illegal(_) => false,
        Verdict::Unknown => panic!("the search gave up"),
    };
    let quick = sweep::judge(&operations).and_then(|()| zones::judge(&operations)).is_ok();
    [quick, searched]
}

const LEGAL: [bool; 2] = [true; 2];
const FOUND_BY_BOTH: [bool; 2] = [false; 2];

#[test]
fn a_value_goes_in_its_time_and_stays_away() {
    let write = put(1, 0, 5);
    let with = |more: &[Operation]| judged(&[&[write.clone(), over(&write)], more].concat());
    assert_eq!(with(&[get(1, 6, 7), get(1, 80, 114)]), LEGAL);
    assert_eq!(with(&[get(1, 80, 90), none(91, 92), none(200, 201)]), LEGAL);
    assert_eq!(with(&[none(120, 130)]), LEGAL);
    assert_eq!(with(&[none(80, 89)]), FOUND_BY_BOTH, "too early");
    assert_eq!(with(&[get(1, 116, 120)]), FOUND_BY_BOTH, "too late");
    assert_eq!(with(&[none(95, 96), get(1, 97, 98)]), FOUND_BY_BOTH, "back again");
    assert_eq!(with(&[none(95, 98), get(1, 97, 99)]), LEGAL, "at the same time");
    let absent = operation(5, Invocation::PutIfAbsent(Value(2)), OperationOutcome::Done, 95, 96);
    assert_eq!(with(&[absent.clone(), get(1, 97, 98)]), FOUND_BY_BOTH);
    assert_eq!(with(&[absent, get(2, 97, 98), get(2, 300, 301)]), LEGAL, "the next has no end");
}

#[test]
fn what_was_replaced_before_its_time_is_not_taken_away() {
    let (first, second) = (put(1, 0, 5), put(2, 50, 55));
    let with = |more: &[Operation]| judged(&[&[first.clone(), over(&first), second.clone()], more].concat());
    assert_eq!(with(&[get(2, 200, 201)]), LEGAL);
    assert!(!with(&[none(200, 201)])[1], "only the search knows which value is there");
    assert_eq!(
        judged(&[put(1, 0, 5), over(&second), second, none(200, 201)]),
        LEGAL,
        "with what it replaced"
    );
}

#[test]
fn a_write_in_doubt_may_go_at_any_time_after() {
    let write = lost(1, 0);
    let with = |more: &[Operation]| judged(&[&[write.clone(), over(&write)], more].concat());
    assert_eq!(with(&[get(1, 500, 501), none(502, 503)]), LEGAL);
    assert_eq!(with(&[none(502, 503)]), LEGAL);
    assert_eq!(with(&[get(1, 500, 501), none(502, 503), get(1, 504, 505)]), FOUND_BY_BOTH);
    assert_eq!(with(&[get(1, 20, 21), none(30, 31)]), FOUND_BY_BOTH, "sooner than it can be over");
}

#[test]
fn a_replacement_is_judged_when_it_arrives() {
    let write = put(1, 0, 5);
    let with = |more: &[Operation]| judged(&[&[write.clone(), over(&write)], more].concat());
    let late = replace(1, 2, OperationOutcome::Done, 100, 150);
    assert_eq!(with(&[late.clone(), none(110, 111), get(2, 151, 152)]), LEGAL);
    let refused = replace(1, 2, OperationOutcome::Refused, 100, 150);
    assert_eq!(with(&[refused]), LEGAL);
    assert!(!with(&[replace(1, 2, OperationOutcome::Done, 120, 150)])[1], "it was over before");
}

#[test]
fn what_is_left_was_not_over_and_what_is_over_is_not_lost() {
    let (first, second) = (put(1, 0, 5), put(2, 50, 55));
    let both = sorted(&[first.clone(), over(&second), second.clone()]);
    lost::judge(&both, &none(300, 301)).expect("both are over");
    assert!(rule(lost::judge(&both, &none(56, 57))).starts_with("an acknowledged write is lost"));
    assert!(rule(lost::judge(&both, &get(2, 300, 301))).starts_with("what is left is there after"));
    lost::judge(&both, &get(2, 60, 61)).expect("it is its time");
    let first_only = sorted(&[over(&first), first, second]);
    assert!(rule(lost::judge(&first_only, &none(300, 301))).starts_with("an acknowledged write is lost"));
    lost::judge(&first_only, &get(2, 300, 301)).expect("it has no end");
}
