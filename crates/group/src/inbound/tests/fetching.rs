//! The entries that a candidate fetches from the memory of another replica.

use longarm_base::EntryRef;
use longarm_base::limits::READ_MAX;
use longarm_index::hash::SlotKind;
use longarm_memory::OwnedWords;
use longarm_store::segment::layout::{line_at, segment_of};
use longarm_store::{format, void, whole_entry};
use longarm_wire::{EntryAt, Request, RequestKind};

use super::*;
use crate::checked_arena::CheckedArena;
use crate::install::{fetch, places};
use crate::peer_channel::PeerError;
use longarm_engine::testing::{TIMES, arena, engine_of, execute, sums};

const LIMIT: u64 = 16 << 20;

/// Another replica's memory may be lost, or damaged, while a candidate reads it. Then the candidate takes
/// nothing of it for an entry, and keeps the line of a segment that it has itself.
#[test]
fn what_does_not_verify_is_not_fetched() {
    let sim = Sim::new(Weather::FINE);
    let address = Address::Sim("house".into());
    let listener = sim.listen(&address, ListenOptions::default()).expect("listen");
    let memory = ReplicaMemory { arena: region(LIMIT + (1 << 20)), page: region(PAGE_BYTES) };
    let theirs = CheckedArena { memory: memory.arena.memory().clone(), sums: sums() };
    let inbound = inbound_of(memory.clone(), PeerRole::Client);
    let group = inbound.group();
    let house = House::<Sim> { inbound, memory, address, group };
    // The entries that a leader wrote to the other replica.
    let base = Term::new(1, ReplicaId(1));
    format(&theirs.memory, &theirs.sums).expect("an arena");
    let engine = engine_of(base, 0, SlotKind::Inline64, LIMIT, &theirs.memory);
    for key in [b"one", b"two"] {
        let put = Request { key, value: b"value", ..Request::new(RequestKind::Put, 0) };
        assert!(execute(&engine, &mut engine.worker_context(0), TIMES, &put).is_ok());
    }
    let found = places(&theirs, base, 1, 0, 0);
    let [one, two] = &found[..] else { panic!("two entries: {found:?}") };
    let ours = CheckedArena { memory: arena(LIMIT), sums: sums() };
    let whole =
        |entry: &EntryAt| whole_entry(&ours.memory, &ours.sums, segment_of(entry.offset), entry.offset);
    house.open(listener, |term| {
        let address = house.address(&Arc::new(sim.clone()), term.leader());
        let mut bulk = Bulk::new(address.memory(term, READ_MAX).expect("its term is open"), &|| true);
        let until = now() + Nanos(SOON.as_nanos() as u64);
        let mut take = |of: Term, entry: &EntryAt| fetch(&ours, &mut bulk, of, entry, until);
        let refused = |result: Result<(), PeerError>, what: &str| {
            let text = result.expect_err("it does not verify").to_string();
            assert!(text.contains(what), "{text}");
        };
        refused(take(term, one), "the line of segment");
        take(base, one).expect("it is whole there");
        assert_eq!(whole(one).map(|(position, _)| position), Some(0));
        let named = EntryAt { position: 1, ..*one };
        refused(take(base, &named), "the entry at");
        void(&theirs.memory, EntryRef { offset: two.offset, len: two.len });
        refused(take(base, two), "the entry at");
        assert!(whole(two).is_none());
        let line = line_at(segment_of(two.offset));
        (0..8).for_each(|word| theirs.memory.store(line + 8 * word, 0));
        refused(take(base, two), "the line of segment");
        assert_eq!(whole(one).map(|(position, _)| position), Some(0), "its own line stays");
    });
}
