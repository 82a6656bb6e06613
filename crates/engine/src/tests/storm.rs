//! Memory that is full, and comes back. Leaders that each end before a quarantine does follow one another in
//! little memory. The last leader stays: whatever they left, it takes writes again soon.

use longarm_base::{Nanos, ReplicaId, Term, UnixMillis};
use longarm_index::hash::SlotKind;
use longarm_memory::Mapped;
use longarm_store::OperationId;
use longarm_wire::{Request, RequestKind};

use super::terms::Leader;
use crate::reclaim::Cursor;
use crate::recover::recovered::Recovered;
use crate::session::SessionHello;
use crate::testing::{COMING, QUARANTINE, apply, arena, engine_of};
use crate::timestamps::Timestamps;

const LIMIT: u64 = 64 << 20;
/// Milliseconds between two passes of the maintenance thread.
const TICK: u64 = 5;
const KEYS: u64 = 100;
const CLIENTS: u64 = 6;
/// Live share below which segments are collected.
const PERCENT: u32 = 50;

fn at(ms: u64) -> Timestamps {
    Timestamps { now: Nanos(ms * 1_000_000), unix: UnixMillis(ms) }
}

fn leader(term: u32, arena: &Mapped, ms: u64) -> Leader {
    let engine = engine_of(Term::new(term, ReplicaId(1)), KEYS, SlotKind::Inline64, LIMIT, arena);
    Leader::over(engine, Recovered::default(), at(ms))
}

/// The length of a value: up to 128 KiB, every power of two as often.
fn len_of(write: u64) -> usize {
    let mixed = write.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let half = 1u64 << (mixed % 17);
    (half + (mixed >> 8) % half) as usize
}

/// Makes a client's next write, one key after the other; `false` if there is no memory for it.
fn put(leader: &mut Leader, ms: u64, write: u64, len: usize) -> bool {
    let (key, value) = (format!("key {}", write % KEYS), vec![7; len]);
    let by = OperationId { id: 1 + write % CLIENTS, operation: 1 + write / CLIENTS };
    let request = Request::new(RequestKind::Put, by.operation);
    let request = Request { key: key.as_bytes(), value: &value, ..request };
    let outcome = leader.engine.write(&mut leader.context, at(ms), &request, Some(by));
    apply(&leader.engine, &mut leader.context, at(ms));
    let Ok(outcome) = outcome else { return false };
    let coming = SessionHello { id: by.id, ..COMING };
    leader.sessions.open(coming).0.lock().record(by.operation, outcome, None);
    true
}

/// Runs so many terms, each of so many milliseconds; returns how many writes found no memory.
fn storm(arena: &Mapped, terms: u32, lasts: u64) -> u64 {
    let (mut ms, mut write, mut refused) = (1_000_000, 0, 0);
    for term in 1..=terms {
        let mut leader = leader(term, arena, ms);
        for passed in (0..lasts).step_by(TICK as usize) {
            for _ in 0..60 {
                refused += u64::from(!put(&mut leader, ms + passed, write, len_of(write)));
                write += 1;
            }
            leader.keep(at(ms + passed), PERCENT);
        }
        ms += lasts;
    }
    let mut leader = leader(terms + 1, arena, ms);
    let begun = ms;
    while !put(&mut leader, ms, write, 16) {
        assert!(at(ms).now <= at(begun).now + QUARANTINE, "refused: {:?}", leader.engine.store.counters());
        leader.keep(at(ms), PERCENT);
        ms += TICK;
    }
    assert_eq!(leader.engine.index.items(), KEYS);
    refused
}

#[test]
fn memory_that_short_terms_gave_up_comes_back_in_the_next() {
    let quarantine = QUARANTINE.0 / 1_000_000;
    let refused = storm(&arena(LIMIT), 8, quarantine - 1);
    // The limit is small against nearly two thousand writes; each term frees what the previous one left dead.
    assert!(refused < 200, "{refused}");
}

#[test]
fn terms_too_short_to_free_anything_leave_what_the_next_needs_to_do_so() {
    let refused = storm(&arena(LIMIT), 24, TICK - 1);
    assert!(refused > 0, "memory never was full");
}

#[test]
fn items_whose_time_is_over_go_though_memory_is_full() {
    let arena = arena(LIMIT);
    let mut leader = leader(1, &arena, 1_000_000);
    let write = |leader: &mut Leader, ms, key: u32, ttl_ms| {
        let (key, value) = (key.to_le_bytes(), [7; 10_000]);
        let request = Request { key: &key, value: &value, ttl_ms, ..Request::new(RequestKind::Put, 0) };
        let outcome = leader.engine.write(&mut leader.context, at(ms), &request, None);
        apply(&leader.engine, &mut leader.context, at(ms));
        outcome.is_ok()
    };
    let stored = (0..).take_while(|&key| write(&mut leader, 1_000_000, key, 10)).count() as u64;
    assert_eq!(leader.engine.index.items(), stored);
    let mut cursor = Cursor::default();
    for ms in (1_000_010..1_000_050).step_by(TICK as usize) {
        let pairs = leader.engine.pairs();
        leader.engine.expire_some(&mut leader.maintenance, &mut cursor, pairs, at(ms));
        apply(&leader.engine, &mut leader.maintenance, at(ms));
        leader.keep(at(ms), PERCENT);
    }
    assert_eq!(leader.engine.index.items(), 0);
    assert!(write(&mut leader, 1_000_050, 0, 0));
}
