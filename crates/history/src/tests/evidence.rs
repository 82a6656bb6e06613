use super::*;
use crate::sessions::SessionAnswer;
use crate::{Evidence, lost, sessions};

fn answer(session: u64, sequence: u64, operation: Operation) -> SessionAnswer {
    SessionAnswer { session, sequence, operation }
}

fn left(value: u64, version: u64) -> Operation {
    of(version, get(value, 1_000, 1_001))
}

#[test]
fn each_rule_of_the_sessions_has_its_breach() {
    let judge = |answers: &[SessionAnswer]| sessions::judge(answers);
    let done = of(4, put(1, 0, 1));
    let again = Operation { call: Nanos(5), end: Nanos(6), ..done.clone() };
    let doubt = lost(1, 0);
    judge(&[answer(1, 1, doubt.clone()), answer(1, 1, done.clone()), answer(1, 1, again.clone())])
        .expect("the same answer again, once it comes");
    judge(&[answer(1, 1, done.clone()), answer(2, 1, of(5, put(2, 0, 1)))]).expect("two sessions");
    let moved = of(9, get(7, 0, 1));
    judge(&[answer(1, 0, moved), answer(1, 0, of(4, get(1, 2, 3)))]).expect("gets have no number");

    let twice = [answer(1, 1, done.clone()), answer(1, 1, doubt), answer(1, 1, of(5, again.clone()))];
    assert!(rule(judge(&twice)).starts_with("an operation took effect twice"));
    let unsaid = Operation { version: None, ..done.clone() };
    let late = [answer(1, 1, unsaid), answer(1, 1, done.clone()), answer(1, 1, of(5, again.clone()))];
    assert!(rule(judge(&late)).starts_with("an operation took effect twice"), "the first did not say");
    let refused = Operation { outcome: OperationOutcome::Refused, version: None, ..again };
    assert!(rule(judge(&[answer(1, 1, done.clone()), answer(1, 1, refused)])).starts_with("two different"));
    assert!(
        rule(judge(&[answer(1, 1, done), answer(1, 1, of(4, put(2, 0, 1)))])).starts_with("one number of a")
    );
}

#[test]
fn each_rule_of_what_is_lost_has_its_breach() {
    let judge = |operations: &[Operation], left: &Operation| lost::judge(&sorted(operations), left);
    let two = [of(1, put(1, 0, 1)), of(2, put(2, 2, 3))];
    let gone = none(1_000, 1_001);
    judge(&two, &left(2, 2)).expect("the last is left");
    judge(&[two[0].clone(), lost(2, 2)], &left(2, 2)).expect("one in doubt took effect");
    judge(&[two[0].clone(), lost(2, 2)], &left(1, 1)).expect("or did not");
    judge(&[put(1, 0, 9), put(2, 5, 6)], &get(1, 1_000, 1_001)).expect("they were under way at one time");
    judge(&[two[0].clone(), delete(2, 3)], &gone).expect("somebody removed it");
    judge(&[delete(0, 5), two[0].clone()], &gone).expect("somebody may have removed it");
    judge(&[], &gone).expect("there was nothing");

    assert!(rule(judge(&two, &left(1, 1))).starts_with("an acknowledged write is lost"));
    assert!(rule(judge(&[put(1, 0, 1), put(2, 2, 3)], &get(1, 9, 9))).ends_with("what is left is older"));
    let crossed = [of(1, put(1, 0, 9)), of(2, put(2, 0, 9))];
    assert!(rule(judge(&crossed, &left(1, 1))).ends_with("what is left is older"), "its version says so");
    assert!(rule(judge(&[put(1, 0, 1), delete(2, 3)], &get(1, 9, 9))).ends_with("older"), "a lost removal");
    assert!(rule(judge(&two, &left(2, 3))).starts_with("what is left has another version"));
    assert!(rule(judge(&two, &left(3, 3))).starts_with("what is left was written by nobody"));
    assert!(rule(judge(&two, &gone)).ends_with("nobody removed it"));
    assert!(rule(judge(&[delete(0, 1), put(1, 2, 3)], &gone)).ends_with("nobody removed it"));
}

/// Whoever may have written in doubt is judged by the versions at which others found it.
#[test]
fn a_version_is_of_one_write_in_doubt_too() {
    let judge = |operations: &[Operation]| sweep::judge(&sorted(operations));
    let twice = [of(1, put(1, 0, 1)), of(5, get(1, 2, 3)), of(5, get(1, 4, 5))];
    assert!(rule(judge(&twice)).starts_with("one value under two versions"));
    let past = [of(5, put(1, 0, 1)), lost(2, 2), of(3, get(2, 0, 9))];
    assert!(rule(judge(&past)).starts_with("an older version"), "a new write under an old version");
    judge(&[of(5, put(1, 0, 1)), lost(2, 2), of(6, get(2, 0, 9))]).expect("legal");
}

#[test]
fn a_report_counts_and_says_why() {
    let mut one = History::default();
    let mut other = History::default();
    one.push(of(1, put(1, 0, 9)));
    one.push(Operation { end: Nanos(5), ..lost(2, 3) });
    other.push(of(1, get(1, 9, 12)));
    other.push(Operation { key: 7, ..none(0, 1) });
    one.merge(other);
    assert_eq!(one.operations()[1].end, NEVER, "in doubt without an end, whatever was said");
    let looked = [left(1, 1), Operation { key: 7, ..none(1_000, 1_001) }];
    let evidence = Evidence { history: &one, answers: &[], left: &looked, steps: STEPS };
    let report = evidence.judge();
    assert_eq!(report.to_string(), "4 operations, 1 in doubt, on 2 keys, at most 3 at once on one: legal");
    assert_eq!(Evidence { steps: 0, ..evidence }.judge().undecided, 2, "nothing was searched");

    let looked = [Operation { key: 7, ..left(3, 3) }];
    let text = Evidence { left: &looked, ..evidence }.judge().to_string();
    assert!(text.contains("written by nobody\n  client 2, key 7: Get -> Found(Value(3)), 1000 ns"), "{text}");
    let answers = [answer(1, 1, of(1, put(1, 0, 9))), answer(1, 1, of(2, put(1, 0, 9)))];
    assert!(Evidence { answers: &answers, ..evidence }.judge().violation.is_some());
}

#[test]
fn in_whatever_order_clients_are_merged_the_same_are_guilty() {
    let operations = [of(1, put(1, 0, 1)), of(2, put(2, 2, 3)), of(1, get(1, 4, 5)), of(1, none(4, 5))];
    let judged = |order: &[usize]| {
        let mut history = History::default();
        order.iter().for_each(|&i| {
            history.push(Operation { client: i as u32, ..operations[i].clone() });
        });
        history.judge(STEPS).expect_err("stale")
    };
    assert_eq!(judged(&[0, 1, 2, 3]), judged(&[3, 2, 1, 0]));
}
