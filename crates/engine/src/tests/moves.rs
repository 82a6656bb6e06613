//! Moves of entries by a group's leader.

use std::time::{Duration, Instant};

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_index::hash::SlotKind;
use longarm_store::Entry;
use longarm_wire::{Request, RequestKind};

use crate::reclaim::Relocated;
use crate::session::Sessions;
use crate::testing::{TIMES, apply, arena, engine_of, execute, named, sums};

const LIMIT: u64 = 64 << 20;

/// Rule DraftFirst of `docs/spec`, mutant of Reclaim: if the slot were looked at first, the key could be
/// deleted and the copy's segment claimed in between, and no rule would keep the delete.
#[test]
fn a_copy_has_its_place_before_the_slot_is_looked_at() {
    let engine = engine_of(Term::new(1, ReplicaId(0)), 0, SlotKind::Inline64, LIMIT, &arena(LIMIT));
    let put = Request { key: b"key", value: b"value", ..Request::new(RequestKind::Put, 0) };
    assert!(execute(&engine, &mut engine.worker_context(0), TIMES, &put).is_ok());
    let (place, csn) = named(&engine, b"key");
    let active = || engine.store.counters().active;
    let before = active();
    std::thread::scope(|scope| {
        // A thread that looks at the slot waits for this lock.
        let index = engine.index.read();
        let pair = index.lock(engine.hash(b"key"));
        let mover = scope.spawn(|| {
            let mut context = engine.worker_context(1);
            let moved = engine.relocate(&mut context, TIMES, place, csn, &Sessions::new(8, Nanos(1)));
            apply(&engine, &mut context, TIMES);
            moved
        });
        let begun = Instant::now();
        while active() == before && begun.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        let claimed = active() > before;
        drop(pair);
        assert_eq!(mover.join().expect("no panic"), Relocated::Done);
        assert!(claimed, "the copy's segment is claimed only after the look");
    });
    assert_ne!(named(&engine, b"key").0, place, "the slot names the copy");
}

/// A copy's segment notes the stable point when it is claimed. If that included a delete that is under way,
/// the delete could be dropped while the copy, which it hides, is stored.
#[test]
fn a_delete_under_way_is_above_the_stable_point() {
    let engine = engine_of(Term::new(1, ReplicaId(0)), 0, SlotKind::Inline64, LIMIT, &arena(LIMIT));
    let mut context = engine.worker_context(0);
    let put = Request { key: b"key", value: b"value", ..Request::new(RequestKind::Put, 0) };
    let put = execute(&engine, &mut context, TIMES, &put).expect("it is written").csn;
    assert_eq!(engine.stable_point(), put);
    let delete = Request { key: b"key", ..Request::new(RequestKind::Delete, 0) };
    let delete = engine.write(&mut context, TIMES, &delete, None).expect("it is written").csn;
    assert_eq!(engine.stable_point(), put, "the delete is not applied");
    apply(&engine, &mut context, TIMES);
    assert_eq!(engine.stable_point(), delete);
}

/// Suppose that a delete were copied before it is committed. The next leader could cut its stream off at the
/// delete, and yet have the copy, which is of another stream: writes of before would be gone, and the delete
/// would be there.
#[test]
fn a_delete_that_is_not_applied_is_not_moved() {
    let arena = arena(LIMIT);
    let engine = engine_of(Term::new(1, ReplicaId(0)), 0, SlotKind::Inline64, LIMIT, &arena);
    let [mut writes, mut moves] = [0, 1].map(|stream| engine.worker_context(stream));
    // The value is long, so the delete is in another segment, and is needed for as long as this one.
    let put = Request { key: b"key", value: &[7; 5000], ..Request::new(RequestKind::Put, 0) };
    execute(&engine, &mut writes, TIMES, &put).expect("it is written");
    let delete = Request { key: b"key", ..Request::new(RequestKind::Delete, 0) };
    let csn = engine.write(&mut writes, TIMES, &delete, None).expect("it is written").csn;
    let mut place = None;
    let mut find = |at, entry: &Entry<'_>| place = place.or((entry.csn == csn).then_some(at));
    longarm_store::entries(&arena, &sums(), &mut find).expect("an arena");
    let (place, sessions) = (place.expect("it was written"), Sessions::new(8, Nanos(1)));
    engine.store.set_stable(engine.stable_point());
    let mut relocate = || engine.relocate(&mut moves, TIMES, place, csn, &sessions);
    assert_eq!(relocate(), Relocated::Lost);
    apply(&engine, &mut writes, TIMES);
    engine.store.set_stable(engine.stable_point());
    assert_eq!(relocate(), Relocated::Done);
}

/// A follower's standby index takes the youngest copy of a version for the one that counts. Suppose that an
/// entry were copied again while its first copy waits for followers. The second copy, the younger one, would
/// lose at its turn: the leader would free its segment, and the follower's index would miss the key.
#[test]
fn an_entry_that_is_being_moved_is_not_moved_again() {
    for kind in [RequestKind::Put, RequestKind::Delete] {
        let arena = arena(LIMIT);
        let engine = engine_of(Term::new(1, ReplicaId(0)), 0, SlotKind::Inline64, LIMIT, &arena);
        // The value is long, so a delete is in another segment, and is needed for as long as this one.
        let put = Request { key: b"key", value: &[7; 5000], ..Request::new(RequestKind::Put, 0) };
        let mut last =
            execute(&engine, &mut engine.worker_context(0), TIMES, &put).expect("it is written").csn;
        if kind == RequestKind::Delete {
            let delete = Request { key: b"key", ..Request::new(kind, 0) };
            last =
                execute(&engine, &mut engine.worker_context(0), TIMES, &delete).expect("it is written").csn;
        }
        let mut from = None;
        let mut find = |place, entry: &Entry<'_>| from = from.or((entry.csn == last).then_some(place));
        longarm_store::entries(&arena, &sums(), &mut find).expect("an arena");
        let from = from.expect("it was written");
        let (sessions, mut context) = (Sessions::new(8, Nanos(1)), engine.worker_context(1));
        let mut relocate = || engine.relocate(&mut context, TIMES, from, last, &sessions);
        assert_eq!(relocate(), Relocated::Done);
        assert_eq!(relocate(), Relocated::Lost, "{kind:?}: it is on its way");
        let live = || engine.store.counters().entries;
        let before = live();
        apply(&engine, &mut context, TIMES);
        assert_eq!(live(), before - 1, "{kind:?}: one copy replaced one entry");
    }
}
