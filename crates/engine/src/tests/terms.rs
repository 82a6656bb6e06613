//! The engine of a group's leader, over terms: each leader takes over the arena that the previous one left,
//! and has the same map with the same completion records.

use std::collections::VecDeque;

use longarm_base::limits::OPERATIONS_AHEAD;
use longarm_base::{Csn, Nanos, ReplicaId, Term, UnixMillis};
use longarm_index::hash::SlotKind;
use longarm_memory::Mapped;
use longarm_store::{Collector, Work};
use longarm_wire::{Condition, Request, RequestKind, Status};
use proptest::prelude::*;

use super::model::{Model, Step, run, step};
use crate::engine::Engine;
use crate::outcome::{Outcome, Short};
use crate::reclaim::Relocated;
use crate::recover::recovered::Recovered;
use crate::session::{Recall, Sessions};
use crate::testing::{COMING, QUARANTINE, TIMES, apply, arena, engine_of, execute, named};
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;
use crate::write::PendingWrite;

/// The limit of memory. Terms that end before any segment is freed each leave segments that are hardly begun.
const LIMIT: u64 = 256 << 20;
/// The live share below which segments are collected, in percent.
const WORTH: u32 = 90;

/// A leader without followers, threads and clock.
pub struct Leader {
    pub engine: Engine<Mapped>,
    pub context: WorkerContext<Mapped>,
    /// The context of the maintenance thread's stream.
    pub maintenance: WorkerContext<Mapped>,
    collector: Collector<Mapped>,
    pub sessions: Sessions,
    /// Dead segments whose records are still to be saved, and where to continue.
    leaving: Vec<(u32, u64)>,
}

impl Leader {
    pub fn new(counter: u32, slots: SlotKind, arena: &Mapped, times: Timestamps) -> Leader {
        // The expected number of items may be unknown, right or absurd.
        let found = [0, 200, u64::MAX][counter as usize % 3];
        let engine = engine_of(Term::new(counter, ReplicaId(1)), found, slots, LIMIT, arena);
        Leader::over(engine, Recovered::default(), times)
    }

    /// A leader over the start set of an engine, of which a standby index had found `found`.
    pub fn over(engine: Engine<Mapped>, found: Recovered, times: Timestamps) -> Leader {
        let sessions = Sessions::new(16, Nanos(u64::MAX));
        engine.restore(&sessions, times, found);
        let (context, maintenance) = (engine.worker_context(0), engine.worker_context(1));
        let collector = Collector::new(engine.store.clone());
        Leader { engine, context, maintenance, collector, sessions, leaving: Vec::new() }
    }

    /// Collects all that is worth it, as the maintenance thread does if no follower is to be asked.
    pub fn collect(&mut self, times: Timestamps) {
        while let Some(segment) = self.next_to_free(times) {
            self.engine.store.released(segment);
        }
    }

    /// Frees dead segments, and moves nothing.
    pub fn free(&mut self, times: Timestamps) {
        while let Some(segment) = self.next_of_work(times, 0, true) {
            self.engine.store.released(segment);
        }
    }

    /// Moves what is worth it, while no follower acknowledges: the copies are not applied.
    pub fn collect_stalled(&mut self, times: Timestamps) {
        while let Some(segment) = self.next_of_work(times, WORTH, false) {
            self.engine.store.released(segment);
        }
    }

    /// Has all that collection wrote acknowledged, and applies it.
    pub fn apply_moves(&mut self, times: Timestamps) {
        apply(&self.engine, &mut self.maintenance, times);
    }

    /// Collects as [`collect`](Self::collect) does, up to a segment that is to be freed now.
    fn next_to_free(&mut self, times: Timestamps) -> Option<u32> {
        self.next_of_work(times, WORTH, true)
    }

    fn next_of_work(&mut self, times: Timestamps, worth: u32, applies: bool) -> Option<u32> {
        let Leader { engine, maintenance, collector, sessions, .. } = self;
        collector.review();
        for _ in 0..10_000 {
            match collector.next_work(times.now, worth) {
                Work::Move { place, csn } => {
                    let moved = engine.relocate(maintenance, times, place, csn, sessions);
                    assert_ne!(moved, Relocated::Full);
                    // A delete keeps other writes of its key away until it is applied.
                    if applies || moved == Relocated::Expired {
                        apply(engine, maintenance, times);
                    }
                }
                Work::Again => {}
                Work::Review { place, csn } => {
                    engine.review(maintenance, place, csn, sessions);
                }
                Work::Release { segment, .. } => {
                    assert_eq!(engine.unaccounted(segment), None, "nothing explains it");
                    assert_eq!(engine.save_records(maintenance, segment, 0, sessions), None);
                    apply(engine, maintenance, times);
                    return Some(segment);
                }
                Work::Idle(_) => return None,
            }
        }
        panic!("collection does not come to an end");
    }

    /// Makes one pass of the maintenance thread, which may find no room, if no follower is to be asked.
    pub fn keep(&mut self, times: Timestamps, percent: u32) {
        let Leader { engine, maintenance, collector, sessions, leaving, .. } = self;
        leaving.retain_mut(|rest| {
            let unsaved = engine.save_records(maintenance, rest.0, rest.1, sessions);
            apply(engine, maintenance, times);
            match unsaved {
                Some(from) => rest.1 = from,
                None => engine.store.released(rest.0),
            }
            unsaved.is_some()
        });
        // Now and then the oldest segments are emptied, and what may go then is reviewed.
        collector.empty_before(times.unix.0.is_multiple_of(3).then(|| engine.csn()));
        collector.review();
        loop {
            match collector.next_work(times.now, percent) {
                Work::Again => {}
                Work::Idle(_) => return,
                Work::Review { place, csn } => {
                    engine.review(maintenance, place, csn, sessions);
                }
                Work::Release { segment, .. } => leaving.push((segment, 0)),
                Work::Move { place, csn } => {
                    let moved = engine.relocate(maintenance, times, place, csn, sessions);
                    apply(engine, maintenance, times);
                    if moved == Relocated::Full {
                        return collector.starved(times.now);
                    }
                }
            }
        }
    }
}

#[test]
fn versions_go_on_though_nothing_is_left_that_bore_the_last() {
    let arena = arena(LIMIT);
    let mut model = Model { unix: 1_000_000, ..Model::default() };
    let times =
        |model: &Model| Timestamps { now: Nanos(model.unix * 1_000_000), unix: UnixMillis(model.unix) };
    let mut leader = Leader::new(1, SlotKind::Inline64, &arena, times(&model));
    let put = Step::Put { key: 1, len: 5, ttl: 0, keep: false, condition: Condition::Always, stale: false };
    let delete = Step::Delete { key: 1, condition: Condition::Always, stale: false };
    for step in [put.clone(), put, delete] {
        run(&leader.engine, &mut leader.context, &mut model, &step);
    }
    leader.context.writer.seal_all();
    leader.collect(times(&model));
    model.unix += 1 + QUARANTINE.0 / 1_000_000;
    leader.collect(times(&model));
    assert_eq!(leader.engine.store.counters().used_bytes, 0, "all of it is collected");
    let leader = Leader::new(2, SlotKind::Inline64, &arena, times(&model));
    assert_eq!(leader.engine.csn().0, model.last);
}

#[test]
fn terms_that_end_before_anything_is_freed_leave_nothing_twice() {
    let arena = arena(LIMIT);
    let mut model = Model { unix: 1_000_000, operation: Some(0), ..Model::default() };
    let times =
        |model: &Model| Timestamps { now: Nanos(model.unix * 1_000_000), unix: UnixMillis(model.unix) };
    let mut leader = Leader::new(1, SlotKind::Inline64, &arena, times(&model));
    for key in 0..4 {
        let put = Step::Put { key, len: 5, ttl: 0, keep: false, condition: Condition::Always, stale: false };
        for step in [put, Step::Delete { key, condition: Condition::Always, stale: false }] {
            let outcome = run(&leader.engine, &mut leader.context, &mut model, &step).expect("it runs");
            let (session, _) = leader.sessions.open(COMING);
            session.lock().record(model.operation.expect("numbered"), outcome, None);
        }
    }
    leader.context.writer.seal_all();
    for term in 2..12 {
        // All that is worth it is moved, and all records are saved; then the term is over.
        leader.next_to_free(times(&model));
        model.unix += 1 + QUARANTINE.0 / 1_000_000;
        leader.next_to_free(times(&model));
        leader = Leader::new(term, SlotKind::Inline64, &arena, times(&model));
        // Deletes, and the outcomes of all operations: from the entries that have them, and saved ones.
        let found = leader.engine.store.counters().entries;
        assert!(found <= 4 + 8, "term {term}: {found} entries");
    }
}

/// An entry that a restore missed would count as dead, and be freed on every replica.
#[test]
#[should_panic(expected = "nothing explains")]
fn a_segment_that_holds_what_the_index_misses_is_not_freed() {
    let arena = arena(LIMIT);
    let mut model = Model { unix: 1_000_000, ..Model::default() };
    let times =
        |model: &Model| Timestamps { now: Nanos(model.unix * 1_000_000), unix: UnixMillis(model.unix) };
    let put =
        |key| Step::Put { key, len: 90, ttl: 0, keep: false, condition: Condition::Always, stale: false };
    let mut leader = Leader::new(1, SlotKind::Inline64, &arena, times(&model));
    // A delete explains older entries of its key only.
    for step in [put(3), put(5), Step::Delete { key: 3, condition: Condition::Always, stale: false }] {
        run(&leader.engine, &mut leader.context, &mut model, &step);
    }
    let mut leader = Leader::new(2, SlotKind::Inline64, &arena, times(&model));
    let key = super::model::key_of(5);
    let index = leader.engine.index.read();
    let mut pair = index.lock(leader.engine.hash(&key));
    let found = pair.find(&key).expect("it was restored");
    let current = leader.engine.current(&found, times(&model));
    pair.remove(&found);
    drop(pair);
    drop(index);
    leader.engine.store.supersede(current.place.expect("it has an entry"), current.csn);
    leader.collect(times(&model));
    model.unix += 1 + QUARANTINE.0 / 1_000_000;
    leader.collect(times(&model));
}

/// Collection does not wait for a write that holds its key. Between the look at the slot and the READ of the
/// entry, the item may be moved and its room used again.
#[test]
fn a_write_whose_item_is_moved_after_the_look_looks_again() {
    let arena = arena(LIMIT);
    let mut now = Timestamps { now: Nanos(1_000_000_000), unix: UnixMillis(1_000_000) };
    let mut leader = Leader::new(1, SlotKind::Pointer16, &arena, now);
    let set = |leader: &mut Leader, now, key: &[u8], value: &[u8]| {
        let put = Request { key, value, ..Request::new(RequestKind::Put, 0) };
        assert!(execute(&leader.engine, &mut leader.context, now, &put).is_ok());
    };
    set(&mut leader, now, b"n", b"5");
    for len in 0..100 {
        set(&mut leader, now, b"other", &[1; 100][..len]);
    }
    leader.context.writer.seal_all();
    let touch = Request { key: b"n", ttl_ms: 1000, ..Request::new(RequestKind::Touch, 0) };
    let (hash, expiry) = (leader.engine.hash(b"n"), UnixMillis(now.unix.0 + 1000));
    let write = PendingWrite { request: &touch, session: None, hash, expiry, blind: false };
    let mut bytes = Vec::new();
    let seen = leader.engine.look(&mut bytes, now, &write).expect("nobody moves it").expect("it is there");
    let (place, csn) = named(&leader.engine, b"n");
    leader.collect(now);
    now.now = Nanos(now.now.0 + 2 * QUARANTINE.0);
    leader.collect(now);
    for used in 0.. {
        assert!(used < 100_000, "its room is not used again");
        if leader.engine.store.read(place, csn, &mut bytes).is_err() {
            break;
        }
        set(&mut leader, now, b"other", &[2; 8000]);
    }
    assert_eq!(leader.engine.value_of(&seen, &mut bytes).err(), Some(Short::Busy), "what was there");
    for (kind, argument) in [(RequestKind::Increment, 3), (RequestKind::Touch, 0)] {
        let request = Request { key: b"n", argument, ttl_ms: 1000, ..Request::new(kind, 0) };
        let outcome = execute(&leader.engine, &mut leader.context, now, &request);
        assert_eq!(outcome.map(|outcome| outcome.status), Ok(Status::Ok), "{kind:?}, looked for anew");
    }
    let get = Request { key: b"n", ..Request::new(RequestKind::Get, 0) };
    assert_eq!(leader.engine.get(&mut leader.context, now, &get).map(|told| told.status), Ok(Status::Ok));
    assert_eq!(leader.context.value(), b"8");
}

#[derive(Clone, Debug)]
enum Then {
    Step(Step),
    Collect,
    NextTerm,
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![30 => step().prop_map(Then::Step), 2 => Just(Then::Collect), 1 => Just(Then::NextTerm)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn leaders_one_after_another_are_one_map(
        (pointer, numbered) in any::<(bool, bool)>(),
        steps in proptest::collection::vec(then(), 1..300),
    ) {
        let slots = if pointer { SlotKind::Pointer16 } else { SlotKind::Inline64 };
        let arena = arena(LIMIT);
        let mut model = Model { unix: 1_000_000, operation: numbered.then_some(0), ..Model::default() };
        let times = |model: &Model| Timestamps {
            now: Nanos(model.unix * 1_000_000),
            unix: UnixMillis(model.unix),
        };
        let mut term = 1;
        let mut leader = Leader::new(term, slots, &arena, times(&model));
        // Writes that left an entry, the newest last.
        let mut written: VecDeque<(u64, bool, Outcome)> = VecDeque::new();
        for step in steps.iter().chain([&Then::Collect, &Then::NextTerm]) {
            match step {
                Then::Step(step) => {
                    let before = leader.engine.csn();
                    let Some(outcome) = run(&leader.engine, &mut leader.context, &mut model, step) else {
                        continue;
                    };
                    let Some(operation) = model.operation else { continue };
                    let (session, _) = leader.sessions.open(COMING);
                    session.lock().record(operation, outcome, None);
                    if leader.engine.csn() > before {
                        written.push_back((operation, matches!(step, Step::Increment { .. }), outcome));
                    }
                }
                Then::Collect => {
                    // Seals the segments, so that all of them may be collected.
                    leader.context.writer.seal_all();
                    leader.collect(times(&model));
                    model.unix += 1 + QUARANTINE.0 / 1_000_000;
                    leader.collect(times(&model));
                    model.collected(&leader.engine);
                }
                Then::NextTerm => {
                    term += 1;
                    leader = Leader::new(term, slots, &arena, times(&model));
                    prop_assert_eq!(leader.engine.csn().0, model.last, "no version is given twice");
                    let asked = model.operation.map_or(0, |last| last.saturating_sub(OPERATIONS_AHEAD));
                    written.retain(|&(operation, ..)| operation > asked + 1);
                    for &(operation, counted, outcome) in &written {
                        let (session, _) = leader.sessions.open(COMING);
                        let Recall::Ran(told, None) = session.lock().recall(operation) else {
                            panic!("operation {operation} of {:?} is forgotten", model.operation);
                        };
                        prop_assert_eq!((told.status, told.csn), (outcome.status, outcome.csn));
                        prop_assert!(!counted || told.number == outcome.number);
                    }
                }
            }
        }
        let Leader { engine, context, maintenance, .. } = leader;
        drop((context, maintenance));
        let report = engine.store.check();
        prop_assert!(report.is_sound(), "{:?}", report.problems);
    }
}

#[test]
fn versions_go_on_above_those_that_a_loss_took() {
    let (limit, arena) = (64 << 20, arena(64 << 20));
    let engine = engine_of(Term::new(1, ReplicaId(0)), 0, SlotKind::Inline64, limit, &arena);
    let put = Request { key: b"k", value: b"v", ..Request::new(RequestKind::Put, 0) };
    let mut context = engine.worker_context(0);
    let mut version =
        |engine: &Engine<Mapped>| execute(engine, &mut context, TIMES, &put).expect("written").csn;
    engine.go_on_above(Csn(1000));
    assert_eq!(version(&engine), Csn(1001));
    engine.go_on_above(Csn(5));
    assert_eq!(version(&engine), Csn(1002), "never back");
    assert_eq!(engine.stable_point(), Csn(1002));
}
