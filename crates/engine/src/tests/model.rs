//! The engine alone, one thread and time as a value, against a map.

use std::collections::HashMap;

use longarm_base::{Csn, Nanos, UnixMillis};
use longarm_index::hash::{Discipline, SlotKind};
use longarm_memory::Mapped;
use longarm_wire::{Condition, Request, RequestKind, Status};
use proptest::prelude::*;

use crate::engine::Engine;
use crate::options::{EngineOptions, Eviction};
use crate::outcome::Outcome;
use crate::testing::{engine_by, execute, options};
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;

#[derive(Clone, Debug)]
pub enum Step {
    Put { key: u8, len: usize, ttl: u64, keep: bool, condition: Condition, stale: bool },
    Delete { key: u8, condition: Condition, stale: bool },
    Increment { key: u8, by: i64 },
    Touch { key: u8, ttl: u64 },
    Get { key: u8 },
    Wait { ms: u64 },
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        4 => Just(Condition::Always),
        1 => Just(Condition::Absent),
        1 => Just(Condition::Present),
        2 => Just(Condition::Version),
    ]
}

pub fn step() -> impl Strategy<Value = Step> {
    let key = || 0u8..12;
    let ttl = || prop_oneof![3 => Just(0u64), 2 => 1u64..50];
    let len = prop_oneof![0usize..60, 60usize..2000, 8000usize..9000];
    prop_oneof![
        6 => (key(), len, ttl(), any::<bool>(), condition(), any::<bool>())
            .prop_map(|(key, len, ttl, keep, condition, stale)| {
                Step::Put { key, len, ttl, keep, condition, stale }
            }),
        2 => (key(), condition(), any::<bool>())
            .prop_map(|(key, condition, stale)| Step::Delete { key, condition, stale }),
        3 => (key(), prop_oneof![-5i64..5, Just(i64::MAX), Just(i64::MIN)])
            .prop_map(|(key, by)| Step::Increment { key, by }),
        2 => (key(), ttl()).prop_map(|(key, ttl)| Step::Touch { key, ttl }),
        4 => key().prop_map(|key| Step::Get { key }),
        1 => (0u64..40).prop_map(|ms| Step::Wait { ms }),
    ]
}

#[derive(Clone, Debug)]
pub struct Item {
    value: Vec<u8>,
    csn: u64,
    expiry: u64,
}

/// The state that a client may see.
#[derive(Default)]
pub struct Model {
    pub items: HashMap<Vec<u8>, Item>,
    pub last: u64,
    pub unix: u64,
    /// The number of the last write.
    pub operation: Option<u64>,
}

impl Model {
    fn live(&self, key: &[u8]) -> Option<&Item> {
        self.items.get(key).filter(|item| item.expiry == 0 || item.expiry > self.unix)
    }

    fn holds(&self, key: &[u8], condition: Condition, argument: u64) -> Result<(), Outcome> {
        let csn = self.live(key).map_or(0, |item| item.csn);
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => csn == 0,
            Condition::Present => csn != 0,
            Condition::Version => csn == argument,
        };
        if holds { Ok(()) } else { Err(Outcome::mismatch(Csn(csn))) }
    }

    /// Collection deletes what has expired, each under a version of its own.
    pub fn collected(&mut self, engine: &Engine<Mapped>) {
        let drawn = engine.csn().0;
        let expired = self.items.values().any(|item| item.expiry != 0 && item.expiry <= self.unix);
        assert!(drawn == self.last || drawn > self.last && expired, "{drawn} after {}", self.last);
        self.last = drawn;
    }

    fn store(&mut self, key: &[u8], value: Vec<u8>, expiry: u64) -> Outcome {
        self.last += 1;
        self.items.insert(key.to_vec(), Item { value, csn: self.last, expiry });
        Outcome::ok(Csn(self.last))
    }

    fn delete(&mut self, key: &[u8], condition: Condition, argument: u64) -> Outcome {
        match self.live(key) {
            None if condition == Condition::Version && argument != 0 => Outcome::of(Status::Mismatch),
            None => Outcome::of(Status::NotFound),
            Some(_) => match self.holds(key, condition, argument) {
                Err(no) => no,
                Ok(()) => {
                    self.last += 1;
                    self.items.remove(key);
                    Outcome::ok(Csn(self.last))
                }
            },
        }
    }

    fn expiry(&self, ttl: u64) -> u64 {
        if ttl == 0 { 0 } else { self.unix + ttl }
    }

    fn increment(&mut self, key: &[u8], by: i64) -> Outcome {
        let (before, expiry) = match self.live(key) {
            None => (Some(0), 0),
            Some(item) => {
                let text = String::from_utf8_lossy(&item.value).into_owned();
                let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
                (number, item.expiry)
            }
        };
        let Some(before) = before else { return Outcome::of(Status::NotANumber) };
        let Some(after) = before.checked_add(by) else { return Outcome::of(Status::Overflow) };
        Outcome { number: after, ..self.store(key, after.to_string().into_bytes(), expiry) }
    }
}

/// A key. Keys have several lengths: some items never fit a slot.
pub fn key_of(key: u8) -> Vec<u8> {
    vec![key + 1; [1, 16, 40, 300][key as usize % 4]]
}

/// Takes the step and compares; returns the outcome, if the step was a write.
pub fn run(
    engine: &Engine<Mapped>,
    context: &mut WorkerContext<Mapped>,
    model: &mut Model,
    step: &Step,
) -> Option<Outcome> {
    let times = Timestamps { now: Nanos(model.unix * 1_000_000), unix: UnixMillis(model.unix) };
    if let Some(operation) = &mut model.operation {
        *operation += 1;
    }
    let operation = model.operation.unwrap_or(0);
    let request = |kind, key| Request { key, ..Request::new(kind, operation) };
    let argument = |model: &Model, key: &[u8], stale: bool| {
        let csn = model.live(key).map_or(0, |item| item.csn);
        if stale { csn.saturating_sub(1).max(1) } else { csn }
    };
    match *step {
        Step::Wait { ms } => {
            model.unix += ms;
            None
        }
        Step::Put { key, len, ttl, keep, condition, stale } => {
            let key = key_of(key);
            let value: Vec<u8> = (0..len).map(|i| (i + len) as u8).collect();
            let mut asked = request(RequestKind::Put, &key[..]);
            asked.argument = argument(model, &key, stale);
            (asked.value, asked.ttl_ms, asked.keep_ttl, asked.condition) = (&value, ttl, keep, condition);
            let expected = model.holds(&key, condition, asked.argument).map(|()| {
                let kept = model.live(&key).map_or(0, |item| item.expiry);
                let expiry = if keep { kept } else { model.expiry(ttl) };
                model.store(&key, value.clone(), expiry)
            });
            let outcome = execute(engine, context, times, &asked);
            assert_eq!(outcome, Ok(expected.unwrap_or_else(|no| no)));
            outcome.ok()
        }
        Step::Delete { key, condition, stale } => {
            let key = key_of(key);
            let mut asked = request(RequestKind::Delete, &key[..]);
            (asked.condition, asked.argument) = (condition, argument(model, &key, stale));
            let expected = model.delete(&key, condition, asked.argument);
            let outcome = execute(engine, context, times, &asked);
            assert_eq!(outcome, Ok(expected));
            outcome.ok()
        }
        Step::Increment { key, by } => {
            let key = key_of(key);
            let asked = Request { argument: by as u64, ..request(RequestKind::Increment, &key[..]) };
            let outcome = execute(engine, context, times, &asked);
            assert_eq!(outcome, Ok(model.increment(&key, by)));
            outcome.ok()
        }
        Step::Touch { key, ttl } => {
            let key = key_of(key);
            let asked = Request { ttl_ms: ttl, ..request(RequestKind::Touch, &key[..]) };
            let expected = match model.live(&key).map(|item| item.value.clone()) {
                None => Outcome::of(Status::NotFound),
                Some(value) => model.store(&key, value, model.expiry(ttl)),
            };
            let outcome = execute(engine, context, times, &asked);
            assert_eq!(outcome, Ok(expected));
            outcome.ok()
        }
        Step::Get { key } => {
            let key = key_of(key);
            check_get(engine, context, model, times, &request(RequestKind::Get, &key));
            None
        }
    }
}

fn check_get(
    engine: &Engine<Mapped>,
    context: &mut WorkerContext<Mapped>,
    model: &Model,
    times: Timestamps,
    asked: &Request<'_>,
) {
    let outcome = engine.get(context, times, asked).expect("nothing is under way");
    let Some(item) = model.live(asked.key) else {
        return assert_eq!(outcome, Outcome::of(Status::NotFound));
    };
    let left = if item.expiry == 0 { 0 } else { item.expiry - model.unix };
    assert_eq!((outcome.csn.0, outcome.number), (item.csn, left as i64));
    assert_eq!(context.value(), item.value);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_is_a_map(
        pointer: bool,
        out_of_place: bool,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let slots = if pointer { SlotKind::Pointer16 } else { SlotKind::Inline64 };
        let discipline = if out_of_place { Discipline::OutOfPlace } else { Discipline::InPlace };
        let options = EngineOptions { discipline, ..options(slots, Eviction::None, None) };
        let engine = engine_by(options, 64 << 20);
        let mut context = engine.worker_context(0);
        let mut model = Model { unix: 1_000_000, ..Model::default() };
        for step in &steps {
            run(&engine, &mut context, &mut model, step);
        }
        prop_assert_eq!(engine.csn().0, model.last);
        drop(context);
        let report = engine.store.check();
        prop_assert!(report.is_sound(), "{:?}", report.problems);
    }
}
