//! A follower's standby index, over terms: a leader that begins with it has the same map, with the same
//! completion records, as a leader that looks at everything.

use std::sync::Arc;

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Nanos, ReplicaId, Term, UnixMillis};
use longarm_index::control::Control;
use longarm_index::hash::SlotKind;
use longarm_memory::{Budget, Mapped, OwnedWords, Words};
use longarm_store::object::layout::{MARK, SUPERSEDED};
use longarm_store::segment::Line;
use longarm_wire::Condition;
use proptest::prelude::*;

use super::model::{Model, Step, run, step};
use super::terms::Leader;
use crate::options::Eviction;
use crate::recover::Standby;
use crate::session::Recall;
use crate::testing::{COMING, QUARANTINE, arena, memory, options, sums};
use crate::timestamps::Timestamps;

/// The limit of memory. Terms that end before any segment is freed each leave segments that are hardly begun.
const LIMIT: u64 = 256 << 20;
const PAGE: usize = 4096;

fn term(counter: u32) -> Term {
    Term::new(counter, ReplicaId(1))
}

/// A follower, whose arena receives the leader's WRITEs.
struct Follower {
    slots: SlotKind,
    arena: Mapped,
    /// The leader's arena as it was copied last.
    copied: Vec<u8>,
    standby: Standby<Mapped>,
}

fn standby(slots: SlotKind, arena: &Mapped, term: Term, items: u64) -> Standby<Mapped> {
    let control = Control::of(memory(4096), sums());
    let options = options(slots, Eviction::None, Some((Term::ZERO, items)));
    let budget = Arc::new(Budget::new(LIMIT));
    let mut standby =
        Standby::new(memory(LIMIT), arena.clone(), control, sums(), budget, &options).expect("an index");
    standby.settled.go_on(term);
    standby
}

impl Follower {
    fn new(slots: SlotKind, term: Term) -> Follower {
        let arena = arena(LIMIT);
        let copied = vec![0; arena.bytes() as usize];
        Follower { slots, standby: standby(slots, &arena, term, 0), arena, copied }
    }

    /// Lands all that changed in the leader's arena here, except what the leader notes in existing entries.
    fn take(&mut self, leader: &Mapped) {
        let mut page = [0; PAGE];
        let mut at = 0;
        while at < leader.bytes() {
            let copied = &mut self.copied[at as usize..][..PAGE];
            leader.copy_out(at, &mut page);
            at += PAGE as u64;
            if page == copied {
                at = leader.next_written(at) / PAGE as u64 * PAGE as u64;
                continue;
            }
            let line = Line::read(leader, &sums(), ((at - 1) / SEGMENT_BYTES) as u32);
            let stride = line.map_or(0, |line| u64::from(line.stride));
            for word in (0..PAGE).step_by(8) {
                let get = |bytes: &[u8]| u64::from_le_bytes(bytes[word..word + 8].try_into().expect("eight"));
                let (new, old, at) = (get(&page), get(copied), at - (PAGE - word) as u64);
                let is_mark = stride > 0 && at % SEGMENT_BYTES % stride == MARK;
                if new != old && !(is_mark && new ^ old == SUPERSEDED) {
                    self.arena.store(at, new);
                }
            }
            copied.copy_from_slice(&page);
        }
    }

    /// Looks a little further; the leader has `told` items.
    fn look(&mut self, counter: u32, floors: &[u64], bytes: u64, told: u64) {
        if let Some(items) = self.standby.outgrown(told) {
            self.standby = standby(self.slots, &self.arena, term(counter), items);
        }
        self.standby.look(&sums(), term(counter), floors, bytes);
    }

    /// Leads the next term.
    fn lead(self, counter: u32, cuts: &[u64], times: Timestamps) -> (Leader, Mapped) {
        let Follower { slots, arena, standby, .. } = self;
        let Some(standby) = standby.finish(&sums(), term(counter - 1), cuts) else {
            return (Leader::new(counter, slots, &arena, times), arena);
        };
        let options = options(slots, Eviction::None, Some((term(counter), 0)));
        let (engine, found) = standby.engine(sums(), options).expect("an engine");
        (Leader::over(engine, found, times), arena)
    }
}

/// The number of positions of each stream that the leader has written.
fn written(leader: &Leader) -> Vec<u64> {
    leader.engine.progress().iter().map(|progress| progress.written()).collect()
}

#[derive(Clone, Debug)]
enum Then {
    Step(Step),
    Collect,
    /// Frees dead segments, and moves nothing.
    Free,
    /// Moves all that is worth it while the leader waits for acknowledgements: so long, or for good.
    Stall(bool),
    /// The follower takes what was written, knows all positions but so many, and looks at so many bytes.
    Look(u64, u64),
    /// Another replica, without a standby index, leads, and the follower continues.
    Another,
    /// The follower leads, and another one begins anew.
    Lead,
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![
        40 => step().prop_map(Then::Step),
        3 => Just(Then::Collect),
        2 => Just(Then::Free),
        2 => any::<bool>().prop_map(Then::Stall),
        8 => (0u64..3, prop_oneof![0u64..8_000, Just(1 << 30)])
            .prop_map(|(lag, bytes)| Then::Look(lag, bytes)),
        1 => Just(Then::Another),
        1 => Just(Then::Lead),
    ]
}

fn times(model: &Model) -> Timestamps {
    Timestamps { now: Nanos(model.unix * 1_000_000), unix: UnixMillis(model.unix) }
}

/// Collects, and collects once more when what was collected may be freed, or looked at again.
fn collect(leader: &mut Leader, model: &mut Model, work: impl Fn(&mut Leader, Timestamps)) {
    leader.context.writer.seal_all();
    work(leader, times(model));
    model.unix += 1 + QUARANTINE.0 / 1_000_000;
    work(leader, times(model));
    model.collected(&leader.engine);
}

/// Plays terms of leaders and of a follower with a standby index, against a map.
fn play(slots: SlotKind, steps: &[Then]) {
    let mut model = Model { unix: 1_000_000, operation: Some(0), ..Model::default() };
    let mut counter = 1;
    let mut leading = arena(LIMIT);
    let mut leader = Leader::new(counter, slots, &leading, times(&model));
    let mut follower = Follower::new(slots, term(counter));
    let mut last = None;
    for then in steps.iter().chain([&Then::Look(0, 5_000), &Then::Lead]) {
        match then {
            Then::Step(step) => {
                let before = leader.engine.csn();
                let outcome = run(&leader.engine, &mut leader.context, &mut model, step);
                let Some(outcome) = outcome else { continue };
                let (session, _) = leader.sessions.open(COMING);
                session.lock().record(model.operation.expect("numbered"), outcome, None);
                if leader.engine.csn() > before {
                    last = Some((model.operation.expect("numbered"), outcome));
                }
            }
            Then::Collect => {
                leader.apply_moves(times(&model));
                collect(&mut leader, &mut model, Leader::collect);
            }
            Then::Free => {
                leader.apply_moves(times(&model));
                collect(&mut leader, &mut model, Leader::free);
            }
            Then::Stall(forever) => {
                collect(&mut leader, &mut model, stall);
                if !forever {
                    leader.apply_moves(times(&model));
                }
            }
            Then::Look(lag, bytes) => {
                follower.take(&leading);
                let floors = written(&leader);
                let floors: Vec<_> = floors.iter().map(|all| all.saturating_sub(*lag)).collect();
                follower.look(counter, &floors, *bytes, leader.engine.index.items());
                read_all(&mut leader, &mut model);
            }
            Then::Another => {
                counter += 1;
                leader = Leader::new(counter, slots, &leading, times(&model));
                follower.take(&leading);
                follower.standby.settled.go_on(term(counter));
            }
            Then::Lead => {
                follower.take(&leading);
                let cuts = written(&leader);
                counter += 1;
                (leader, leading) = follower.lead(counter, &cuts, times(&model));
                follower = Follower::new(slots, term(counter));
                assert!(leader.engine.csn().0 <= model.last);
                read_all(&mut leader, &mut model);
                if let Some((operation, outcome)) = last {
                    let (session, _) = leader.sessions.open(COMING);
                    let Recall::Ran(told, None) = session.lock().recall(operation) else {
                        panic!("operation {operation} is forgotten");
                    };
                    assert_eq!((told.status, told.csn), (outcome.status, outcome.csn));
                }
            }
        }
    }
    let Leader { engine, context, maintenance, .. } = leader;
    drop((context, maintenance));
    let report = engine.store.check();
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// Moves what is worth it. The next copy has a segment of its own, which may die at once.
fn stall(leader: &mut Leader, times: Timestamps) {
    leader.collect_stalled(times);
    leader.maintenance.writer.seal_all();
}

fn read_all(leader: &mut Leader, model: &mut Model) {
    for key in 0..12 {
        run(&leader.engine, &mut leader.context, model, &Step::Get { key });
    }
}

/// A leader that waited for acknowledgements for longer than a segment rests copied its entries once more at
/// each walk. The first copy won, and the segments of the others were freed. But a follower took the youngest
/// copy for the one that counts, and missed the key when it led: an acknowledged write was lost.
#[test]
fn what_was_collected_while_the_leader_waited_is_there() {
    let put = |key| {
        Then::Step(Step::Put {
            key,
            len: 8_500,
            ttl: 0,
            keep: false,
            condition: Condition::Always,
            stale: false,
        })
    };
    let all = Then::Look(0, 1 << 30);
    let steps = [put(1), put(2), put(1), Then::Stall(false), all.clone(), Then::Free, all, Then::Lead];
    play(SlotKind::Inline64, &steps);
}

/// A follower that had looked at little while much was written led with the small index that it had begun:
/// whoever restored the rest made it larger again and again, while no client was served.
#[test]
fn an_index_too_small_for_what_the_leader_has_is_begun_anew() {
    let arena = arena(LIMIT);
    let begun = |items| standby(SlotKind::Inline64, &arena, term(1), items);
    assert_eq!(begun(0).outgrown(0), None);
    assert_eq!(begun(0).outgrown(5_000), Some(10_000));
    assert_eq!(begun(10_000).outgrown(5_000), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whoever_restored_ahead_leads_the_same_map(
        pointer: bool,
        steps in proptest::collection::vec(then(), 1..400),
    ) {
        play(if pointer { SlotKind::Pointer16 } else { SlotKind::Inline64 }, &steps);
    }
}
