//! Random runs of a map that loses the last of its writes now and then: what it may do is believed, and a
//! loss that leaves a gap, or takes too much, is found.

use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::tests::draw::{Draw, draws};
use crate::{Direction, Item, Page};

const KEYS: u32 = 3;

/// What took effect: on which key, what is there since, and which operation it was.
#[derive(Clone, Copy, Debug)]
struct Step {
    key: u32,
    there: Option<[u64; 2]>,
    at: u64,
    operation: usize,
}

#[derive(Default, Debug)]
struct Run {
    operations: Vec<Operation>,
    pages: Vec<Page>,
    steps: Vec<Step>,
    losses: Vec<Nanos>,
    version: u64,
    /// Whether a loss did what it must not do.
    guilty: bool,
    lost: usize,
}

impl Run {
    /// `bad`: losses leave a gap, if they can.
    fn of(draws: &[Draw], looks: bool, bad: bool) -> Run {
        let mut run = Run::default();
        for (draw, at) in draws.iter().zip((1_000..).step_by(10)) {
            // What comes after it may hide it.
            if run.guilty {
                break;
            }
            match draw.kind {
                0 => run.lose(draw, at, looks, bad),
                1 => run.look(at, draw.pick.is_multiple_of(4)),
                _ => run.step(draw, at),
            }
        }
        run
    }

    fn there(&self, key: u32) -> Option<[u64; 2]> {
        self.steps.iter().rev().find(|step| step.key == key)?.there
    }

    /// An operation that takes effect at a moment between call and end.
    fn step(&mut self, draw: &Draw, at: u64) {
        let there = self.there(draw.key);
        self.version += 1;
        let new = Value(self.version);
        let (action, done) = match draw.kind {
            2..5 => (Invocation::Get, false),
            5..10 => (Invocation::Put(new), true),
            10..12 => (Invocation::Delete, there.is_some()),
            12..14 => (Invocation::PutIfAbsent(new), there.is_none()),
            _ => match there {
                Some([value, _]) => (Invocation::Replace { expected: Value(value), new }, true),
                None => (Invocation::Replace { expected: Value(1 << 40), new }, false),
            },
        };
        let doubt = draw.fate < 2 && action != Invocation::Get;
        let happens = done && !(doubt && draw.fate == 1);
        let outcome = match (action, there) {
            (Invocation::Get, Some([value, _])) => OperationOutcome::Found(Value(value)),
            (Invocation::Get, None) => OperationOutcome::Absent,
            _ if doubt => OperationOutcome::InDoubt,
            _ if done => OperationOutcome::Done,
            (Invocation::Delete, _) => OperationOutcome::Absent,
            _ => OperationOutcome::Refused,
        };
        let version = match (action, outcome) {
            (_, OperationOutcome::Found(_)) => there.map(|[_, version]| Csn(version)),
            (Invocation::Delete, _) => None,
            (_, OperationOutcome::Done) => Some(Csn(new.0)),
            _ => None,
        };
        let (call, end) = (at - draw.before, at + draw.after);
        self.operations.push(Operation { outcome, version, ..operation(draw.key, action, call, end) });
        if happens {
            let there = action.writes().map(|value| [value.0, self.version]);
            let operation = self.operations.len() - 1;
            self.steps.push(Step { key: draw.key, there, at, operation });
        }
    }

    /// All replicas are killed: the last steps are lost, or others, too. Some clients ask again.
    fn lose(&mut self, draw: &Draw, at: u64, looks: bool, bad: bool) {
        let last = self.losses.last().map_or(0, |loss| loss.0);
        let may = |step: &Step| step.at > last && step.at + 60 > at;
        let free = self.steps.iter().rev().take_while(|step| may(step)).count();
        let kept = self.steps.len() - draw.pick as usize % (free + 1);
        let mut lost = self.steps.split_off(kept);
        // An answered PUT is lost, and a later one is not that was called after the first was answered.
        let put = |step: &Step| step.there.is_some();
        if bad
            && let Some(&later) = self.steps.last().filter(|step| put(step) && step.at > last)
            && self.operations[later.operation].end < Nanos(at)
            && !self.operations[later.operation].in_doubt()
        {
            let call = self.operations[later.operation].call;
            let gap = |step: &Step| {
                let one = &self.operations[step.operation];
                let mut removals =
                    self.operations.iter().filter(|other| other.key == one.key && other.removed());
                let surely = removals.all(|removal| !removal.in_doubt() && removal.end < one.call);
                let own = put(step) && !one.in_doubt() && one.call.0 >= last;
                own && one.end < call && step.key != later.key && surely
            };
            let is_last = |at: usize| {
                let key = self.steps[at].key;
                self.steps[at + 1..].iter().all(|step| step.key != key)
            };
            if let Some(found) = (0..self.steps.len()).find(|at| gap(&self.steps[*at]) && is_last(*at)) {
                lost.push(self.steps.remove(found));
                self.guilty = true;
            }
        }
        self.lost += lost.len();
        // The moment is after all that took effect, before all that will.
        self.losses.push(Nanos(at));
        self.version += 1_000;
        for step in lost {
            let one = &mut self.operations[step.operation];
            // Whoever was told before the loss does not ask again.
            let (Some([value, _]), true) = (step.there, !bad && one.call < Nanos(at) && draw.fate < 5) else {
                continue;
            };
            let told = one.outcome == OperationOutcome::Done && one.end < Nanos(at);
            let (false, Invocation::Put(_)) = (told, one.action) else { continue };
            self.version += 1;
            if one.outcome == OperationOutcome::Done {
                (one.version, one.end) = (Some(Csn(self.version)), Nanos(at + 1 + draw.after));
            }
            let there = Some([value, self.version]);
            self.steps.push(Step { at: at + 1, there, ..step });
        }
        if looks {
            self.look(at + 2, false);
        }
    }

    /// Looks at all keys: by a page, or at each.
    fn look(&mut self, at: u64, keys_only: bool) {
        let there: Vec<(u32, Option<[u64; 2]>)> = (0..KEYS).map(|key| (key, self.there(key))).collect();
        if at.is_multiple_of(20) {
            let items = there.iter().filter_map(|&(key, there)| {
                let [value, version] = there?;
                Some(Item { key, value: (!keys_only).then_some(Value(value)), version: Some(Csn(version)) })
            });
            let (low, high, direction) = (Bound::Unbounded, Bound::Unbounded, Direction::Ascending);
            let (scan, call, end) = (self.pages.len() as u32, Nanos(at), Nanos(at + 1));
            let (items, limit, more) = (items.collect(), 10, false);
            self.pages.push(Page { client: 9, scan, low, high, direction, limit, more, items, call, end });
            return;
        }
        self.operations.extend(there.into_iter().map(|(key, there)| match there {
            Some([value, version]) => got(key, value, version, at, at + 1),
            None => absent(key, at, at + 1),
        }));
    }

    fn judged(&self) -> LossReport {
        let mut history = History::default();
        self.operations.iter().for_each(|one| history.push(one.clone()));
        self.pages.iter().for_each(|page| history.push_page(page.clone()));
        let evidence = Evidence { history: &history, answers: &[], left: &[], steps: 100_000 };
        judge(&evidence, &[], Losses { at: &self.losses, window: Nanos(60) })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Whether anybody looks at all keys after each loss or not.
    #[test]
    fn what_a_map_does_that_loses_its_last_writes_is_believed(
        draws in draws(16, KEYS, 10, 40),
        looks in any::<bool>(),
    ) {
        let run = Run::of(&draws, looks, false);
        let report = run.judged();
        prop_assert_eq!(report.history.violation, None, "{:?}", run);
        prop_assert!(report.lost <= run.lost, "{} of {} are lost", report.lost, run.lost);
    }

    /// If somebody looks at all keys after each loss.
    #[test]
    fn a_gap_in_what_came_back_is_found(draws in draws(16, KEYS, 10, 40)) {
        let run = Run::of(&draws, true, true);
        prop_assert!(!run.guilty || run.judged().history.violation.is_some(), "{:?}", run);
    }
}
