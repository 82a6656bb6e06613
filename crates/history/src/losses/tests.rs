//! Each thing that a loss must not do is found, and each that it may do is believed.

mod runs;

use longarm_base::Csn;

use super::*;
use crate::{History, Invocation, NEVER, Operation, OperationOutcome, Value};

/// The loss of these histories, and the window.
const AT: Nanos = Nanos(1_000);
const WINDOW: Nanos = Nanos(100);

fn operation(key: u32, action: Invocation, call: u64, end: u64) -> Operation {
    let outcome = OperationOutcome::Done;
    Operation { client: 1, key, action, outcome, call: Nanos(call), end: Nanos(end), version: None }
}

/// A PUT whose version is its value.
fn put(key: u32, value: u64, call: u64, end: u64) -> Operation {
    let version = Some(Csn(value));
    Operation { version, ..operation(key, Invocation::Put(Value(value)), call, end) }
}

fn delete(key: u32, call: u64, end: u64) -> Operation {
    operation(key, Invocation::Delete, call, end)
}

fn doubt(of: Operation) -> Operation {
    Operation { outcome: OperationOutcome::InDoubt, end: NEVER, version: None, ..of }
}

/// A GET that found what a PUT had put there under its own version.
fn get(key: u32, value: u64, call: u64, end: u64) -> Operation {
    got(key, value, value, call, end)
}

fn got(key: u32, value: u64, version: u64, call: u64, end: u64) -> Operation {
    let outcome = OperationOutcome::Found(Value(value));
    let version = Some(Csn(version));
    Operation { outcome, version, ..operation(key, Invocation::Get, call, end) }
}

fn absent(key: u32, call: u64, end: u64) -> Operation {
    Operation { outcome: OperationOutcome::Absent, ..operation(key, Invocation::Get, call, end) }
}

fn judged(operations: &[Operation], counts: &[Count], at: &[Nanos]) -> LossReport {
    let mut history = History::default();
    operations.iter().for_each(|one| history.push(one.clone()));
    let evidence = Evidence { history: &history, answers: &[], left: &[], steps: 100_000 };
    judge(&evidence, counts, Losses { at, window: WINDOW })
}

fn rule(operations: &[Operation]) -> &'static str {
    judged(operations, &[], &[AT]).history.violation.expect("a violation").rule
}

/// Believes it, and says how many writes are known to be lost.
fn believed(operations: &[Operation]) -> usize {
    let report = judged(operations, &[], &[AT]);
    assert_eq!(report.history.violation, None);
    report.lost
}

#[test]
fn the_last_writes_may_be_lost_with_those_who_saw_them() {
    let lost = [put(1, 1, 0, 10), put(1, 2, 950, 960), get(1, 2, 970, 980), get(1, 1, 1_010, 1_020)];
    assert_eq!(believed(&lost), 1);
    let first = [put(1, 1, 950, 960), get(1, 1, 965, 970), absent(1, 1_010, 1_020)];
    assert_eq!(believed(&first), 1);
    let deleted = [put(1, 1, 0, 10), delete(1, 950, 960), absent(1, 965, 970), get(1, 1, 1_010, 1_020)];
    assert_eq!(believed(&deleted), 1);
    let kept = [put(1, 1, 0, 10), delete(1, 950, 960), absent(1, 1_010, 1_020), put(1, 5, 1_030, 1_040)];
    assert_eq!(believed(&kept), 0);
    let none = [put(1, 1, 0, 10), put(1, 2, 950, 960), get(1, 2, 1_010, 1_020)];
    assert_eq!(believed(&none), 0);
    assert_eq!(believed(&[put(1, 1, 0, 10), put(2, 2, 950, 960), put(2, 9, 1_010, 1_020)]), 0, "who knows");
}

#[test]
fn what_was_under_way_may_be_there_or_not_or_be_sent_again() {
    let way = doubt(put(1, 2, 990, 0));
    assert_eq!(believed(&[put(1, 1, 0, 10), way.clone(), get(1, 1, 1_010, 1_020)]), 0);
    assert_eq!(believed(&[put(1, 1, 0, 10), way.clone(), get(1, 2, 1_010, 1_020)]), 0);
    // It was seen and lost, and done again when its client asked again.
    let again = [put(1, 1, 0, 10), way.clone(), get(1, 2, 992, 994), got(1, 2, 70, 1_010, 1_020)];
    assert_eq!(believed(&again), 0);
    let between = [again.as_slice(), &[got(1, 1, 1, 1_001, 1_005)]].concat();
    assert_eq!(believed(&between), 1, "that it was lost");
    // Its answer came after the loss.
    let answered = Operation { end: Nanos(1_030), version: Some(Csn(70)), ..put(1, 2, 990, 0) };
    assert_eq!(believed(&[answered.clone(), get(1, 2, 992, 994), got(1, 2, 70, 1_040, 1_050)]), 0);
    assert_eq!(believed(&[answered, absent(1, 1_005, 1_010), got(1, 2, 70, 1_040, 1_050)]), 0);
    let removes = [put(1, 1, 0, 10), doubt(delete(1, 990, 0)), absent(1, 1_010, 1_020)];
    assert_eq!(believed(&removes), 0);
}

#[test]
fn no_write_is_lost_that_is_older_than_the_window() {
    let late = put(9, 8, 990, 995);
    let old = [put(1, 1, 0, 10), put(1, 2, 800, 810), late.clone(), get(1, 1, 1_010, 1_020)];
    assert!(rule(&old).contains("later than a window"));
    let first = [put(1, 1, 800, 810), late.clone(), absent(1, 1_010, 1_020)];
    assert!(rule(&first).contains("later than a window"));
    let seen = [doubt(put(1, 1, 800, 0)), get(1, 1, 805, 810), late.clone(), absent(1, 1_010, 1_020)];
    assert!(rule(&seen).contains("later than a window"), "who saw it says that it took effect");
    let removal = [put(1, 1, 0, 10), delete(1, 800, 810), late, get(1, 1, 1_010, 1_020)];
    assert!(rule(&removal).contains("later than a window"));
    // The disks stood still, and no write was taken since.
    assert_eq!(believed(&old[..2].iter().cloned().chain([old[3].clone()]).collect::<Vec<_>>()), 1);
    // A write that was under way all the time does not make the window longer.
    let way = put(7, 3, 805, 985);
    assert!(rule(&[&[way][..], &old].concat()).contains("later than a window"));
}

#[test]
fn what_came_back_is_the_state_of_a_moment() {
    let one = [put(1, 1, 0, 10), put(1, 2, 950, 960), put(2, 3, 970, 980)];
    let gap = [&one[..], &[get(1, 1, 1_010, 1_020), get(2, 3, 1_010, 1_020)]].concat();
    assert!(rule(&gap).contains("a lower version"));
    let no_versions = |one: &Operation| Operation { version: None, ..one.clone() };
    let gap: Vec<Operation> = gap.iter().map(no_versions).collect();
    assert!(rule(&gap).contains("before one was called"));
    assert_eq!(believed(&[&one[..], &[get(1, 2, 1_010, 1_020), absent(2, 1_010, 1_020)]].concat()), 1);
    // By their times each could be the later.
    let both = [put(1, 2, 950, 980), put(2, 3, 950, 980)];
    let gap = [&both[..], &[absent(1, 1_010, 1_020), get(2, 3, 1_010, 1_020)]].concat();
    assert!(rule(&gap).contains("a lower version"));
    assert_eq!(believed(&gap.iter().map(no_versions).collect::<Vec<_>>()), 1);
    // A delete is lost, or outlives the loss, by its time alone.
    let two = [put(1, 1, 0, 10), delete(1, 950, 955), put(2, 3, 970, 980)];
    let gap = [&two[..], &[get(1, 1, 1_010, 1_020), get(2, 3, 1_010, 1_020)]].concat();
    assert!(rule(&gap).contains("before one was called"));
    let two = [put(2, 3, 940, 945), put(1, 4, 946, 950), delete(1, 951, 955), put(3, 5, 956, 960)];
    let left = [absent(1, 1_010, 1_020), get(3, 5, 1_010, 1_020)];
    let gap = [&two[..], &left, &[absent(2, 1_010, 1_020)]].concat();
    assert!(rule(&gap).contains("state of no moment"));
    assert_eq!(believed(&[&two[..], &left, &[get(2, 3, 1_010, 1_020)]].concat()), 0);
}

#[test]
fn what_is_lost_stays_lost_and_nothing_comes_from_nowhere() {
    let lost = [put(1, 1, 0, 10), put(1, 2, 950, 960), get(1, 1, 1_010, 1_020), get(1, 2, 1_030, 1_040)];
    assert!(rule(&lost).contains("two writes from before a loss"));
    let absent_first = [put(1, 2, 950, 960), absent(1, 1_010, 1_020), get(1, 2, 1_030, 1_040)];
    assert!(rule(&absent_first).contains("there again"));
    let replaced = [put(1, 1, 0, 10), put(1, 2, 20, 30), get(1, 2, 1_010, 1_020), get(1, 1, 1_030, 1_040)];
    assert!(rule(&replaced).contains("two writes from before a loss"));
    assert!(rule(&[get(1, 7, 1_010, 1_020)]).contains("nobody wrote"));
    assert!(rule(&[put(1, 1, 0, 10), got(1, 1, 5, 1_010, 1_020)]).contains("two versions"));
    // It came back at the second loss, when nobody had anything of it.
    let later = [put(1, 2, 950, 960), absent(1, 1_010, 1_020), get(1, 2, 2_010, 2_020)];
    let report = judged(&later, &[], &[AT, Nanos(2_000)]);
    assert!(report.history.violation.is_some());
    let drawn = [put(1, 5, 950, 960), get(1, 5, 970, 980), absent(1, 1_010, 1_020)];
    for key in [1, 2] {
        let again = [&drawn[..], &[got(key, 6, 5, 1_030, 1_040)]].concat();
        let write = Operation { version: Some(Csn(5)), ..put(key, 6, 1_022, 1_028) };
        assert!(rule(&[&again[..], &[write]].concat()).contains("drawn before"), "key {key}");
    }
}

#[test]
fn each_epoch_is_judged_by_itself() {
    let stale = [put(1, 1, 0, 10), put(1, 2, 20, 30), get(1, 1, 40, 50), get(1, 2, 1_010, 1_020)];
    assert!(rule(&stale).contains("older version"));
    let after = [put(1, 1, 0, 10), get(1, 1, 1_010, 1_020), put(1, 9, 1_030, 1_040), get(1, 1, 1_050, 1_060)];
    assert!(rule(&after).contains("older version"));
    let none = [put(1, 1, 0, 10), get(1, 1, 1_010, 1_020), absent(1, 1_050, 1_060)];
    assert!(rule(&none).contains("nobody removed"));
    // A second loss takes what the first had left, and that is long ago.
    let two = [put(1, 1, 0, 10), get(1, 1, 1_010, 1_020), put(2, 9, 1_990, 1_995), absent(1, 2_010, 2_020)];
    let report = judged(&two, &[], &[AT, Nanos(2_000)]);
    assert!(report.history.violation.expect("found").rule.contains("later than a window"));
}

#[test]
fn counters_go_back_by_the_last_additions_alone() {
    let count = |adds, told, call, end| Count {
        client: 2,
        key: 0,
        adds,
        told: Some(told),
        call: Nanos(call),
        end: Nanos(end),
    };
    let (add, read) =
        (|told, call, end| count(true, told, call, end), |told, call, end| count(false, told, call, end));
    let mut counts = vec![add(1, 0, 10), add(2, 950, 955), add(3, 960, 965), read(3, 970, 975)];
    let said = |counts: &[Count], operations: &[Operation]| judged(operations, counts, &[AT]);
    counts.push(add(3, 1_010, 1_020));
    let report = said(&counts, &[]);
    assert_eq!((report.history.violation, report.miscount, report.lost), (None, None, 1));
    let outlived = [put(1, 7, 970, 980), get(1, 7, 1_010, 1_020)];
    let report = said(&counts, &outlived);
    assert!(report.history.violation.expect("a gap").rule.contains("state of no moment"));
    let report = said(&counts, &[put(1, 7, 940, 945), absent(1, 1_010, 1_020)]);
    assert!(report.history.violation.expect("a gap").rule.contains("state of no moment"));
    let report = said(&[&counts[..], &[read(1, 1_030, 1_040)]].concat(), &[]);
    assert!(report.miscount.expect("it went back").rule.starts_with("more than"));
    let report = said(&[&counts[..4], &[read(0, 1_030, 1_040)]].concat(), &[]);
    assert!(report.history.violation.expect("too old").rule.contains("later than a window"));
    let report = said(&[&counts[..4], &[read(4, 1_030, 1_040)]].concat(), &[]);
    assert!(report.miscount.expect("more than was added").rule.starts_with("more than"));
    let way = Count { told: None, end: NEVER, ..add(0, 990, 0) };
    let report = said(&[&counts[..4], &[way, read(4, 1_030, 1_040)]].concat(), &[]);
    assert_eq!((report.history.violation, report.miscount, report.lost), (None, None, 0));
}
