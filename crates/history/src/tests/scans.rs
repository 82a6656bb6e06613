//! Pages of one iterator after each other: each anomaly at its smallest, and its legal neighbours.

use std::ops::Bound;

use super::pages::{A, B, delete_at, get_at, history, lost_at, page, put_at};
use super::*;
use crate::{Direction, Item, Page, scans};

const C: u32 = 3;

fn says(operations: &[Operation], pages: &[Page]) -> &'static str {
    rule(scans::judge(&history(operations, pages)))
}

fn accepted(operations: &[Operation], pages: &[Page]) {
    scans::judge(&history(operations, pages)).expect("legal");
}

/// All three are there.
fn three() -> [Operation; 3] {
    [put_at(A, 1, 0, 1), put_at(B, 2, 0, 1), put_at(C, 3, 0, 1)]
}

/// A page that is cut, which begins after a key.
fn cut(after: Option<u32>, items: &[[u64; 2]], call: u64) -> Page {
    let low = after.map_or(Bound::Unbounded, Bound::Excluded);
    Page { low, more: true, ..page(items, call, call + 1) }
}

fn last(after: u32, items: &[[u64; 2]], call: u64) -> Page {
    Page { more: false, ..cut(Some(after), items, call) }
}

fn down(page: Page) -> Page {
    let (low, high) = (Bound::Unbounded, page.low);
    Page { low, high, direction: Direction::Descending, ..page }
}

#[test]
fn pages_go_on_after_the_last_key() {
    let first = cut(None, &[[1, 1]], 2);
    accepted(&three(), &[first.clone(), cut(Some(A), &[[2, 2]], 4), last(B, &[[3, 3]], 6)]);
    accepted(&three(), &[first.clone(), last(A, &[[2, 2], [3, 3]], 4)]);
    accepted(&three(), &[first.clone(), cut(Some(A), &[[2, 2], [3, 3]], 4), last(C, &[], 6)]);
    accepted(&three(), &[down(cut(None, &[[3, 3], [2, 2]], 2)), down(last(B, &[[1, 1]], 4))]);
    let from = |low: Bound<u32>, items: &[[u64; 2]]| Page { low, ..last(A, items, 4) };
    let with = |next: Page| says(&three(), &[first.clone(), next]);
    let again = from(Bound::Included(A), &[[1, 1], [2, 2], [3, 3]]);
    assert_eq!(with(again), "a page begins with the last key of the page before");
    assert_eq!(with(from(Bound::Excluded(B), &[[3, 3]])), "a page is not of what the page before left");
    assert_eq!(
        with(from(Bound::Included(A), &[[2, 2], [3, 3]])),
        "a page is not of what the page before left"
    );
    let narrow = Page { high: Bound::Excluded(C), ..last(A, &[[2, 2]], 4) };
    assert_eq!(with(narrow), "a page is not of what the page before left");
    let turned = Page { direction: Direction::Descending, ..last(A, &[[3, 3], [2, 2]], 4) };
    assert_eq!(with(turned), "an iterator that changes its direction");
    let back = says(&three(), &[cut(None, &[[1, 1], [2, 2]], 2), from(Bound::Unbounded, &[[1, 1], [3, 3]])]);
    assert_eq!(back, "a page begins before the page before ended");
    let up = says(&three(), &[down(cut(None, &[[3, 3], [2, 2]], 2)), down(last(A, &[], 4))]);
    assert_eq!(up, "a page is not of what the page before left");
    let ended = says(&three(), &[page(&[[1, 1], [2, 2], [3, 3]], 2, 3), last(C, &[], 4)]);
    assert_eq!(ended, "a page after the last one of its iterator");
    assert_eq!(says(&three(), &[page(&[[1, 1], [1, 1]], 2, 3)]), "a page shows a key twice");
    assert_eq!(
        says(&three(), &[page(&[[2, 2], [1, 1]], 2, 3)]),
        "a page is not in the order that was asked for"
    );
}

#[test]
fn each_iterator_is_judged_for_itself() {
    let (one, other) = (cut(None, &[[1, 1]], 2), cut(None, &[[1, 1]], 4));
    accepted(&three(), &[one.clone(), Page { scan: 2, ..other.clone() }]);
    accepted(&three(), &[one.clone(), Page { client: 8, ..other.clone() }]);
    assert_eq!(says(&three(), &[one, other]), "a page begins with the last key of the page before");
}

#[test]
fn what_was_there_throughout_is_not_left_out() {
    let left_out = "a scan leaves out a key that was there throughout";
    let without_b = [cut(None, &[[1, 1]], 10), last(A, &[[3, 3]], 20)];
    let with = |more: &[Operation]| [&three()[..], more].concat();
    assert_eq!(says(&three(), &without_b), left_out);
    assert_eq!(says(&with(&[delete_at(B, 4, 22, 23)]), &without_b), left_out, "removed too late");
    let back = with(&[delete_at(B, 4, 2, 3), put_at(B, 5, 4, 5)]);
    assert_eq!(says(&back, &without_b), left_out, "removed too early");
    let seen = [put_at(A, 1, 0, 1), put_at(C, 3, 0, 1), lost_at(B, 2, 0), get_at(B, 2, 5, 6)];
    assert_eq!(says(&seen, &without_b), left_out, "somebody saw it");
    assert_eq!(says(&three(), &[down(cut(None, &[[3, 3], [1, 1]], 10))]), left_out);
    accepted(&with(&[delete_at(B, 4, 2, 3)]), &without_b);
    accepted(&with(&[delete_at(B, 4, 12, 30)]), &without_b);
    accepted(&with(&[delete_at(B, 4, 21, 22)]), &without_b);
    let doubt = Operation { key: B, ..operation(3, Invocation::Delete, OperationOutcome::InDoubt, 2, 0) };
    accepted(&with(&[doubt]), &without_b);
    accepted(&[put_at(A, 1, 0, 1), put_at(C, 3, 0, 1), put_at(B, 2, 0, 10)], &without_b);
    accepted(&[put_at(A, 1, 0, 1), put_at(C, 3, 0, 1), lost_at(B, 2, 0)], &without_b);
    accepted(&three(), &[Page { more: true, ..without_b[0].clone() }]);
    let over = three()[1].expiry(Nanos(15), Nanos(1), Nanos(1)).expect("it wrote");
    accepted(&with(&[over]), &without_b);
}

#[test]
fn what_cannot_have_been_there_is_not_shown() {
    let shows = |operations: &[Operation]| says(operations, &[page(&[[1, 1]], 10, 11)]);
    assert_eq!(shows(&[]), "a page shows a key that nobody wrote");
    assert_eq!(shows(&[put_at(A, 2, 0, 1)]), "a page shows a value that nobody wrote");
    assert_eq!(shows(&[put_at(A, 1, 12, 13)]), "a page shows a value before it was written");
    let replaced = "a page shows a value that was replaced or removed before";
    assert_eq!(shows(&[put_at(A, 1, 0, 1), put_at(A, 2, 2, 3)]), replaced);
    assert_eq!(shows(&[put_at(A, 1, 0, 1), delete_at(A, 2, 2, 3)]), replaced);
    let shown = |operations: &[Operation]| accepted(operations, &[page(&[[1, 1]], 10, 11)]);
    shown(&[put_at(A, 1, 11, 13)]);
    shown(&[put_at(A, 1, 0, 1), put_at(A, 2, 1, 3)]);
    shown(&[put_at(A, 1, 0, 1), delete_at(A, 2, 2, 10)]);
    shown(&[lost_at(A, 1, 0), delete_at(A, 2, 2, 3)]);
}

#[test]
fn a_key_alone_can_have_been_there() {
    let item = Item { key: A, value: None, version: None };
    let bare = Page { items: vec![item], ..page(&[], 10, 11) };
    let shows = |operations: &[Operation]| says(operations, std::slice::from_ref(&bare));
    assert_eq!(shows(&[put_at(A, 1, 12, 13)]), "a page shows a key before it was written");
    assert_eq!(shows(&[put_at(A, 1, 0, 1), delete_at(A, 2, 2, 3)]), "a page shows a key that was removed");
    let back = [put_at(A, 1, 0, 1), delete_at(A, 2, 2, 3), put_at(A, 3, 3, 30)];
    accepted(&back, std::slice::from_ref(&bare));
    accepted(&[put_at(A, 1, 0, 1), lost_at(A, 3, 1), delete_at(A, 2, 2, 3)], &[bare]);
}

#[test]
fn all_judges_are_asked_of_pages_too() {
    let judged = |operations: &[Operation], pages: &[Page]| history(operations, pages).judge(STEPS);
    let first = cut(None, &[[1, 1]], 2);
    judged(&three(), &[first.clone(), last(A, &[[2, 2], [3, 3]], 4)]).expect("legal");
    assert!(rule(judged(&three(), &[first.clone(), last(A, &[[3, 3]], 4)])).starts_with("a scan leaves out"));
    let (one, other) = (page(&[[1, 1]], 1, 30), Page { scan: 2, ..page(&[[2, 2]], 1, 30) });
    let crossed = [put_at(A, 1, 0, 20), put_at(B, 2, 0, 20)];
    assert!(
        rule(judged(&crossed, &[one.clone(), other.clone()])).starts_with("no order explains the answers:")
    );
    // Where versions say nothing, the search does.
    let bare = crossed.map(|operation| Operation { version: None, ..operation });
    let unversioned = |page: Page| {
        let items = page.items.iter().map(|item| Item { version: None, ..*item }).collect();
        Page { items, ..page }
    };
    assert!(rule(judged(&bare, &[unversioned(one), unversioned(other)])).ends_with("up to this one"));
    let mut merged = history(&three(), &[]);
    merged.merge(history(&[], &[first]));
    assert_eq!((merged.len(), merged.pages().len(), merged.is_empty()), (4, 1, false));
}
