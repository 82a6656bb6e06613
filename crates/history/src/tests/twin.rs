//! The judge of cycles, the search, and a third that tries all orders with the versions: of what a map did,
//! and of what none did, they say the same.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use proptest::strategy::ValueTree;

use super::draw::{Draw, draws};
use super::pages::{delete_at, get_at, history, put_at};
use super::*;
use crate::violation::Who;
use crate::{Direction, Item, Page, cycles, scans};

/// What is there of each key: the number of the value, and its version.
type There = BTreeMap<u32, [u64; 2]>;

/// Operations and pages of a map, each of which takes effect at a moment between call and end.
#[derive(Clone, Debug, Default)]
struct Run {
    operations: Vec<Operation>,
    pages: Vec<Page>,
}

impl Run {
    fn of(draws: &[Draw]) -> Run {
        let (mut run, mut there) = (Run::default(), There::new());
        for (i, draw) in draws.iter().enumerate() {
            let i = i as u64;
            let (call, end) = (100 + 10 * i - draw.before, 100 + 10 * i + draw.after);
            // The versions of one key ascend, those of two keys need not.
            let version = 1 + 10 * i + 25 * u64::from(draw.key);
            match draw.kind {
                0..3 => {
                    run.pages.push(Page { scan: i as u32, ..shown(&there, draw, Nanos(call), Nanos(end)) })
                }
                _ => run.step(&mut there, draw, Operation { key: draw.key, ..get_at(0, version, call, end) }),
            }
        }
        run
    }

    /// An operation on a key, which it does, unless nobody is told, and perhaps nothing happens.
    fn step(&mut self, there: &mut There, draw: &Draw, asked: Operation) {
        let (found, version) = (there.get(&draw.key).copied(), asked.version.expect("drawn"));
        let new = Value(version.0);
        let is = |expected: Value| found.is_some_and(|[value, _]| value == expected.0);
        let expected = Value(match (draw.pick % 3, found) {
            (0, _) | (_, None) => 1 + 25 * u64::from(draw.key),
            (_, Some([value, _])) => value,
        });
        let (action, done) = match draw.kind {
            3 | 4 => (Invocation::Get, false),
            5 | 6 => (Invocation::Put(new), true),
            7 => (Invocation::Delete, found.is_some()),
            8 => (Invocation::PutIfAbsent(new), found.is_none()),
            _ => (Invocation::Replace { expected, new }, is(expected)),
        };
        let doubt = draw.fate == 0 || draw.fate == 1;
        if done && draw.fate != 1 {
            match action {
                Invocation::Delete => there.remove(&draw.key),
                _ => there.insert(draw.key, [new.0, version.0]),
            };
        }
        let outcome = match (action, found) {
            (Invocation::Get, Some([value, _])) => OperationOutcome::Found(Value(value)),
            (Invocation::Get, None) => OperationOutcome::Absent,
            _ if doubt => OperationOutcome::InDoubt,
            _ if done => OperationOutcome::Done,
            (Invocation::Delete, _) => OperationOutcome::Absent,
            _ => OperationOutcome::Refused,
        };
        let version = match outcome {
            OperationOutcome::Found(_) => found.map(|[_, version]| Csn(version)),
            OperationOutcome::Done => Some(version),
            _ => None,
        };
        let end = if outcome == OperationOutcome::InDoubt { NEVER } else { asked.end };
        self.operations.push(Operation { action, outcome, version, end, ..asked });
    }

    /// Something else than what happened: another answer, or other times.
    fn mutated(&self, draw: &Draw) -> Run {
        let mut run = self.clone();
        let (at, pages) = (draw.pick as usize / 7, run.pages.len());
        let which = at % (pages + run.operations.len()).max(1);
        let values = |key: u32| {
            let of = self.operations.iter().filter(move |o| o.key == key && o.wrote().is_some());
            of.cloned().collect::<Vec<_>>()
        };
        if let Some(page) = run.pages.get_mut(which) {
            match draw.kind % 5 {
                0 => (page.call, page.end) = moved(page.call, page.end, draw),
                1 | 2 if !page.items.is_empty() => {
                    page.items.remove(draw.after as usize % page.items.len());
                }
                3 => page.more = !page.more,
                _ => {
                    page.items.retain(|item| item.key != draw.key);
                    let other = values(draw.key);
                    if let Some(write) = other.get(draw.before as usize % other.len().max(1)) {
                        let value = write.wrote();
                        page.items.push(Item { key: draw.key, value, version: self.version_of(write) });
                    }
                    page.items.sort_by_key(|item| item.key);
                    if page.direction == Direction::Descending {
                        page.items.reverse();
                    }
                }
            }
        } else if let Some(operation) = run.operations.get_mut(which - pages) {
            let other = values(operation.key);
            let other = other.get(draw.before as usize % other.len().max(1));
            match (operation.action, other) {
                (Invocation::Get, None) => {}
                (Invocation::Get, Some(_)) if draw.kind.is_multiple_of(3) => {
                    (operation.outcome, operation.version) = (OperationOutcome::Absent, None);
                }
                (Invocation::Get, Some(write)) if draw.kind % 3 == 1 => {
                    operation.outcome = OperationOutcome::Found(write.wrote().expect("a write"));
                    operation.version = self.version_of(write);
                }
                _ if operation.in_doubt() => operation.call = operation.call + Nanos(10 * draw.after),
                _ => (operation.call, operation.end) = moved(operation.call, operation.end, draw),
            }
        }
        run
    }

    /// The version of a write, or that under which it was found: in doubt it may be any that nobody has.
    fn version_of(&self, write: &Operation) -> Option<Csn> {
        write.version.or_else(|| write.wrote().map(|value| Csn(value.0)))
    }

    fn history(&self) -> History {
        history(&self.operations, &self.pages)
    }
}

fn moved(call: Nanos, end: Nanos, draw: &Draw) -> (Nanos, Nanos) {
    let (by, length) = (10 * (draw.pick % 5), end.0 - call.0);
    let call = if draw.fate.is_multiple_of(2) { call.0 + by } else { call.0.saturating_sub(by) };
    (Nanos(call), Nanos(call + length / (1 + draw.pick % 3)))
}

/// A page of what is there, with any bounds.
fn shown(there: &There, draw: &Draw, call: Nanos, end: Nanos) -> Page {
    let bound = |any: u64| match any % 5 {
        0 => Bound::Included(any as u32 / 5 % 3),
        1 => Bound::Excluded(any as u32 / 5 % 3),
        _ => Bound::Unbounded,
    };
    let (low, high) = (bound(draw.pick >> 8), bound(draw.pick >> 24));
    let direction = if draw.pick & 1 == 0 { Direction::Ascending } else { Direction::Descending };
    let limit = 1 + (draw.pick >> 40) as usize % 3;
    let empty =
        Page { client: 9, scan: 1, low, high, direction, limit, more: false, items: Vec::new(), call, end };
    let (asked, keys_only) = (empty.asked(), draw.fate == 2);
    let mut items: Vec<Item> = there
        .iter()
        .filter(|(key, _)| asked.contains(&u64::from(**key)))
        .map(|(&key, &[value, version])| Item {
            key,
            value: (!keys_only).then_some(Value(value)),
            version: Some(Csn(version)),
        })
        .collect();
    if direction == Direction::Descending {
        items.reverse();
    }
    let more = items.len() > limit;
    items.truncate(limit);
    Page { more, items, ..empty }
}

/// All orders, with versions: a key's writes are in the order of these.
struct All<'a> {
    deeds: Vec<Who<'a>>,
    /// The version of each write in doubt that somebody found.
    found: BTreeMap<(u32, Value), u64>,
    tried: HashSet<(u64, States)>,
}

/// Of a key: its value, or none, the version of that, and the last version of all.
type States = BTreeMap<u32, [u64; 3]>;

const GONE: u64 = u64::MAX;
/// The version of a write in doubt that nobody named: it may be any.
const UNKNOWN: u64 = 0;

impl<'a> All<'a> {
    fn of(history: &'a History) -> All<'a> {
        let mut found = BTreeMap::new();
        for operation in history.operations() {
            found.extend(operation.named().map(|(value, version)| ((operation.key, value), version.0)));
        }
        for item in history.pages().iter().flat_map(|page| &page.items) {
            found.extend(item.value.zip(item.version).map(|(value, csn)| ((item.key, value), csn.0)));
        }
        All { deeds: history.by_call(), found, tried: HashSet::new() }
    }

    /// Whether a version is of a write that is known.
    fn is_known(&self, key: u32, version: Csn) -> bool {
        self.found.iter().any(|(found, &of)| found.0 == key && of == version.0)
    }

    fn explain(&mut self, done: u64, states: &States) -> bool {
        let open = |at: &usize| done >> at & 1 == 0;
        let rest: Vec<usize> = (0..self.deeds.len()).filter(open).collect();
        if rest.iter().all(|&at| self.deeds[at].in_doubt()) {
            return true;
        }
        if !self.tried.insert((done, states.clone())) {
            return false;
        }
        let first_end = rest.iter().map(|&at| self.deeds[at].end()).min().unwrap_or(NEVER);
        rest.into_iter().any(|at| {
            self.deeds[at].call() <= first_end
                && self.after(at, states).is_some_and(|states| self.explain(done | 1 << at, &states))
        })
    }

    fn after(&self, at: usize, states: &States) -> Option<States> {
        let state = |key: u32| states.get(&key).copied().unwrap_or([GONE, 0, 0]);
        let fits = |key: u32, value: Option<Value>, version: Option<Csn>| {
            let [there, of, _] = state(key);
            there != GONE
                && value.is_none_or(|value| value.0 == there)
                && version
                    .is_none_or(|version| version.0 == of || of == UNKNOWN && !self.is_known(key, version))
        };
        let operation = match self.deeds[at] {
            Who::Page(page) => {
                let covered = page.covered();
                let here =
                    |&(&key, of): &(&u32, &[u64; 3])| covered.contains(&u64::from(key)) && of[0] != GONE;
                let all = states.iter().filter(here).count() == page.items.len();
                let fit = page.items.iter().all(|item| fits(item.key, item.value, item.version));
                return (page.shape().is_ok() && all && fit).then(|| states.clone());
            }
            Who::Operation(operation) => operation,
        };
        let key = operation.key;
        let [there, _, last] = state(key);
        let write = |value: u64, version: Option<u64>| {
            let csn = version.unwrap_or(last);
            (version.is_none() || csn > last).then(|| {
                let mut states = states.clone();
                states.insert(key, [value, version.unwrap_or(UNKNOWN), csn]);
                states
            })
        };
        let put = |value: Value| write(value.0, self.found.get(&(key, value)).copied());
        let (gone, same) = (there == GONE, || Some(states.clone()));
        let done = operation.outcome == OperationOutcome::Done;
        match (operation.action, operation.outcome) {
            (Invocation::Get, OperationOutcome::Found(value)) => {
                fits(key, Some(value), operation.version).then(|| states.clone())
            }
            (_, OperationOutcome::Absent) => gone.then(|| states.clone()),
            (Invocation::Delete, _) if done && gone => None,
            (Invocation::Delete, _) => write(GONE, operation.version.map(|version| version.0)),
            (Invocation::Put(value), _) => put(value),
            (Invocation::PutIfAbsent(_), OperationOutcome::Refused) => (!gone).then(|| states.clone()),
            (Invocation::PutIfAbsent(value), _) => gone.then(|| put(value)).flatten(),
            (Invocation::Replace { expected, .. }, OperationOutcome::Refused) => {
                (there != expected.0).then(|| states.clone())
            }
            (Invocation::Replace { expected, new }, _) => (there == expected.0).then(|| put(new)).flatten(),
            _ => same(),
        }
    }
}

fn explained(history: &History) -> bool {
    All::of(history).explain(0, &States::new())
}

/// What the judges say of a history: whether it is legal, and whether that was certain.
fn agree(history: &History) -> Result<[bool; 2], TestCaseError> {
    let (judged, legal) = (cycles::judge(history), explained(history));
    let searched = search::judge_map(history, STEPS);
    if legal {
        prop_assert!(judged.is_ok(), "accused wrongly: {}", judged.expect_err("accused"));
        prop_assert_eq!(searched, Verdict::Legal);
        return Ok([true, judged == Ok(0)]);
    }
    prop_assert!(judged != Ok(0), "not found, though the versions leave nothing open: {history:?}");
    Ok([false, judged.is_err()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn what_a_map_did_is_accepted_by_all(draws in draws(10, 3, 12, 9)) {
        let history = Run::of(&draws).history();
        prop_assert_eq!(scans::judge(&history), Ok(()));
        prop_assert_eq!(agree(&history)?[0], true);
        prop_assert_eq!(history.judge(STEPS), Ok(()));
    }

    #[test]
    fn of_what_no_map_did_all_say_the_same(draws in draws(10, 3, 12, 9), changes in draws(10, 3, 12, 9)) {
        let run = Run::of(&draws);
        let changed = changes.iter().take(3).fold(run, |run, change| run.mutated(change));
        agree(&changed.history())?;
    }

    /// Two keys and few kinds: most are on the way of the others.
    #[test]
    fn of_few_keys_all_say_the_same(draws in draws(7, 2, 12, 9), change in draws(10, 2, 12, 9)) {
        agree(&Run::of(&draws).mutated(&change[0]).history())?;
    }
}

/// The properties say nothing if all that is drawn is legal, or none, or if the versions leave all open.
#[test]
fn what_is_drawn_is_of_all_kinds() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut draw = || draws(10, 3, 12, 9).new_tree(&mut runner).expect("drawn").current();
    let [mut legal, mut illegal, mut open, mut cycles_found] = [0; 4];
    for _ in 0..4_000 {
        let (run, change) = (Run::of(&draw()), draw());
        let history = change.iter().take(3).fold(run, |run, change| run.mutated(change)).history();
        let [is_legal, certain] = agree(&history).expect("they agree");
        legal += usize::from(is_legal && certain);
        illegal += usize::from(!is_legal && certain);
        open += usize::from(!certain);
        cycles_found += usize::from(cycles::judge(&history).is_err_and(|found| !found.before.is_empty()));
    }
    assert!(legal > 1_000 && illegal > 400 && cycles_found > 100, "{legal} {illegal} {open} {cycles_found}");
    assert!(open < 600, "{open}");
}

const MANY: u64 = 100_000;

/// Many operations on 200 keys, of which each fifth is a page of some of them.
fn many() -> Run {
    let (mut run, mut there) = (Run::default(), There::new());
    for i in 0..MANY {
        let word = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (key, moment) = ((word >> 40) as u32 % 200, 1_000 + 10 * i);
        let (call, end) = (moment - word % 90, moment + (word >> 8) % 300);
        match word >> 60 {
            0..3 => {
                let low = Bound::Included(key);
                let page = Page { low, ..pages::page(&[], call, end) };
                let near = there.range(key..).take(20).map(|(&key, &[_, version])| (key, version));
                let items = near.map(|(key, version)| pages::item(key, version)).collect();
                run.pages.push(Page { items, more: true, limit: 20, scan: i as u32, ..page });
            }
            3..9 => match there.get(&key) {
                Some(&[_, version]) => run.operations.push(get_at(key, version, call, end)),
                None => run.operations.push(Operation { key, ..none(call, end) }),
            },
            9..11 if there.remove(&key).is_some() => run.operations.push(delete_at(key, i + 1, call, end)),
            _ => {
                there.insert(key, [i + 1; 2]);
                run.operations.push(put_at(key, i + 1, call, end));
            }
        }
    }
    run.pages.retain(|page| !page.items.is_empty());
    run
}

#[test]
fn one_stale_item_of_a_page_among_many_operations_is_found() {
    let mut run = many();
    let open = cycles::judge(&run.history()).expect("legal");
    assert!(open < MANY as usize / 100, "{open} were left open");
    scans::judge(&run.history()).expect("legal");
    let page = run.pages.len() - 9;
    let item = run.pages[page].items[5];
    let older = run.operations.iter().filter(|o| o.key == item.key && o.wrote().is_some());
    let older = older.filter(|write| write.version < item.version).nth_back(3).expect("it was written often");
    run.pages[page].items[5] = Item { value: older.wrote(), version: older.version, ..item };
    let found = cycles::judge(&run.history()).expect_err("stale");
    assert_eq!(found.guilty.len(), 2, "{found}");
}

/// A cycle of many pages and operations is found whole.
#[test]
fn a_long_cycle_is_found() {
    // Each page sees one key, and not yet the next; each write takes all the time.
    let keys = 100;
    let mut run = Run::default();
    for key in 0..keys {
        run.operations.push(put_at(key, 1, 0, 1_000));
        let (low, high) = (Bound::Included(key), Bound::Excluded(key + 2));
        let page = Page { low, high, ..pages::page(&[[u64::from(key), 1]], 0, 1_000) };
        run.pages.extend((key + 1 < keys).then_some(page));
    }
    cycles::judge(&run.history()).expect("a row is no circle");
    run.operations.push(Operation { key: 0, ..none(2_000, 2_001) });
    cycles::judge(&run.history()).expect_err("it was written");
    run.operations.pop();
    run.operations.push(Operation { key: keys - 1, ..get_at(keys - 1, 1, 0, 10) });
    run.operations.push(Operation { key: 0, ..none(20, 30) });
    let found = cycles::judge(&run.history()).expect_err("a circle");
    assert_eq!(found.guilty.len(), found.before.len());
    assert!(found.guilty.len() as u32 >= 2 * keys, "{}", found.guilty.len());
}
