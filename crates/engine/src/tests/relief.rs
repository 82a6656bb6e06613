//! Collection, eviction and expiry piece by piece, on an engine without threads.

use longarm_base::{Nanos, UnixMillis};
use longarm_index::hash::SlotKind;
use longarm_store::{Collector, Work};
use longarm_wire::{Request, RequestKind, Status};

use crate::options::Eviction;
use crate::reclaim::Cursor;
use crate::reclaim::Relocated;
use crate::session::Sessions;
use crate::testing::{TIMES, engine};
use crate::timestamps::Timestamps;

fn put<'a>(key: &'a [u8], value: &'a [u8], ttl_ms: u64) -> Request<'a> {
    Request { key, value, ttl_ms, ..Request::new(RequestKind::Put, 0) }
}

#[test]
fn a_move_keeps_version_and_value_and_takes_expired_items_away() {
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        let engine = engine(slots, Eviction::None, 64 << 20);
        let (mut context, mut mover) = (engine.worker_context(0), engine.worker_context(1));
        let sessions = Sessions::new(8, Nanos(1));
        let value = vec![3; 100_000];
        for i in 0..40u8 {
            let ttl = if i == 0 { 5 } else { 0 };
            engine.write(&mut context, TIMES, &put(&[i], &value, ttl), None).expect("room");
        }
        for i in (1..40u8).filter(|i| !i.is_multiple_of(4)) {
            let key = [i];
            let delete = Request { key: &key, ..Request::new(RequestKind::Delete, 0) };
            engine.write(&mut context, TIMES, &delete, None).expect("no room is wanted");
        }
        let kept = engine.get(&mut context, TIMES, &put(&[4], &[], 0));
        let later = Timestamps { unix: UnixMillis(TIMES.unix.0 + 100), ..TIMES };
        let mut collector = Collector::new(engine.store.clone());
        let mut done = 0;
        for _ in 0..1000 {
            match collector.next_work(later.now, 60) {
                Work::Move { place, csn } => {
                    let mut relocate = || engine.relocate(&mut mover, later, place, csn, &sessions);
                    assert_eq!(relocate(), Relocated::Done);
                    assert_eq!(relocate(), Relocated::Lost, "moved already");
                    done += 1;
                }
                Work::Again => {}
                Work::Review { .. } => unreachable!("nobody asked for it"),
                Work::Release { .. } => unreachable!("this store frees without asking"),
                Work::Idle(_) => break,
            }
        }
        assert!(done > 3, "{done}");
        assert_eq!(engine.get(&mut context, later, &put(&[4], &[], 0)), kept);
        assert_eq!(context.value(), value);
        assert_eq!(engine.index.items(), 9, "all of 4, 8, ..., 36, and none that expired");
        let report = engine.store.check();
        assert!(report.is_sound(), "{:?}", report.problems);
    }
}

#[test]
fn the_clock_hand_gives_each_used_item_one_more_round() {
    let engine = engine(SlotKind::Inline64, Eviction::Lru, 64 << 20);
    let mut context = engine.worker_context(0);
    for i in 0..200u8 {
        engine.write(&mut context, TIMES, &put(&[i], b"v", 0), None).expect("room");
    }
    let mut cursor = Cursor::default();
    let pairs = engine.pairs();
    // Two keys in a thousand share a bit here.
    assert!(engine.evict_some(&mut cursor, pairs) <= 3, "all were just written");
    for i in 0..100u8 {
        engine.mark(engine.hash(&[i]));
    }
    let gone = engine.evict_some(&mut cursor, pairs);
    assert!((90..=110).contains(&gone), "{gone}");
    assert!((0..100u8).all(|i| {
        engine.get(&mut context, TIMES, &put(&[i], &[], 0)).is_ok_and(|told| told.status == Status::Ok)
    }));
}

/// Where writes find no memory, copies of what is left in a segment would take as much as it gives back.
#[test]
fn what_was_not_used_lately_is_evicted_rather_than_moved_when_writes_find_no_memory() {
    let engine = engine(SlotKind::Pointer16, Eviction::Lru, 16 << 20);
    let (mut context, mut mover) = (engine.worker_context(0), engine.worker_context(1));
    let sessions = Sessions::new(8, Nanos(1));
    for i in 0..30u8 {
        engine.write(&mut context, TIMES, &put(&[i], &[3; 10_000], 0), None).expect("room");
    }
    context.writer.seal_all();
    let marks = engine.marks.as_ref().expect("eviction is on");
    (0..30u8).for_each(|i| assert!(marks.take(engine.hash(&[i])), "it was just written"));
    let collect = |mover: &mut _| {
        let mut collector = Collector::new(engine.store.clone());
        while let Work::Move { place, csn } = collector.next_work(TIMES.now, 60) {
            assert_eq!(engine.relocate(mover, TIMES, place, csn, &sessions), Relocated::Done);
        }
    };
    collect(&mut mover);
    assert_eq!(engine.index.items(), 30, "there is memory");
    mover.writer.seal_all();
    Collector::new(engine.store.clone()).free(TIMES.now + engine.options.quarantine);
    assert_eq!(engine.store.counters().quarantined, 0);
    let fills = (0..100u8).take_while(|&i| {
        let key = [255, i];
        engine.write(&mut context, TIMES, &put(&key, &vec![3; 1_000_000], 0), None).is_ok()
    });
    assert!(fills.count() > 5);
    engine.mark(engine.hash(&[7]));
    collect(&mut mover);
    let mut is_there = |i| {
        let found = engine.get(&mut context, TIMES, &put(&[i], &[], 0));
        found.is_ok_and(|found| found.status == Status::Ok)
    };
    let left: Vec<_> = (0..30u8).filter(|i| is_there(*i)).collect();
    assert!(left.contains(&7) && left.len() < 5, "a few keys share its bit: {left:?}");
    let report = engine.store.check();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn the_sweep_takes_what_expired_and_nothing_else() {
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        let engine = engine(slots, Eviction::None, 64 << 20);
        let mut context = engine.worker_context(0);
        for i in 0..100u8 {
            engine.write(&mut context, TIMES, &put(&[i], b"v", u64::from(i % 2) * 10), None).expect("room");
        }
        let mut cursor = Cursor::default();
        assert_eq!(engine.expire_some(&mut context, &mut cursor, engine.pairs(), TIMES), 0);
        let later = Timestamps { unix: UnixMillis(TIMES.unix.0 + 10), ..TIMES };
        assert_eq!(engine.expire_some(&mut context, &mut cursor, engine.pairs(), later), 50);
        assert_eq!(engine.index.items(), 50);
    }
}
