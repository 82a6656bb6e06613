//! Pages among operations on single keys: each anomaly at its smallest, and its legal neighbours. A value has
//! the number of its version, so that the search, which knows no versions, judges the same.

use std::ops::Bound;

use super::*;
use crate::counters::{self, Count};
use crate::{Before, Deed, Direction, Item, Page, Violation, cycles};

pub const A: u32 = 1;
pub const B: u32 = 2;

pub fn put_at(key: u32, version: u64, call: u64, end: u64) -> Operation {
    Operation { key, ..of(version, put(version, call, end)) }
}

pub fn lost_at(key: u32, version: u64, call: u64) -> Operation {
    Operation { key, ..lost(version, call) }
}

pub fn get_at(key: u32, version: u64, call: u64, end: u64) -> Operation {
    Operation { key, ..of(version, get(version, call, end)) }
}

pub fn delete_at(key: u32, version: u64, call: u64, end: u64) -> Operation {
    Operation { key, ..of(version, delete(call, end)) }
}

pub fn item(key: u32, version: u64) -> Item {
    Item { key, value: Some(Value(version)), version: Some(Csn(version)) }
}

/// A page of all keys, in which each has the value of this version.
pub fn page(items: &[[u64; 2]], call: u64, end: u64) -> Page {
    let items = items.iter().map(|&[key, version]| item(key as u32, version)).collect();
    let (low, high, direction) = (Bound::Unbounded, Bound::Unbounded, Direction::Ascending);
    let (call, end) = (Nanos(call), Nanos(end));
    Page { client: 9, scan: 1, low, high, direction, limit: 10, more: false, items, call, end }
}

pub fn history(operations: &[Operation], pages: &[Page]) -> History {
    let mut history = History::default();
    operations.iter().for_each(|operation| history.push(operation.clone()));
    pages.iter().for_each(|page| history.push_page(page.clone()));
    history
}

fn accepted(operations: &[Operation], pages: &[Page]) {
    let history = history(operations, pages);
    assert_eq!(cycles::judge(&history), Ok(0), "nothing is left open");
    assert_eq!(search::judge_map(&history, STEPS), Verdict::Legal);
}

/// What the judge of cycles says; the search refuses it, too.
fn refused(operations: &[Operation], pages: &[Page]) -> Violation {
    let history = history(operations, pages);
    let verdict = search::judge_map(&history, STEPS);
    assert!(matches!(verdict, Verdict::Illegal(_)), "{verdict:?}");
    cycles::judge(&history).expect_err("no order explains it")
}

/// The cycle that it finds, from its first page or operation on.
fn cycle(operations: &[Operation], pages: &[Page]) -> Vec<Before> {
    let found = refused(operations, pages);
    assert!(found.rule.starts_with("no order"), "{found}");
    assert_eq!(found.guilty.len(), found.before.len());
    let first = found.guilty.iter().position(|deed| matches!(deed, Deed::Page(_))).expect("a page");
    let mut before = found.before;
    before.rotate_left(first);
    before
}

fn says(operations: &[Operation], pages: &[Page]) -> &'static str {
    refused(operations, pages).rule
}

/// PUT b is before GET a, which ended later and does not see PUT a, which the page sees, which does not see
/// PUT b. Each of the four is in order with each other.
#[test]
fn a_page_that_sees_b_too_late_for_what_a_get_saw_of_a() {
    let operations = [put_at(A, 1, 0, 1), put_at(B, 3, 2, 3), get_at(A, 1, 4, 5), put_at(A, 2, 2, 20)];
    let torn = page(&[[1, 2]], 2, 9);
    let circle = [Before::Unseen(B), Before::Ended, Before::Unseen(A), Before::Seen(A)];
    assert_eq!(cycle(&operations, std::slice::from_ref(&torn)), circle);
    let text = refused(&operations, &[torn]).to_string();
    for line in [
        "no order explains the answers: each of these is before the next, the last before the first\n",
        "\n  client 1, key 2: Put(Value(3)) -> Done, 2 ns to 3 ns, version 3\n",
        "    before the next: it ended before that was called\n",
        "\n  client 2, key 1: Get -> Found(Value(1)), 4 ns to 5 ns, version 1\n",
        ": it saw key 1 as it was before that wrote it\n",
        "\n  client 1, key 1: Put(Value(2)) -> Done, 2 ns to 20 ns, version 2\n",
        ": that saw what it left of key 1\n",
        "page of (-, -), Ascending, at most 10 -> key 1 Value(2) version 2, no more, 2 ns to 9 ns",
        ": it saw key 2 as it was before that wrote it",
        "before the first: ",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    accepted(&operations, &[page(&[[1, 2], [2, 3]], 2, 9)]);
    accepted(&operations, &[page(&[[1, 1], [2, 3]], 2, 9)]);
    accepted(&operations[..3], &[page(&[[1, 1]], 1, 9)]);
}

#[test]
fn a_page_that_is_older_than_what_was_acknowledged() {
    let pair = [Before::Unseen(A), Before::Ended];
    assert_eq!(cycle(&[put_at(A, 1, 0, 1), put_at(A, 2, 2, 3)], &[page(&[[1, 1]], 4, 5)]), pair, "stale");
    let absent = "a key is absent that was there all the time";
    assert_eq!(says(&[put_at(A, 1, 0, 1)], &[page(&[], 2, 3)]), absent);
    let again = [put_at(A, 1, 0, 1), delete_at(A, 2, 2, 3), put_at(A, 3, 4, 5)];
    assert_eq!(says(&again, &[page(&[], 6, 7)]), absent);
    assert_eq!(cycle(&again[..2], &[page(&[[1, 1]], 4, 5)]), pair, "deleted, and shown");
    accepted(&again, &[page(&[], 4, 5)]);
    accepted(&again[..2], &[page(&[[1, 1]], 3, 5)]);
    accepted(&again[..2], &[page(&[], 3, 5)]);
}

#[test]
fn a_page_from_the_future() {
    assert_eq!(cycle(&[put_at(A, 1, 2, 3)], &[page(&[[1, 1]], 0, 1)]), [Before::Ended, Before::Seen(A)]);
    accepted(&[put_at(A, 1, 1, 3)], &[page(&[[1, 1]], 0, 1)]);
}

#[test]
fn a_page_that_is_torn_between_two_keys() {
    let operations = [put_at(A, 1, 0, 1), put_at(B, 2, 0, 1), put_at(A, 3, 2, 3), put_at(B, 4, 4, 5)];
    let circle = [Before::Unseen(A), Before::Ended, Before::Seen(B)];
    assert_eq!(cycle(&operations, &[page(&[[1, 1], [2, 4]], 0, 9)]), circle);
    for seen in [[[1, 1], [2, 2]], [[1, 3], [2, 2]], [[1, 3], [2, 4]]] {
        accepted(&operations, &[page(&seen, 0, 9)]);
    }
    let crossed = [put_at(A, 1, 0, 9), put_at(B, 2, 0, 9)];
    accepted(&crossed, &[page(&[[1, 1]], 0, 9)]);
    accepted(&crossed, &[page(&[[2, 2]], 0, 9)]);
}

#[test]
fn two_pages_that_disagree_about_the_order_of_two_writes() {
    let operations = [put_at(A, 1, 0, 20), put_at(B, 2, 0, 20)];
    let (one, other) = (page(&[[1, 1]], 1, 30), page(&[[2, 2]], 1, 30));
    let circle = [Before::Unseen(B), Before::Seen(B), Before::Unseen(A), Before::Seen(A)];
    let mut found = cycle(&operations, &[one.clone(), other.clone()]);
    let first = found.iter().position(|why| *why == circle[0]).expect("one of them");
    found.rotate_left(first);
    assert_eq!(found, circle, "from either page on");
    accepted(&operations, &[one.clone(), page(&[[1, 1], [2, 2]], 1, 30), one]);
    accepted(&operations, &[other.clone(), page(&[], 1, 30), other]);
}

#[test]
fn a_get_between_two_pages_goes_back() {
    let writes = [put_at(A, 1, 0, 1), put_at(A, 2, 2, 20)];
    let pages = [page(&[[1, 2]], 3, 4), page(&[[1, 2]], 7, 8)];
    let with = |get: Operation| [&writes[..], &[get]].concat();
    let circle = [Before::Ended, Before::Unseen(A), Before::Seen(A)];
    assert_eq!(cycle(&with(get_at(A, 1, 5, 6)), &pages), circle);
    accepted(&with(get_at(A, 2, 5, 6)), &pages);
    accepted(&with(get_at(A, 1, 4, 6)), &pages);
    let gone = Operation { key: A, ..none(5, 6) };
    assert_eq!(says(&with(gone), &pages), "a key is absent that was there all the time");
}

#[test]
fn a_page_that_is_cut_says_nothing_of_what_follows() {
    let operations = [put_at(A, 1, 0, 1), put_at(B, 2, 0, 1), put_at(3, 3, 0, 1)];
    let cut = |items: &[[u64; 2]], direction| Page { direction, more: true, ..page(items, 2, 3) };
    accepted(&operations, &[cut(&[[1, 1]], Direction::Ascending)]);
    accepted(&operations, &[cut(&[[3, 3], [2, 2]], Direction::Descending)]);
    refused(&operations, &[cut(&[[2, 2]], Direction::Ascending)]);
    refused(&operations, &[cut(&[[3, 3], [1, 1]], Direction::Descending)]);
    let bounds = |low, high, items: &[[u64; 2]]| Page { low, high, ..page(items, 2, 3) };
    accepted(&operations, &[bounds(Bound::Excluded(A), Bound::Included(B), &[[2, 2]])]);
    accepted(&operations, &[bounds(Bound::Included(A), Bound::Excluded(B), &[[1, 1]])]);
    accepted(&operations, &[bounds(Bound::Excluded(A), Bound::Excluded(B), &[])]);
    accepted(&operations, &[bounds(Bound::Included(u32::MAX), Bound::Included(0), &[])]);
    refused(&operations, &[bounds(Bound::Included(A), Bound::Included(B), &[[2, 2]])]);
}

#[test]
fn a_page_that_can_be_none_whatever_is_there() {
    let operations = [put_at(A, 1, 0, 1), put_at(B, 2, 0, 1)];
    let whole = page(&[[1, 1], [2, 2]], 2, 3);
    accepted(&operations, std::slice::from_ref(&whole));
    let shape = |page: Page| says(&operations, &[page]);
    assert_eq!(shape(page(&[[1, 1], [1, 1], [2, 2]], 2, 3)), "a page shows a key twice");
    assert_eq!(shape(page(&[[2, 2], [1, 1]], 2, 3)), "a page is not in the order that was asked for");
    let backwards = Page { direction: Direction::Descending, ..whole.clone() };
    assert_eq!(shape(backwards), "a page is not in the order that was asked for");
    let low = Bound::Excluded(A);
    assert_eq!(shape(Page { low, ..whole.clone() }), "a page shows a key out of its bounds");
    assert_eq!(shape(Page { limit: 1, ..whole }), "a page shows more than was asked for");
    let more = Page { more: true, ..page(&[], 2, 3) };
    assert_eq!(shape(more), "a page shows nothing, and says that there is more");
}

#[test]
fn writes_in_doubt_happened_or_not() {
    let operations = [put_at(A, 1, 0, 1), lost_at(A, 2, 2), lost_at(B, 3, 2)];
    accepted(
        &operations,
        &[page(&[[1, 1]], 50, 51), page(&[[1, 2]], 52, 53), page(&[[1, 2], [2, 3]], 54, 55)],
    );
    accepted(&operations, &[page(&[[1, 2]], 3, 4), page(&[[1, 2]], 5, 6)]);
    refused(&operations, &[page(&[[1, 2]], 3, 4), page(&[[1, 1]], 5, 6)]);
    let removal = Operation { key: A, ..operation(3, Invocation::Delete, OperationOutcome::InDoubt, 2, 0) };
    let operations = [put_at(A, 1, 0, 1), removal];
    let gone = history(&operations, &[page(&[[1, 1]], 3, 4), page(&[], 5, 6)]);
    assert_eq!(cycles::judge(&gone), Ok(1), "somebody removed it, it is not known when");
    assert_eq!(search::judge_map(&gone, STEPS), Verdict::Legal);
}

#[test]
fn an_absence_between_two_removals_is_after_the_first_and_before_what_follows_the_last() {
    let operations = [put_at(A, 1, 0, 1), delete_at(A, 2, 2, 3), put_at(A, 3, 4, 30), delete_at(A, 4, 5, 30)];
    let with = |more: Operation| [&operations[..], &[more]].concat();
    let either = history(&with(put_at(A, 5, 6, 40)), &[page(&[], 6, 40)]);
    assert_eq!(cycles::judge(&either), Ok(1), "after one of the removals");
    accepted(&operations[..3], &[page(&[], 4, 9)]);
    let seen = [&operations[..3], &[get_at(A, 3, 6, 7)]].concat();
    let found = refused(&seen, &[page(&[], 8, 9)]);
    assert_eq!(found.rule, "a key is absent that was there all the time");
    assert_eq!(found.guilty.len(), 3, "who wrote it, who saw it, and the page: {found}");
}

#[test]
fn pages_of_keys_only() {
    let bare = |version: Option<u64>, call, end| {
        let item = Item { key: A, value: None, version: version.map(Csn) };
        Page { items: vec![item], ..page(&[], call, end) }
    };
    let operations = [put_at(A, 1, 0, 1), delete_at(A, 2, 4, 5)];
    accepted(&operations, &[bare(Some(1), 2, 3), bare(None, 2, 3)]);
    refused(&operations, &[bare(Some(1), 6, 7)]);
    refused(&operations, &[bare(None, 6, 7)]);
    let versions = |version| cycles::judge(&history(&operations, &[bare(Some(version), 2, 6)]));
    assert!(rule(versions(2)).starts_with("a key is shown under the version of its removal"));
    assert!(rule(versions(3)).starts_with("a version that nobody wrote"));
    let doubt = history(&[lost_at(A, 1, 0)], &[bare(Some(7), 2, 3)]);
    assert_eq!(cycles::judge(&doubt), Ok(1), "whoever is in doubt may have written it");
}

#[test]
fn versions_that_contradict_each_other() {
    let says = |operations: &[Operation], items: &[Item]| {
        let page = Page { items: items.to_vec(), ..page(&[], 8, 9) };
        rule(cycles::judge(&history(operations, &[page])))
    };
    let (one, two) = (put_at(A, 1, 0, 1), put_at(A, 2, 2, 3));
    let twins = [one.clone(), Operation { version: Some(Csn(1)), ..two.clone() }];
    assert_eq!(says(&twins, &[]), "two writes of a key under one version");
    let same = [one.clone(), Operation { version: Some(Csn(2)), ..put_at(A, 1, 2, 3) }];
    assert!(says(&same, &[]).starts_with("two writes of one value"));
    let of = |value, version| Item { key: A, value: Some(Value(value)), version: Some(Csn(version)) };
    assert_eq!(says(&[one.clone(), two.clone()], &[of(1, 2)]), "a value under the version of another write");
    assert!(says(&[one.clone(), two.clone()], &[of(2, 3)]).starts_with("one value under two versions"));
    assert_eq!(says(&[one.clone(), two], &[of(3, 3)]), "a value that nobody wrote");
    assert_eq!(says(&[one], &[item(B, 1)]), "a value that nobody wrote", "of that key");
}

#[test]
fn conditions_hold_in_the_one_order() {
    let first = |version, outcome, call, end| Operation {
        version: (outcome == OperationOutcome::Done).then_some(Csn(version)),
        key: A,
        ..operation(5, Invocation::PutIfAbsent(Value(version)), outcome, call, end)
    };
    let swap = |expected, version, outcome, call, end| Operation {
        version: (outcome == OperationOutcome::Done).then_some(Csn(version)),
        action: Invocation::Replace { expected: Value(expected), new: Value(version) },
        ..first(version, outcome, call, end)
    };
    let (done, not) = (OperationOutcome::Done, OperationOutcome::Refused);
    let one = put_at(A, 1, 0, 1);
    accepted(&[one.clone(), swap(1, 2, done, 2, 3), swap(1, 3, not, 4, 5), first(4, not, 4, 5)], &[]);
    assert!(says(&[one.clone(), first(2, done, 2, 3)], &[]).starts_with("written as if nothing"));
    assert!(says(&[first(2, not, 2, 3)], &[]).starts_with("a key is there that was absent"));
    assert!(says(&[one.clone(), swap(1, 2, not, 2, 3)], &[]).starts_with("a condition did not hold"));
    assert!(says(&[swap(1, 2, done, 2, 3)], &[]).starts_with("a value was replaced that nobody wrote"));
    assert!(says(&[delete_at(A, 1, 0, 1)], &[]).starts_with("removed, and nothing was there"));
    let twice = [one.clone(), swap(1, 2, done, 2, 9), swap(1, 3, done, 2, 9)];
    assert!(says(&twice, &[]).starts_with("no order"));
    let told = |version| Operation { version: Some(Csn(version)), ..swap(1, 9, not, 4, 5) };
    assert!(says(&[one.clone(), told(1)], &[]).starts_with("refused, and its condition held"));
    let two = put_at(A, 2, 2, 3);
    accepted(&[one.clone(), two.clone(), told(2)], &[]);
    // The search knows no versions.
    let versions = |operations: &[Operation]| rule(cycles::judge(&history(operations, &[])));
    let later = [one.clone(), two.clone(), put_at(A, 4, 6, 7), told(4)];
    assert!(versions(&later).starts_with("no order"));
    assert!(versions(&[one, two, told(0)]).starts_with("a key is absent"));
}

#[test]
fn counters_are_in_the_one_order_too() {
    let add = |told: Option<u64>, call, end| {
        let (call, end) = (Nanos(call), if told.is_some() { Nanos(end) } else { NEVER });
        Count { client: 1, key: A, adds: true, told, call, end }
    };
    let read = |told, call, end| Count { adds: false, ..add(Some(told), call, end) };
    let with = |counts: &[Count]| [counters::operations(counts), vec![put_at(B, 7, 4, 5)]].concat();
    let counts = [read(0, 0, 1), add(Some(1), 2, 20), add(None, 2, 0), add(Some(3), 3, 30), read(2, 6, 7)];
    accepted(&with(&counts), &[page(&[[1, 2], [2, 7]], 6, 9), page(&[[1, 3], [2, 7]], 10, 20)]);
    accepted(&with(&counts), &[page(&[[1, 1]], 3, 9), page(&[], 0, 3)]);
    // The search does not know that sums ascend.
    let versions = |page: Page| rule(cycles::judge(&history(&with(&counts), &[page])));
    assert!(versions(page(&[[1, 1], [2, 7]], 8, 9)).starts_with("no order"));
    assert!(versions(page(&[[1, 3]], 3, 20)).starts_with("no order"));
    refused(&with(&counts), &[page(&[[1, 4], [2, 7]], 8, 9)]);
}

#[test]
fn no_page_shows_a_value_after_its_time() {
    let write = put_at(A, 1, 0, 5);
    let over = write.expiry(Nanos(100), Nanos(10), Nanos(10)).expect("it wrote");
    let with = |pages: &[Page]| {
        let history = history(&[write.clone(), over.clone()], pages);
        let [quick, searched] =
            [cycles::judge(&history).is_ok(), search::judge_map(&history, STEPS) == Verdict::Legal];
        assert_eq!(quick, searched);
        quick
    };
    assert!(with(&[page(&[[1, 1]], 80, 114)]));
    assert!(with(&[page(&[[1, 1]], 80, 85), page(&[], 95, 96)]));
    assert!(!with(&[page(&[[1, 1]], 116, 120)]), "too late");
    assert!(!with(&[page(&[], 80, 89)]), "too early");
}
