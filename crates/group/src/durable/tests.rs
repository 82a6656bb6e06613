//! A leader's arena, what a scribe has of it, and what the next life of the replica finds.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Csn, ReplicaId, Term};
use longarm_disk::layout::{file_bytes, note_at, page_at, segments_at};
use longarm_disk::{ArenaDisk, DiskError, Fault, Found, Mark, Medium, Scribe, SectorMedium, Shape};
use longarm_engine::testing::{SUM_KEY, TIMES, arena, engine_of, execute, memory, sums};
use longarm_engine::{Engine, WorkerContext};
use longarm_fabric::{Address, Member};
use longarm_index::hash::SlotKind;
use longarm_memory::{Mapped, OwnedWords, Words};
use longarm_store::object::layout::{POSITION, SUM, VERSION};
use longarm_store::segment::replica_line;
use longarm_wire::{Request, RequestKind};

use super::load::{Loaded, load};
use super::options::{DiskSource, Durability, Durable, ReplicaDisk};
use super::scrub::{Scrub, Scrubbing};
use super::settle::{KeptDisk, Unsettled};
use super::slot::DiskSlot;
use crate::checked_arena::CheckedArena;
use crate::log::Log;
use crate::options::{GroupOptions, StartError};

const LIMIT: u64 = 16 << 20;
const TERM: Term = Term::new(3, ReplicaId(0));

/// A disk that stays when its replica ends.
struct Kept(SectorMedium, Shape);

impl DiskSource for Kept {
    fn open(&self, shape: Shape) -> Result<(ReplicaDisk, Found), DiskError> {
        assert_eq!(shape, self.1);
        ArenaDisk::open(self.0.clone(), shape).map(|(disk, found)| (disk.boxed(), found))
    }
}

/// A leader with a stream, all of which is named to a scribe.
struct Leader {
    arena: Mapped,
    engine: Engine<Mapped>,
    scribe: Scribe<SectorMedium>,
    medium: SectorMedium,
    shape: Shape,
    /// Where each position is.
    places: Vec<u64>,
    context: WorkerContext<Mapped>,
}

impl Leader {
    fn new(sync: bool) -> Leader {
        Leader::on(sync, |disk| disk)
    }

    fn on(sync: bool, kind: impl FnOnce(SectorMedium) -> SectorMedium) -> Leader {
        let arena = arena(LIMIT);
        let shape = Shape { group: 1, segments: (arena.bytes() >> 20) as u32, table: 1 };
        let medium = kind(SectorMedium::new(file_bytes(shape.segments.into(), 1)));
        let disk = ArenaDisk::create(medium.clone(), shape, 1).expect("made");
        let first = Mark { ceiling: Csn(1 << 20), written: vec![0; 2], ..Mark::default() };
        let scribe = Scribe::begin(disk, TERM, sync, first).expect("begun");
        let engine = engine_of(TERM, 0, SlotKind::Inline64, LIMIT, &arena);
        let context = engine.worker_context(0);
        Leader { arena, engine, scribe, medium, shape, places: Vec::new(), context }
    }

    /// Writes a key, and names it; a large value has a run of its own.
    fn put(&mut self, key: &[u8], len: usize) {
        let value = vec![key[0]; len];
        let put = Request { key, value: &value, ..Request::new(RequestKind::Put, 0) };
        execute(&self.engine, &mut self.context, TIMES, &put).expect("written");
        let (place, _) = longarm_engine::testing::named(&self.engine, key);
        for segment in 1..self.shape.segments {
            let line = replica_line(&self.arena, &sums(), segment).expect("nobody changes it");
            self.scribe.name_line(segment, &line);
        }
        self.scribe.name_entry(0, place.offset, u64::from(place.len).next_multiple_of(8));
        self.places.push(place.offset);
    }

    fn batch(&mut self) {
        self.attempt().expect("written");
    }

    fn attempt(&mut self) -> Result<(), DiskError> {
        let csn = self.engine.csn();
        let written = vec![self.places.len() as u64, 0];
        self.scribe.mark(Mark { stable: csn, ceiling: Csn(csn.0 + 9), written, ..Mark::default() });
        let arena = self.arena.clone();
        let copy = |at, into: &mut [u8]| {
            arena.copy_out(at, into);
            true
        };
        self.scribe.batch(true, copy).map(|_| ())
    }

    /// What the next life finds, and does.
    fn load(&self, accept_damage: bool) -> Result<(CheckedArena<Mapped>, Loaded), StartError> {
        load_from(self.medium.clone(), self.shape, accept_damage)
    }

    /// The keys that a next life would find, in their order.
    fn keys(&self) -> Vec<Vec<u8>> {
        let mut bytes = vec![0; self.medium.bytes() as usize];
        self.medium.read(0, &mut bytes).expect("read");
        let (arena, _) = load_from(SectorMedium::of(bytes), self.shape, false).expect("loaded");
        keys(&arena)
    }

    /// Changes a byte of the entry at a position in the file.
    fn damage(&mut self, position: usize) {
        let at = segments_at(self.shape.segments.into()) + self.places[position] + 50 - (1 << 20);
        let mut byte = [0];
        self.medium.read(at, &mut byte).expect("read");
        self.medium.write(at, &[byte[0] ^ 4]).expect("written");
        self.medium.sync().expect("synced");
    }
}

fn load_from(
    medium: SectorMedium,
    shape: Shape,
    accept_damage: bool,
) -> Result<(CheckedArena<Mapped>, Loaded), StartError> {
    let fresh = CheckedArena { memory: arena(LIMIT), sums: sums() };
    let (durability, disk) = (Durability::Sync, Arc::new(Kept(medium, shape)));
    let loaded = load(
        &fresh,
        &Durable { durability, disk, accept_damage, scrubbing: Scrubbing::NONE },
        1,
        &Log::silent(),
    )?;
    Ok((fresh, loaded))
}

/// The first replica of a group of so many, with this disk.
fn group(durability: Durability, disk: Arc<Kept>, replicas: u8) -> GroupOptions {
    let address = Address::Sim("house".into());
    let member = |replica| Member { replica: ReplicaId(replica), address: address.clone() };
    let members = (0..replicas).map(member).collect();
    let durable = Some(Durable { durability, disk, accept_damage: false, scrubbing: Scrubbing::NONE });
    let alone = GroupOptions::alone(&address, Duration::from_secs(1)).expect("options");
    GroupOptions { id: 1, members, durable, sum_key: SUM_KEY, ..alone }
}

fn keys(arena: &CheckedArena<Mapped>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let all = longarm_store::entries(&arena.memory, &sums(), &mut |_, entry| keys.push(entry.key.to_vec()));
    all.expect("a header");
    keys.sort();
    keys
}

#[test]
fn what_the_note_covers_comes_back_and_what_was_written_since_does_not() {
    let mut leader = Leader::new(false);
    leader.put(b"a", 100);
    leader.put(b"large", 3 << 20);
    leader.batch();
    leader.batch();
    leader.put(b"late", 100);
    leader.batch();
    assert_eq!(leader.keys(), [&b"a"[..], b"large"], "the note of the last entry is not in the file");
    leader.batch();
    assert_eq!(leader.keys(), [&b"a"[..], b"large", b"late"]);
}

#[test]
fn in_sync_mode_what_is_in_the_file_comes_back_also_behind_the_note() {
    let mut leader = Leader::new(true);
    leader.put(b"a", 100);
    leader.batch();
    leader.put(b"b", 100);
    leader.put(b"c", 100);
    leader.batch();
    assert_eq!(leader.keys(), [b"a", b"b", b"c"]);
    // The second one was cut off, so nobody heard of the third.
    leader.damage(1);
    assert_eq!(leader.keys(), [b"a"]);
}

/// An entry's position was not there, what says that an entry is there was, and zero is below every floor: a
/// server refused to start from persistent memory, over a write that nobody had heard of.
#[test]
fn what_a_loss_of_power_leaves_of_a_write_is_no_damage() {
    for kind in [|disk: SectorMedium| disk, SectorMedium::in_lines] {
        let mut leader = Leader::on(true, kind);
        leader.put(b"a", 8);
        leader.batch();
        leader.batch();
        leader.put(b"b", 8);
        leader.medium.fail(Fault::Sync);
        assert!(leader.attempt().is_err());
        let images = leader.medium.images();
        images.visit(1 << 16, 0, 1, |bytes| {
            let (arena, _) =
                load_from(SectorMedium::of(bytes.to_vec()), leader.shape, false).expect("loaded");
            assert!(keys(&arena).starts_with(&[b"a".to_vec()]));
        });
        assert!((2..1 << 16).contains(&images.count()), "{}", images.count());
    }
}

#[test]
fn what_was_cut_off_is_void_in_the_file_before_the_next_note() {
    let mut leader = Leader::new(false);
    leader.put(b"a", 100);
    leader.batch();
    leader.batch();
    leader.put(b"b", 100);
    leader.batch();
    let (arena, Loaded { disk, note, .. }) = leader.load(false).expect("loaded");
    assert_eq!(keys(&arena), [b"a"]);
    let (place, note) = (leader.places[1], note.expect("a note"));
    let mut sum = [9; 8];
    disk.read(place + SUM, &mut sum).expect("read");
    assert_eq!((arena.memory.load(place + SUM), u64::from_le_bytes(sum)), (0, 0));
    // The next term begins, with versions above all that may have been drawn, and its power is lost, too.
    let term = Term::new(4, ReplicaId(0));
    let first = Mark { stable: note.ceiling, ceiling: Csn(note.ceiling.0 + 100), ..Mark::default() };
    Scribe::begin(disk, term, false, Mark { written: vec![0; 2], ..first }).expect("begun");
    assert_eq!(leader.keys(), [b"a"], "what was lost does not come back by a younger note");
}

#[test]
fn damage_is_named_and_given_up_only_when_that_is_asked_for() {
    let mut leader = Leader::new(false);
    [b"a", b"b", b"c"].iter().for_each(|key| leader.put(*key, 100));
    leader.batch();
    leader.batch();
    leader.damage(1);
    let error = leader.load(false).map(|_| ()).expect_err("it is refused").to_string();
    let place = format!("{:#x}", leader.places[1]);
    assert!(error.contains("1 entries that were acknowledged") && error.contains(&place), "{error}");
    let (arena, _) = leader.load(true).expect("loaded");
    assert_eq!(keys(&arena), [b"a", b"c"]);
}

#[test]
fn a_file_without_a_note_holds_nothing_that_anybody_heard_of() {
    let arena = arena(LIMIT);
    let shape = Shape { group: 1, segments: (arena.bytes() >> 20) as u32, table: 1 };
    let medium = SectorMedium::new(file_bytes(shape.segments.into(), 1));
    ArenaDisk::create(medium.clone(), shape, 1).expect("made");
    let (_, loaded) = load_from(medium, shape, false).expect("loaded");
    assert_eq!(loaded.note, None);
}

/// A replica's disk was lost, and what is in its place is empty. What the first disk had was acknowledged,
/// and may be with no other replica that takes part. Only one that has founded the group since knows of no
/// such disk.
#[test]
fn a_disk_that_holds_nothing_counts_for_a_founder_only() {
    let shape = Shape { group: 1, segments: (LIMIT >> 20) as u32, table: 1 };
    let medium = SectorMedium::new(file_bytes(shape.segments.into(), 1));
    ArenaDisk::create(medium.clone(), shape, 1).expect("made");
    let disk = Arc::new(Kept(medium, shape));
    let options = group(Durability::Sync, disk, 3);
    let sync = |options: &GroupOptions, founded| {
        let (arena, page) = (memory(LIMIT), memory(1 << 20));
        super::kept::arena(&arena, &page, options, options.members.len() == 1, founded, &Log::silent())
            .map(|(_, kept)| kept.sync)
    };
    assert_eq!(sync(&options, false).expect("loaded"), None);
    assert_eq!(sync(&options, true).expect("loaded"), Some(Term::ZERO));
    let alone = GroupOptions { members: options.members[..1].to_vec(), ..options };
    assert_eq!(sync(&alone, false).expect("loaded"), Some(Term::ZERO), "nobody else had anything");
}

/// What was acknowledged from memory may not be on this disk, and be with the others. Of a replica alone the
/// disk is all that there is.
#[test]
fn who_acknowledged_from_memory_does_not_count_with_what_its_disk_has() {
    let mut leader = Leader::new(false);
    leader.put(b"a", 100);
    leader.batch();
    leader.batch();
    let disk = Arc::new(Kept(leader.medium.clone(), leader.shape));
    let sync = |durability, replicas: u8| {
        let options = group(durability, disk.clone(), replicas);
        let (fresh, page) = (memory(leader.arena.bytes()), memory(1 << 20));
        let kept = super::kept::arena(&fresh, &page, &options, replicas == 1, false, &Log::silent());
        kept.map(|(_, kept)| (kept.sync, kept.disk.expect("it has one").term)).expect("loaded")
    };
    let loose = Durability::Async { window: Duration::from_millis(100) };
    assert_eq!(sync(loose, 3), (None, TERM));
    assert_eq!(sync(loose, 1), (Some(TERM), TERM));
    assert_eq!(sync(Durability::Sync, 3), (Some(TERM), TERM));
}

/// A byte of each kind rots: of an entry, of one that is superseded since, of a run, of the table, of the
/// note.
#[test]
fn what_rots_in_the_file_is_written_again_from_memory() {
    let mut leader = Leader::new(true);
    for (key, len) in [(b"a", 100), (b"b", 2_000_000), (b"a", 50), (b"c", 10)] {
        leader.put(key, len);
    }
    leader.batch();
    leader.batch();
    // Not named yet: what is not there is nobody's loss.
    leader.put(b"d", 10);
    let Leader { arena, engine: _engine, scribe, mut medium, shape, places, .. } = leader;
    let arena = CheckedArena { memory: arena, sums: sums() };
    let mut scribe = boxed(scribe, &medium, shape);
    let whole = |medium: &SectorMedium| {
        let mut bytes = vec![0; medium.bytes() as usize];
        medium.read(0, &mut bytes).expect("read");
        bytes
    };
    let before = whole(&medium);
    let mut scrub = Scrub::new(Scrubbing { rate: 1 << 40, every: Duration::ZERO });
    let mut pass = |scribe: &mut Scribe<Box<dyn Medium>>| {
        let (passes, before) = (scrub.done().passes, scrub.done().repaired);
        while scrub.done().passes == passes {
            scrub.step(&arena, scribe, &|| false, &Log::silent()).expect("read and written");
            longarm_host::sleep(Duration::from_micros(1_100));
        }
        scrub.done().repaired - before
    };
    assert_eq!(pass(&mut scribe), 0, "all is there");
    let segments = segments_at(shape.segments.into()) - (1 << 20);
    let entries = places[..4].iter().map(|place| segments + place + 45);
    for at in entries.chain([segments + places[1] + 1_500_000]) {
        let mut byte = [0];
        medium.read(at, &mut byte).expect("read");
        medium.write(at, &[byte[0] ^ 4]).expect("written");
        medium.sync().expect("synced");
        assert_eq!(pass(&mut scribe), 1, "at {at}");
        assert_eq!(pass(&mut scribe), 0);
        let differs = whole(&medium).iter().zip(&before).position(|(now, before)| now != before);
        assert_eq!(differs, None, "at {at}");
    }
    // Both copies of what has two; the one that does not count is left alone.
    let note = scribe.noted().clone();
    for at in [note_at(0), note_at(1), page_at(0, 0), page_at(0, 1)] {
        medium.write(at + 60, &[0xA5; 8]).expect("written");
    }
    medium.sync().expect("synced");
    assert_eq!(pass(&mut scribe), 2);
    scribe.batch(false, |_, _| unreachable!("no entry is named")).expect("written");
    assert_eq!(pass(&mut scribe), 0);
    drop(scribe);
    let (disk, found) = ArenaDisk::open(medium, shape).expect("opened");
    assert_eq!(found.note.map(|found| (found.floors, found.stable)), Some((note.floors, note.stable)));
    assert!(disk.line(1).iter().any(|byte| *byte != 0));
}

/// The scribe of a term over the same sectors, on a medium of any kind.
fn boxed(scribe: Scribe<SectorMedium>, medium: &SectorMedium, shape: Shape) -> Scribe<Box<dyn Medium>> {
    let (floors, written) = (scribe.floors().to_vec(), scribe.floors().to_vec());
    let stable = scribe.noted().stable;
    drop(scribe.into_disk());
    let (disk, _) = ArenaDisk::open(medium.clone(), shape).expect("opened");
    let mut scribe = Scribe::go_on(disk.boxed(), TERM, true, floors);
    scribe.mark(Mark { stable, ceiling: Csn(1 << 21), written, ..Mark::default() });
    for with_note in [false, true] {
        scribe.batch(with_note, |_, _| unreachable!("no entry is named")).expect("written");
    }
    scribe
}

/// A replica that still has its memory is to lead from its disk: then its memory is what a start would find.
#[test]
fn a_memory_goes_back_to_what_its_disk_has() {
    let mut leader = Leader::new(false);
    for key in [b"a", b"b"] {
        leader.put(key, 100);
        leader.batch();
    }
    leader.batch();
    leader.put(b"c", 100);
    leader.put(b"d", 9_000);
    // They are in the file, too, and no note says so.
    leader
        .scribe
        .batch(false, |at, into| {
            leader.arena.copy_out(at, into);
            true
        })
        .expect("written");
    let note = leader.scribe.noted().clone();
    assert_eq!(note.floors, [2, 0]);
    let arena = CheckedArena { memory: leader.arena.clone(), sums: sums() };
    assert_eq!(keys(&arena).len(), 4);
    let (disk, _) = ArenaDisk::open(leader.medium.clone(), leader.shape).expect("opened");
    let (term, floors) = (note.term, note.floors.clone());
    let mut kept =
        KeptDisk { disk: disk.boxed(), note: Some(note), term, floors, same: false, lacks_all: false };
    assert_eq!(kept.trim(&arena).expect("written"), 2);
    assert_eq!(keys(&arena), [b"a", b"b"]);
    assert_eq!(kept.trim(&arena).expect("written"), 0);
    // A later start, whose note covers these positions, does not find them either.
    kept.settle(&arena, NEXT, vec![0; 2], true, &|| false).expect("settled");
    next_note(kept.disk);
    assert_eq!(leader.keys(), [b"a", b"b"]);
}

const NEXT: Term = Term::new(4, ReplicaId(0));
const LATER: Term = Term::new(5, ReplicaId(0));

/// A replica's file, of the term that its note names.
fn kept(Loaded { disk, note, floors }: Loaded) -> KeptDisk {
    let term = note.as_ref().map_or(Term::ZERO, |note| note.term);
    KeptDisk { disk, note, term, floors, same: false, lacks_all: false }
}

/// The first note of the next term.
fn next_note(disk: ReplicaDisk) {
    let first = Mark { stable: Csn(99), ceiling: Csn(1 << 21), written: vec![0; 2], ..Mark::default() };
    Scribe::begin(disk, NEXT, true, first).expect("begun");
}

#[test]
fn what_a_next_leader_cut_off_goes_from_the_file_also_below_its_floors() {
    let mut leader = Leader::new(true);
    leader.put(b"a", 100);
    leader.put(b"b", 100);
    leader.batch();
    leader.batch();
    let (arena, loaded) = leader.load(false).expect("loaded");
    assert_eq!(loaded.floors, [2, 0]);
    // The next leader's start set has position 0 alone.
    arena.memory.store(leader.places[1] + SUM, 0);
    let (mut kept, slot) = (kept(loaded), DiskSlot::new(None));
    slot.cut(TERM, &[1]);
    slot.tell(&mut kept).expect("written");
    kept.settle(&arena, NEXT, vec![0; 2], true, &|| false).expect("settled");
    assert_eq!(leader.keys(), [b"a"], "power is lost before the next note, and that is no damage");
    next_note(kept.disk);
    assert_eq!(leader.keys(), [b"a"], "it does not come back as an entry of an older term");
}

/// A replica was away while leaders used segments again. Its file was given what they had become, and did not
/// say so. A loss of power in the middle left entries that were overwritten by half, and a server that
/// refused to start; or it left a file with less of its own term than it had been counted for.
#[test]
fn a_file_that_is_given_segments_that_were_used_again_says_so_first() {
    // Entries of one segment over others; and a run over a shorter one, that begins before it.
    for (before, after) in [(&[1_500, 1_500][..], 900), (&[1_500_000], 2_500_000)] {
        for left in 0.. {
            let mut leader = Leader::new(true);
            (b'a'..).zip(before).for_each(|(key, &len)| leader.put(&[key], len));
            let all: Vec<_> = (b'a'..).zip(before).map(|(key, _)| vec![key]).collect();
            leader.batch();
            leader.batch();
            let mut kept = kept(leader.load(false).expect("loaded").1);
            let memory = arena(LIMIT);
            let engine = engine_of(NEXT, 0, SlotKind::Inline64, LIMIT, &memory);
            let mut context = engine.worker_context(0);
            let value = vec![1; after];
            for key in 0..2_500_000 / after.max(125_000) {
                let put = Request { key: &[key as u8], value: &value, ..Request::new(RequestKind::Put, 0) };
                execute(&engine, &mut context, TIMES, &put).expect("written");
            }
            leader.medium.fail_after(left);
            let arena = CheckedArena { memory, sums: sums() };
            let outcome = kept.settle(&arena, LATER, vec![0; 2], true, &|| false);
            leader.medium.images().visit(16, 16, left.into(), |bytes| {
                let medium = SectorMedium::of(bytes.to_vec());
                let (arena, loaded) = load_from(medium, leader.shape, false).expect("nothing is damaged");
                let note = loaded.note.expect("a note");
                assert!(note.mixed || keys(&arena) == all, "a mixture after {left} operations");
            });
            if outcome.is_ok() {
                assert!(left > 3, "{left}");
                break;
            }
        }
    }
}

/// A replica had let go of a segment, restarted, and was given it again, as others had not let go. The
/// segment is of a term that the note has behind it, so all that its line names counts. A loss of power left
/// the line without the entries, and a server that refused to start over damage that was none.
#[test]
fn a_line_that_is_given_again_comes_after_its_entries() {
    for left in 0.. {
        let mut leader = Leader::new(true);
        leader.put(b"a", 1_500);
        leader.put(b"b", 1_500);
        let medium = SectorMedium::new(leader.medium.bytes());
        let disk = ArenaDisk::create(medium.clone(), leader.shape, 1).expect("made").boxed();
        next_note(disk);
        let mut kept = kept(load_from(medium.clone(), leader.shape, false).expect("loaded").1);
        let memory = CheckedArena { memory: leader.arena.clone(), sums: sums() };
        medium.fail_after(left);
        let outcome = kept.settle(&memory, NEXT, vec![0; 2], true, &|| false);
        medium.images().visit(16, 64, left.into(), |bytes| {
            let found = load_from(SectorMedium::of(bytes.to_vec()), leader.shape, false);
            let keys = keys(&found.expect("nothing is damaged").0);
            assert!(keys.is_empty() || keys == [b"a", b"b"], "{keys:?} after {left} operations");
        });
        if outcome.is_ok() {
            assert!(left > 2, "{left}");
            break;
        }
    }
}

#[test]
fn what_a_leader_left_half_written_is_no_damage_in_the_next_term() {
    let mut leader = Leader::new(true);
    leader.put(b"a", 100);
    leader.put(b"b", 100);
    let at = leader.places[1] + 48;
    leader.arena.store(at, leader.arena.load(at) ^ 4);
    // A replica that had nothing is given the start set of the next term.
    let medium = SectorMedium::new(leader.medium.bytes());
    let disk = ArenaDisk::create(medium.clone(), leader.shape, 1).expect("made").boxed();
    let mut kept = kept(Loaded { disk, note: None, floors: Vec::new() });
    let arena = CheckedArena { memory: leader.arena.clone(), sums: sums() };
    kept.settle(&arena, NEXT, vec![0; 2], true, &|| false).expect("settled");
    next_note(kept.disk);
    let (loaded, _) = load_from(medium, leader.shape, false).expect("nothing is damaged");
    assert_eq!(keys(&loaded), [b"a"]);
}

#[test]
fn what_is_landing_is_not_in_the_file() {
    let mut leader = Leader::new(true);
    leader.put(b"a", 100);
    leader.put(b"b", 100);
    // Of the second entry not even the position has landed in the memory of a follower that has the first.
    [VERSION, POSITION].iter().for_each(|word| leader.arena.store(leader.places[1] + word, 0));
    let medium = SectorMedium::new(leader.medium.bytes());
    let disk = ArenaDisk::create(medium.clone(), leader.shape, 1).expect("made").boxed();
    let mut kept = kept(Loaded { disk, note: None, floors: Vec::new() });
    let arena = CheckedArena { memory: leader.arena.clone(), sums: sums() };
    kept.settle(&arena, TERM, vec![1, 0], true, &|| false).expect("settled");
    let mut scribe = Scribe::go_on(kept.disk, TERM, true, vec![1, 0]);
    scribe.mark(Mark { stable: Csn(1), ceiling: Csn(9), written: vec![1, 0], ..Mark::default() });
    (0..2).for_each(|_| assert!(scribe.batch(true, |_, _| true).expect("written").is_some()));
    let (loaded, _) = load_from(medium, leader.shape, false).expect("nothing is damaged");
    assert_eq!(keys(&loaded), [b"a"]);
}

#[test]
fn a_file_whose_memory_was_overwritten_says_so_before_it_is_written() {
    // In the second case the file was given the next term's start set, and no note says so yet.
    for is_of_next in [false, true] {
        let mut leader = Leader::new(true);
        leader.put(b"a", 100);
        leader.batch();
        leader.batch();
        let (arena, loaded) = leader.load(false).expect("loaded");
        let (mut kept, slot) = (kept(loaded), DiskSlot::new(None));
        if is_of_next {
            kept.settle(&arena, NEXT, vec![0; 2], true, &|| false).expect("settled");
        }
        slot.prepare(true);
        slot.tell(&mut kept).expect("written");
        assert!(kept.lacks_all);
        let found = leader.load(false).expect("loaded").1;
        let note = found.note.expect("a note");
        assert_eq!((note.mixed, note.term, note.floors), (true, TERM, vec![1, 0]));
    }
}

#[test]
fn cuts_of_several_leaders_are_taken_together() {
    let mut leader = Leader::new(true);
    [b"a", b"b", b"c"].iter().for_each(|key| leader.put(*key, 100));
    leader.batch();
    leader.batch();
    let mut kept = kept(leader.load(false).expect("loaded").1);
    let slot = DiskSlot::new(None);
    slot.cut(NEXT, &[0, 0]);
    slot.cut(TERM, &[1, 5]);
    slot.cut(TERM, &[2]);
    slot.tell(&mut kept).expect("written");
    assert_eq!((kept.floors, kept.note.expect("a note").floors), (vec![1, 0], vec![1, 0]));
}

#[test]
fn what_is_copied_while_the_memory_changes_is_not_written() {
    let mut leader = Leader::new(true);
    leader.put(b"a", 100);
    let medium = SectorMedium::new(leader.medium.bytes());
    let disk = ArenaDisk::create(medium.clone(), leader.shape, 1).expect("made").boxed();
    let mut kept = kept(Loaded { disk, note: None, floors: Vec::new() });
    let arena = CheckedArena { memory: leader.arena.clone(), sums: sums() };
    // Another leader writes to the memory when the scribe has looked for the last time.
    let looked = std::cell::Cell::new(0);
    let stopped = || {
        looked.set(looked.get() + 1);
        leader.arena.store(leader.places[0] + 56, 7);
        looked.get() > 1
    };
    let outcome = kept.settle(&arena, NEXT, vec![0; 2], true, &stopped);
    assert!(matches!(outcome, Err(Unsettled::Stopped)), "{outcome:?}");
    let mut bytes = vec![0; medium.bytes() as usize];
    kept.disk.sync().expect("synced");
    medium.read(0, &mut bytes).expect("read");
    let at = segments_at(leader.shape.segments.into()) + leader.places[0] + 56 - (1 << 20);
    assert_eq!(bytes[at as usize], 0);
}
