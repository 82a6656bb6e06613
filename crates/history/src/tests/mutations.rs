use super::*;
use crate::sessions::SessionAnswer;
use crate::{Evidence, lost, sessions};

const OPERATIONS: u64 = 100_000;
const KEYS: u64 = 100;

fn history(operations: &[Operation]) -> History {
    let mut history = History::default();
    operations.iter().for_each(|operation| history.push(operation.clone()));
    history
}

/// Judged with the versions, and without any.
fn rules(operations: &[Operation]) -> [&'static str; 2] {
    let bare: Vec<_> =
        operations.iter().map(|operation| Operation { version: None, ..operation.clone() }).collect();
    [operations, &bare]
        .map(|operations| history(operations).judge(1_000).err().map_or("", |found| found.rule))
}

/// The last get that found something, with `ago` writes of its key between it and that.
fn get_and_older(operations: &[Operation], ago: usize) -> (usize, Operation) {
    let found = |operation: &Operation| matches!(operation.outcome, OperationOutcome::Found(_));
    let late = operations.iter().rposition(found).expect("gets");
    let writes = operations[..late].iter().filter(|other| other.key == operations[late].key);
    let older = writes.filter(|other| other.wrote().is_some()).rev().nth(ago).expect("long enough");
    (late, older.clone())
}

#[test]
fn one_stale_get_among_many_operations_is_found() {
    let mut operations = long(OPERATIONS, KEYS).operations().to_vec();
    assert_eq!(rules(&operations), [""; 2]);
    let (late, older) = get_and_older(&operations, 20);
    operations[late].outcome = OperationOutcome::Found(older.wrote().expect("a write"));
    operations[late].version = older.version;
    let [versions, values] = rules(&operations);
    assert_eq!(versions, "an older version than was seen before the call");
    assert!(values.ends_with("must have been there at one time"), "{values}");
}

#[test]
fn two_values_under_one_version_are_found() {
    let mut operations = long(OPERATIONS, KEYS).operations().to_vec();
    let (late, older) = get_and_older(&operations, 20);
    operations[late].outcome = OperationOutcome::Found(older.wrote().expect("a write"));
    assert_eq!(rules(&operations)[0], "two values under one version");
}

/// A write that is done again puts its old value over newer ones.
#[test]
fn a_write_that_was_done_twice_is_found() {
    let mut operations = long(OPERATIONS, KEYS).operations().to_vec();
    let (late, older) = get_and_older(&operations, 20);
    operations[late].outcome = OperationOutcome::Found(older.wrote().expect("a write"));
    operations[late].version = Some(Csn(OPERATIONS + 1));
    let [versions, values] = rules(&operations);
    assert_eq!(versions, "one value under two versions: it was written twice");
    assert!(values.ends_with("must have been there at one time"), "{values}");
    let again = Operation { version: operations[late].version, ..older.clone() };
    let answers = [older, again].map(|operation| SessionAnswer { session: 1, sequence: 1, operation });
    assert!(rule(sessions::judge(&answers)).starts_with("an operation took effect twice"));
}

#[test]
fn a_write_that_is_lost_in_the_end_is_found() {
    let whole = long(OPERATIONS, KEYS);
    let keys = whole.by_key();
    let looks = |ago: usize| {
        let look = |operations: &Vec<Operation>| {
            let mut writes: Vec<_> = operations.iter().filter(|other| other.wrote().is_some()).collect();
            writes.sort_by_key(|write| write.version);
            let last = writes[writes.len() - 1 - ago];
            let found = OperationOutcome::Found(last.wrote().expect("a write"));
            let (call, end) = (Nanos(u64::MAX - 2), Nanos(u64::MAX - 1));
            Operation { action: Invocation::Get, outcome: found, call, end, ..last.clone() }
        };
        keys.values().map(look).collect::<Vec<_>>()
    };
    let judged = |left: &[Operation]| Evidence { history: &whole, answers: &[], left, steps: 1_000 }.judge();
    assert_eq!(judged(&looks(0)).violation, None);
    let found = judged(&looks(1)).violation.expect("the last writes are lost");
    assert_eq!(found.rule, "an acknowledged write is lost: what is left is older");
}

/// Many removals, and many who find nothing: the work is not each times each.
#[test]
fn one_missing_removal_among_many_is_found() {
    let cycle = |i: u64| {
        let at = i * 40;
        [put(i, at, at + 5), delete(at + 10, at + 15), none(at + 20, at + 25), none(at + 21, at + 26)]
    };
    let mut operations: Vec<_> = (0..OPERATIONS / 4).flat_map(cycle).collect();
    sweep::judge(&operations).expect("legal");
    let removal = operations.len() - 3;
    operations.remove(removal);
    assert!(rule(sweep::judge(&operations)).starts_with("nothing is there"));
}

/// Puts, some in doubt, and gets, all under versions that may be anything.
fn tagged() -> impl Strategy<Value = Vec<Operation>> {
    let one = (0..6u8, 0..12u64, 1..8u64, 0..7usize, 0..4u64);
    prop::collection::vec(one, 2..8).prop_map(|all| {
        let make = |(i, &(kind, call, takes, pick, skew)): (usize, &(u8, u64, u64, usize, u64))| {
            // Ascending with the calls, or not quite.
            let version = |call: u64, i: usize, skew: u64| call * 10 + i as u64 + skew / 3 * 40;
            match kind {
                0 | 1 => of(version(call, i, skew), put(i as u64, call, call + takes)),
                2 => lost(i as u64, call),
                _ => {
                    let found = pick % all.len();
                    let (_, its_call, _, _, its_skew) = all[found];
                    of(version(its_call, found, its_skew), get(found as u64, call, call + takes))
                }
            }
        };
        sorted(&all.iter().enumerate().map(make).collect::<Vec<_>>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// Versions that pass the sweep are an order that explains the answers.
    #[test]
    fn what_the_sweep_accepts_all_orders_accept(operations in tagged()) {
        let accepted = sweep::judge(&operations).is_ok();
        prop_assert!(!accepted || by_force(&operations));
    }

    /// What is left is a get after all others, so all orders can judge it, too.
    #[test]
    fn nothing_is_called_lost_wrongly(operations in few(6), found in prop::option::of(0..4u64)) {
        let left = found.map_or_else(|| none(100, 101), |value| get(value, 100, 101));
        let mut with = operations.clone();
        with.push(left.clone());
        prop_assert!(!by_force(&with) || lost::judge(&operations, &left).is_ok());
    }
}

/// The properties say nothing if their histories are all legal, or none is.
#[test]
fn random_histories_are_of_both_kinds() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let legal = |strategy: &dyn Fn(&mut proptest::test_runner::TestRunner) -> bool,
                 runner: &mut proptest::test_runner::TestRunner| {
        (0..2_000).filter(|_| strategy(runner)).count()
    };
    let drawn = |runner: &mut proptest::test_runner::TestRunner, kinds| {
        few(kinds).new_tree(runner).expect("drawn").current()
    };
    for kinds in [4, 6, 9] {
        let count = legal(&|runner| by_force(&drawn(runner, kinds)), &mut runner);
        assert!((200..1_800).contains(&count), "{count} legal of {kinds} kinds");
    }
    let tagged = |runner: &mut _| sweep::judge(&tagged().new_tree(runner).expect("drawn").current()).is_ok();
    let count = legal(&tagged, &mut runner);
    assert!((100..1_900).contains(&count), "{count} pass the sweep");
}
