//! The entries that a candidate fetches from the memory of another replica.

use longarm_base::EntryRef;
use longarm_base::limits::READ_MAX;
use longarm_index::hash::SlotKind;
use longarm_memory::OwnedWords;
use longarm_store::segment::Line;
use longarm_store::segment::layout::{line_at, segment_of};
use longarm_store::{entries, format, void, whole_entry};
use longarm_wire::{EntryAt, Request, RequestKind};

use super::*;
use crate::checked_arena::CheckedArena;
use crate::install::places;
use crate::merge::{Fetched, Merge};
use crate::peer_channel::PeerError;
use crate::scan::ScannedEntry;
use longarm_engine::testing::{TIMES, arena, engine_of, execute, sums};

const LIMIT: u64 = 16 << 20;

/// Another replica, whose arena a candidate reads.
struct Holder {
    sim: Sim,
    listener: <Sim as Transport>::Listener,
    house: House<Sim>,
    arena: CheckedArena<Mapped>,
}

impl Holder {
    fn new() -> Holder {
        let sim = Sim::new(Weather::FINE);
        let address = Address::Sim("house".into());
        let listener = sim.listen(&address, ListenOptions::default()).expect("listen");
        let memory = ReplicaMemory { arena: region(LIMIT + (1 << 20)), page: region(PAGE_BYTES) };
        let arena = CheckedArena { memory: memory.arena.memory().clone(), sums: sums() };
        format(&arena.memory, &arena.sums).expect("an arena");
        let inbound = inbound_of(memory.clone(), PeerRole::Client);
        let group = inbound.group();
        Holder { sim, listener, house: House { inbound, memory, address, group }, arena }
    }

    /// Lets a candidate read it.
    fn open(self, read: impl FnOnce(&mut Bulk<'_, <Sim as Transport>::Qp>, Nanos)) {
        let Holder { sim, listener, house, .. } = self;
        house.open(listener, |term| {
            let address = house.address(&Arc::new(sim.clone()), term.leader());
            let memory = address.memory(term, READ_MAX).expect("its term is open");
            read(&mut Bulk::new(memory, &|| true), now() + Nanos(SOON.as_nanos() as u64));
        });
    }
}

/// The leader of a term executes these requests over an arena that earlier leaders filled.
fn lead_over(arena: &CheckedArena<Mapped>, term: Term, requests: &[Request<'_>]) {
    let engine = engine_of(term, 0, SlotKind::Inline64, LIMIT, &arena.memory);
    for request in requests {
        assert!(execute(&engine, &mut engine.worker_context(0), TIMES, request).is_ok());
    }
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Request<'a> {
    Request { key, value, ..Request::new(RequestKind::Put, 0) }
}

fn line_of(arena: &CheckedArena<Mapped>, segment: u32) -> Line {
    Line::read(&arena.memory, &arena.sums, segment).expect("a line")
}

/// What an arena holds: by key, which versions it has, and whether they are values.
fn held(arena: &CheckedArena<Mapped>) -> Vec<(Vec<u8>, u64, bool)> {
    let mut held = Vec::new();
    entries(&arena.memory, &arena.sums, &mut |_, entry| {
        held.push((entry.key.to_vec(), entry.csn.0, entry.kind.is_value()));
    })
    .expect("an arena");
    held.sort();
    held
}

/// A replica left after a delete. The leader dropped the tombstone, as no older entry of the key was left,
/// and claimed its segment anew; the other replica was given it so.
///
/// Returns the arena with the older use, that with the younger use of segment 2, and the base.
fn two_uses() -> (Holder, CheckedArena<Mapped>, Term) {
    let (older, base) = (Term::new(1, ReplicaId(1)), Term::new(2, ReplicaId(1)));
    let holder = Holder::new();
    let delete = Request { key: b"k", ..Request::new(RequestKind::Delete, 0) };
    let small = [1; 200];
    let versions = [put(b"k", &small), put(b"k", &small), put(b"k", &small), delete];
    lead_over(&holder.arena, base, &versions);
    let ours = CheckedArena { memory: arena(LIMIT), sums: sums() };
    let large = [7; 5_000];
    lead_over(&ours, older, &[put(b"k", &small), put(b"gone", &large)]);
    longarm_store::segment::forget(&ours.memory, &ours.sums, 2);
    lead_over(&ours, base, &[put(b"young", &[8; 300])]);
    let (old, young) = (line_of(&holder.arena, 2), line_of(&ours, 2));
    assert!(old.term == base && young.term == base && old.claim < young.claim, "{old:?}, {young:?}");
    assert_eq!(held(&ours), [(b"k".to_vec(), 1, true), (b"young".to_vec(), 1, true)]);
    (holder, ours, base)
}

#[test]
fn an_entry_of_an_older_use_is_not_taken_over_a_younger_one() {
    let (holder, ours, base) = two_uses();
    let found = places(&holder.arena, base, 1, 0, 0);
    let (tombstone, puts) = found.split_last().expect("four entries");
    assert_eq!((segment_of(tombstone.offset), puts.len()), (2, 3));
    let delete = *tombstone;
    holder.open(|bulk, until| {
        let mut merge = Merge::new(&ours, base);
        assert_eq!(merge.fetch(bulk, &delete, until).expect("it verifies"), Fetched::Over);
        let mut list = Vec::new();
        assert!(!merge.settle(&mut list), "it has a gap");
    });
    assert_eq!(held(&ours), [(b"young".to_vec(), 1, true)], "what the delete hid does not come back");
}

#[test]
fn an_entry_of_a_younger_use_takes_the_place_of_the_older_one() {
    let (holder, younger, base) = two_uses();
    // The candidate is the other replica now.
    let ours = CheckedArena { memory: arena(LIMIT), sums: sums() };
    copy_all(&holder.arena.memory, &ours.memory);
    copy_all(&younger.memory, &holder.arena.memory);
    let list = |arena: &CheckedArena<Mapped>| -> Vec<ScannedEntry> {
        let seen = |at: EntryAt| {
            let place = EntryRef { offset: at.offset, len: at.len };
            ScannedEntry { stream: 0, position: at.position, place }
        };
        places(arena, base, 1, 0, 0).into_iter().map(seen).collect()
    };
    let (mut known, young) = (list(&ours), places(&holder.arena, base, 1, 0, 0));
    assert_eq!((known.len(), young.len()), (4, 1));
    holder.open(|bulk, until| {
        let mut merge = Merge::new(&ours, base);
        assert_eq!(merge.fetch(bulk, &young[0], until).expect("it verifies"), Fetched::Taken);
        assert!(!merge.settle(&mut known), "it has a gap");
    });
    assert_eq!(held(&ours), [(b"young".to_vec(), 1, true)], "what the delete hid does not come back");
    assert_eq!(known, [], "nothing is listed that is not there any more");
}

fn copy_all(from: &Mapped, to: &Mapped) {
    let mut bytes = vec![0; from.bytes().min(to.bytes()) as usize];
    from.copy_out(0, &mut bytes);
    to.copy_in(0, &bytes);
}

/// Another replica's memory may be lost, or damaged, while a candidate reads it. Then the candidate takes
/// nothing of it for an entry, and keeps the line of a segment that it has itself.
#[test]
fn what_does_not_verify_is_not_fetched() {
    let holder = Holder::new();
    let theirs = holder.arena.clone();
    // The entries that a leader wrote to the other replica.
    let base = Term::new(1, ReplicaId(1));
    lead_over(&theirs, base, &[put(b"one", b"value"), put(b"two", b"value")]);
    let found = places(&theirs, base, 1, 0, 0);
    let [one, two] = &found[..] else { panic!("two entries: {found:?}") };
    let ours = CheckedArena { memory: arena(LIMIT), sums: sums() };
    let whole =
        |entry: &EntryAt| whole_entry(&ours.memory, &ours.sums, segment_of(entry.offset), entry.offset);
    holder.open(|bulk, until| {
        let mut take = |of: Term, entry: &EntryAt| Merge::new(&ours, of).fetch(bulk, entry, until);
        let refused = |result: Result<Fetched, PeerError>, what: &str| {
            let text = result.expect_err("it does not verify").to_string();
            assert!(text.contains(what), "{text}");
        };
        refused(take(Term::new(2, ReplicaId(1)), one), "the line of segment");
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
