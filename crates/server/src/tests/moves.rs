//! Moves of a group's leader.

use std::time::{Duration, Instant};

use longarm_base::{Csn, Nanos, NodeId, Term, UnixMillis};
use longarm_index::hash::SlotKind;
use longarm_memory::Mapped;
use longarm_store::EntryPlace;
use longarm_wire::{Request, RequestKind};

use super::model::{apply, arena, engine_of, execute};
use crate::clock::Moment;
use crate::collect::Relocated;
use crate::engine::Engine;
use crate::session::Sessions;

const MOMENT: Moment = Moment { now: Nanos(1_000_000_000), unix: UnixMillis(1_000_000) };
const LIMIT: u64 = 64 << 20;

/// Which entry the slot of a key names.
fn named(engine: &Engine<Mapped>, key: &[u8]) -> (EntryPlace, Csn) {
    let pair = engine.index.lock(engine.hash(key));
    let found = pair.find(key).expect("it is there");
    let current = engine.current(&found, MOMENT);
    (current.place.expect("an item of a group is an entry"), current.csn)
}

/// Rule DraftFirst of `docs/spec`, mutant of Reclaim: if the slot were looked at first, the key could be
/// deleted and the copy's segment claimed in between, and nothing would keep the delete.
#[test]
fn a_copy_has_its_place_before_the_slot_is_looked_at() {
    let engine = engine_of((Term::new(1, NodeId(0)), 0), SlotKind::Inline64, LIMIT, &arena(LIMIT));
    let put = Request { key: b"key", value: b"value", ..Request::new(RequestKind::Put, 0) };
    assert!(execute(&engine, &mut engine.hand(0), MOMENT, &put).is_ok());
    let from = named(&engine, b"key");
    let active = || engine.store.counters().active;
    let before = active();
    std::thread::scope(|scope| {
        // Whoever looks at the slot waits for us.
        let pair = engine.index.lock(engine.hash(b"key"));
        let mover = scope.spawn(|| {
            let mut hand = engine.hand(1);
            let moved = engine.relocate_later(&mut hand, MOMENT, from, &Sessions::new(8, Nanos(1)));
            apply(&engine, &mut hand, MOMENT);
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
    assert_ne!(named(&engine, b"key").0, from.0, "the slot names the copy");
}
