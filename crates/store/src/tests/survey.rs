//! The survey of a follower's arena against a list of what landed there.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::{ReplicaId, Term};
use longarm_memory::{OwnedWords, Words};
use proptest::prelude::*;

use super::*;
use crate::object::{NewEntry, layout};
use crate::segment::layout::{line_at, segment_of};
use crate::segment::{ArenaGeometry, Line, LineError, SegmentState, line_bytes};

const SEGMENTS: u64 = 16;
const OLD: Term = Term::new(6, ReplicaId(1));
const TERM: Term = Term::new(7, ReplicaId(2));

/// An entry that the leader wrote.
#[derive(Clone, Copy, Debug)]
struct Written {
    place: EntryRef,
    csn: Csn,
    stream: u16,
    position: u64,
}

/// A leader's arena and its entries. Each term puts entries of the same lengths, so of the same places and
/// generations, into it.
fn leader(term: Term, lens: &[usize]) -> (Mapped, Vec<Written>) {
    let store = store(SEGMENTS, StoreOptions { term, streams: 2, ..StoreOptions::default() });
    let mut writers = [store.writer(0), store.writer(1)];
    let mut written: Vec<Written> = Vec::new();
    for (i, len) in lens.iter().enumerate() {
        let (csn, stream) = (i as u64 + 1, i % 2);
        let value = vec![term.counter() as u8; *len];
        let Ok((place, csn)) = put(&mut writers[stream], csn, &[i as u8; 9], &value) else { continue };
        let position = written.iter().filter(|other| other.stream as usize == stream).count() as u64;
        written.push(Written { place, csn, stream: stream as u16, position });
        if i % 5 == 4 {
            store.supersede(place, csn);
        }
    }
    (store.memory().clone(), written)
}

fn copy(from: &Mapped, to: &Mapped, at: u64, len: u32) {
    let mut bytes = vec![0; len as usize];
    from.copy_out(at, &mut bytes);
    to.copy_in(at, &bytes);
}

/// A follower that held all of an older term, and then got the lines of this one; the entries are still to
/// come.
fn follower(arena: &Mapped, lens: &[usize]) -> Mapped {
    let memory = memory(SEGMENTS);
    let (older, stale) = leader(OLD, lens);
    stale.iter().for_each(|entry| copy(&older, &memory, entry.place.offset, entry.place.len));
    for segment in 0..SEGMENTS as u32 {
        memory.copy_in(line_at(segment), &line_bytes(arena, segment));
    }
    memory
}

fn lens() -> impl Strategy<Value = Vec<usize>> {
    let len = prop_oneof![
        20 => 0usize..200, 4 => 1_000usize..2_000, 2 => 100_000usize..120_000, 1 => 600_000usize..2_200_000,
    ];
    proptest::collection::vec(len, 1..60)
}

/// The entries that are there, each checked alone.
fn alone(memory: &Mapped, written: &[Written]) -> BTreeSet<EntryRef> {
    let look = |of: &Written| {
        let found = whole_entry(memory, &sums(), segment_of(of.place.offset), of.place.offset)?;
        assert_eq!(found, (of.position, of.place));
        Some(of.place)
    };
    written.iter().filter_map(look).collect()
}

/// The expected survey of one stream, from the list.
fn expected(whole: &[Written], stream: u16, floor: u64) -> StreamSurvey {
    let find = |position| whole.iter().find(|e| (e.stream, e.position) == (stream, position));
    let mut said = StreamSurvey { len: floor, ..StreamSurvey::default() };
    while let Some(entry) = find(said.len) {
        said.tail.push((entry.position, entry.place));
        said.len += 1;
    }
    let mut beyond: Vec<&Written> =
        whole.iter().filter(|e| e.stream == stream && e.position > said.len).collect();
    beyond.sort_by_key(|entry| entry.position);
    said.beyond = beyond.iter().map(|entry| (entry.position, entry.place)).collect();
    said
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn a_survey_finds_what_landed_and_nothing_else(
        lens in lens(),
        landed in proptest::collection::vec(0u32..10, 60),
        damage in proptest::collection::vec((any::<usize>(), any::<usize>()), 0..3),
        torn in proptest::option::weighted(0.2, (1..SEGMENTS as u32, 0u64..6)),
        floors in (0u64..12, 0u64..12),
    ) {
        let (arena, written) = leader(TERM, &lens);
        let memory = follower(&arena, &lens);
        let mut whole: Vec<Written> =
            written.iter().zip(landed).filter(|(_, landed)| *landed > 0).map(|(entry, _)| *entry).collect();
        whole.iter().for_each(|entry| copy(&arena, &memory, entry.place.offset, entry.place.len));
        for (pick, word) in damage {
            if whole.is_empty() {
                break;
            }
            let entry = whole.swap_remove(pick % whole.len());
            // Of the first byte of a word every bit but the superseded one is covered.
            let at = entry.place.offset + (word as u64 % (entry.place.len as u64 / 8)) * 8;
            memory.store(at, memory.load(at) ^ 2);
        }
        if let Some((segment, word)) = torn {
            let (known, at) = (Line::read(&arena, &sums(), segment), line_at(segment) + word * 8);
            memory.store(at, memory.load(at) ^ 0x0100_0001);
            let known = known.expect("sound");
            let head = if known.state == SegmentState::RunBody { segment - known.run } else { segment };
            whole.retain(|entry| segment_of(entry.place.offset) != head);
        }
        let floors = [floors.0, floors.1];
        let found = survey(&memory, &sums(), TERM, &floors, &Settled::default()).expect("a header");
        let wanted = [expected(&whole, 0, floors[0]), expected(&whole, 1, floors[1])];
        prop_assert_eq!(&found.streams[..], &wanted[..]);
        let tails: BTreeSet<EntryRef> =
            wanted.iter().flat_map(|stream| stream.tail.iter().map(|(_, place)| *place)).collect();
        // A look entry by entry finds the same.
        prop_assert_eq!(alone(&memory, &written), whole.iter().map(|entry| entry.place).collect());
        // A look segment by segment finds the same.
        let geometry = ArenaGeometry::read(&memory, &sums()).expect("a header");
        let of = |segment| entries_of(&memory, geometry, segment, TERM, &floors.map(|floor| floor..u64::MAX));
        let apart: Vec<_> = (geometry.table..geometry.segments).flat_map(of).collect();
        let all = wanted.iter().flat_map(|stream| stream.tail.iter().chain(&stream.beyond));
        let all: BTreeSet<_> = all.map(|(_, place)| *place).collect();
        prop_assert!(apart.is_sorted_by_key(|place| place.offset));
        prop_assert_eq!((apart.len(), BTreeSet::from_iter(apart)), (all.len(), all));
        let tail = whole.iter().filter(|entry| tails.contains(&entry.place));
        prop_assert_eq!(found.csn, tail.map(|entry| entry.csn).max().unwrap_or(Csn::NONE));
        // Voided entries are gone for good: for the next survey, and for a store that takes over.
        found.streams.iter().flat_map(|stream| &stream.beyond).for_each(|&(_, place)| void(&memory, place));
        let again = survey(&memory, &sums(), TERM, &floors, &Settled::default()).expect("a header");
        for (again, found) in again.streams.iter().zip(&found.streams) {
            prop_assert_eq!((again.len, &again.tail), (found.len, &found.tail));
            prop_assert!(again.beyond.is_empty());
        }
        let budget = Arc::new(Budget::new(u64::MAX));
        let next = TERM.next_of(ReplicaId(3)).expect("more terms");
        let options = StoreOptions { term: next, ..StoreOptions::default() };
        let store = Store::adopt(memory, budget, options, sums()).expect("an arena");
        let mut seen = BTreeSet::new();
        for &segment in store.adopted() {
            store.replay(segment, &mut Scratch::default(), &mut |place: EntryRef, entry: &Entry<'_>| {
                assert_eq!(entry.term, TERM);
                if entry.position >= floors[entry.stream as usize] {
                    seen.insert(place);
                }
            });
        }
        prop_assert_eq!(seen, tails);
        prop_assert!(store.check().is_sound());
    }
}

/// The entries of `term` in a segment, within these ranges of their streams.
fn entries_of(
    memory: &dyn Words,
    geometry: ArenaGeometry,
    segment: u32,
    term: Term,
    ranges: &[Range<u64>],
) -> Vec<EntryRef> {
    let line = Line::read(memory, &sums(), segment).ok().filter(|line| line.term == term);
    let arena = ArenaView { memory, sums: &sums() };
    line.map_or_else(Vec::new, |line| segment_entries(arena, geometry, segment, &line, ranges))
}

#[test]
fn a_survey_is_of_one_term_and_of_the_streams_it_is_asked_about() {
    let lens = [10; 20];
    let (arena, written) = leader(TERM, &lens);
    assert_eq!(
        survey(&arena, &sums(), OLD, &[0, 3], &Settled::default()).expect("a header").streams[1].len,
        3
    );
    let one = survey(&arena, &sums(), TERM, &[0], &Settled::default()).expect("a header");
    assert_eq!((one.streams.len(), one.streams[0].len), (1, 10));
    assert_eq!(one.csn, Csn(19), "the highest of that stream");
    assert_eq!(one.streams[0].tail[3], (3, written[6].place));
    let none = survey(&memory(SEGMENTS), &sums(), TERM, &[0], &Settled::default());
    assert!(matches!(none, Err(LineError::Arena(_))), "{none:?}");
    // A look segment by segment shows all entries of streams without a range.
    let geometry = ArenaGeometry::read(&arena, &sums()).expect("a header");
    let shown = |term, ranges: &[Range<u64>]| -> usize {
        let all = geometry.table..geometry.segments;
        all.map(|segment| entries_of(&arena, geometry, segment, term, ranges).len()).sum()
    };
    assert_eq!((shown(TERM, &[7..9, 0..6]), shown(OLD, &[])), (2 + 6, 0));
    assert_eq!(shown(TERM, &[7..u64::MAX, 4..10]), 3 + 6);
}

/// A store that takes over gives a run back unless all of its lines are there, so the run does not count
/// here.
#[test]
fn a_run_counts_if_all_of_its_lines_are_there() {
    let (arena, written) = leader(TERM, &[2_000_000, 5, 5]);
    let found = survey(&arena, &sums(), TERM, &[0, 0], &Settled::default()).expect("a header");
    assert_eq!(found.streams[0].tail, [(0, written[0].place), (1, written[2].place)]);
    let head = segment_of(written[0].place.offset);
    for segment in head..head + 2 {
        let at = line_at(segment);
        let sum = arena.load(at);
        arena.store(at, !sum);
        let found = survey(&arena, &sums(), TERM, &[0, 0], &Settled::default()).expect("a header");
        assert_eq!(
            (found.streams[0].len, &found.streams[0].beyond),
            (0, &vec![(written[2].position, written[2].place)])
        );
        arena.store(at, sum);
    }
}

/// An arena that counts copies of entries, and loads of words.
struct Counted(Mapped, AtomicU64, AtomicU64);

impl Words for Counted {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn load(&self, at: u64) -> u64 {
        if at >= SEGMENT_BYTES {
            // Relaxed: a counter of one thread.
            self.2.fetch_add(1, Ordering::Relaxed);
        }
        self.0.load(at)
    }
    fn copy_out(&self, at: u64, into: &mut [u8]) {
        if at >= SEGMENT_BYTES {
            // Relaxed: a counter of one thread.
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        self.0.copy_out(at, into);
    }
}

#[test]
fn entries_below_the_floor_are_not_read() {
    let (arena, _) = leader(TERM, &[100; 60]);
    assert_eq!(ArenaGeometry::read(&arena, &sums()).expect("a header").table, 1);
    let counted = Counted(arena, AtomicU64::new(0), AtomicU64::new(0));
    for (floors, copies) in [([30, 30], 0), ([30, 29], 2), ([0, 30], 60)] {
        // Relaxed: as above.
        counted.1.store(0, Ordering::Relaxed);
        let found = survey(&counted, &sums(), TERM, &floors, &Settled::default()).expect("a header");
        assert_eq!(found.streams.iter().map(|stream| stream.len).sum::<u64>(), 60);
        // Relaxed: as above. Each entry is first copied for its length.
        assert_eq!(counted.1.load(Ordering::Relaxed), copies);
    }
}

/// Two places have one position, which no leader writes: one of them counts.
#[test]
fn a_position_that_is_there_twice_counts_once() {
    let (arena, written) = leader(TERM, &[100; 8]);
    let room = object::Room {
        offset: SEGMENT_BYTES * 8,
        segment: 8,
        term: TERM,
        generation: 1,
        lane: segment::Lane::Write,
        class: None,
    };
    let (from, to) = (segment_of(written[0].place.offset), room.segment);
    let line = Line::read(&arena, &sums(), from).expect("sound");
    segment::write_line(&arena, &sums(), to, &Line { claim: 99, ..line });
    let returns = Arc::default();
    let new = NewEntry { key: b"k", value_len: 0, meta: EntryMeta::PUT };
    let draft = object::begin(&arena, &sums(), room, 0, &returns, new);
    let place = object::finish(&arena, &sums(), draft, Csn(50), 2);
    let found = survey(&arena, &sums(), TERM, &[0, 0], &Settled::default()).expect("a header");
    assert_eq!((found.streams[0].len, &found.streams[0].beyond), (4, &vec![(2, place)]));
    assert_eq!(found.csn, Csn(8));
    assert_eq!(arena.load(place.offset + layout::POSITION), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// Entries land one after the other, not in order and some in two parts, over entries of an older term at
    /// low positions. The follower looks ahead at any moment, and knows of fewer positions than are there.
    #[test]
    fn what_is_settled_changes_no_survey(
        lens in lens(),
        order in proptest::collection::vec(0usize..6, 60),
        parts in proptest::collection::vec(any::<u8>(), 60),
        looks in proptest::collection::vec(0u64..20_000, 60),
        lag in 0u64..3,
    ) {
        let (arena, mut left) = leader(TERM, &lens);
        let memory = follower(&arena, &lens);
        left.iter().for_each(|entry| memory.store(entry.place.offset + layout::POSITION, 0));
        let mut settled = Settled::default();
        let mut whole: Vec<Written> = Vec::new();
        for ((pick, part), look) in order.into_iter().zip(parts).zip(looks) {
            if left.is_empty() {
                break;
            }
            let entry = left.remove(pick.min(left.len() - 1));
            let floors = [0, 1].map(|stream| expected(&whole, stream, 0).len.saturating_sub(lag));
            for word in (0..8).filter(|word| part >> word & 1 != 0) {
                let at = entry.place.offset + word * 8;
                memory.store(at, arena.load(at));
            }
            settled.look(ArenaView { memory: &memory, sums: &sums() }, TERM, &floors, look, &mut ());
            copy(&arena, &memory, entry.place.offset, entry.place.len);
            whole.push(entry);
            for floors in [floors, floors.map(|floor| floor / 2)] {
                let blind = survey(&memory, &sums(), TERM, &floors, &Settled::default());
                let found = survey(&memory, &sums(), TERM, &floors, &settled);
                prop_assert_eq!(found.expect("a header"), blind.expect("a header"));
            }
        }
    }
}

#[test]
fn settled_rooms_are_passed_over_and_found_again_when_the_segment_is_claimed_anew() {
    let (arena, written) = leader(TERM, &[100; 60]);
    let counted = Counted(arena, AtomicU64::new(0), AtomicU64::new(0));
    let loads = |floors: &[u64], settled: &Settled| {
        // Relaxed: a counter of one thread.
        counted.2.store(0, Ordering::Relaxed);
        let found = survey(&counted, &sums(), TERM, floors, settled).expect("a header");
        // Relaxed: as above.
        (found.streams[0].len, counted.2.load(Ordering::Relaxed))
    };
    let mut settled = Settled::default();
    let floors = [30, 25];
    for _ in 0..200 {
        settled.look(ArenaView { memory: &counted, sums: &sums() }, TERM, &floors, 2_000, &mut ());
    }
    let (blind, sighted) = (loads(&floors, &Settled::default()), loads(&floors, &settled));
    assert_eq!((blind.0, sighted.0), (30, 30));
    assert_eq!(blind.1 - sighted.1, 2 * 55, "the mark and the position of each");
    assert_eq!(loads(&[29, 25], &settled).1, loads(&[29, 25], &Settled::default()).1 - 2 * 25);
    // The first segment has another use, with an entry where a settled one was.
    let segment = segment_of(written[0].place.offset);
    let line = Line::read(&counted.0, &sums(), segment).expect("sound");
    let line = Line { claim: line.claim + 40, generation: line.generation + 1, ..line };
    segment::write_line(&counted.0, &sums(), segment, &line);
    let room = object::Room {
        offset: written[0].place.offset,
        segment,
        term: TERM,
        generation: line.generation,
        lane: segment::Lane::Write,
        class: None,
    };
    let returns = Arc::default();
    let new = NewEntry { key: b"k", value_len: 0, meta: EntryMeta::PUT };
    let draft = object::begin(&counted.0, &sums(), room, 0, &returns, new);
    let place = object::finish(&counted.0, &sums(), draft, Csn(70), 30);
    let found = survey(&counted, &sums(), TERM, &floors, &settled).expect("a header");
    assert_eq!(found.streams[0].tail, [(30, place)]);
    let another = Term::new(8, ReplicaId(2));
    settled.look(ArenaView { memory: &counted, sums: &sums() }, another, &floors, 1 << 20, &mut ());
    let of_no_use = survey(&counted, &sums(), TERM, &[0, 0], &settled).expect("a header");
    assert_eq!(of_no_use, survey(&counted, &sums(), TERM, &[0, 0], &Settled::default()).expect("a header"));
}

#[test]
fn neither_a_survey_nor_a_store_takes_memory_for_rooms_that_nobody_wrote() {
    let (arena, written) = leader(TERM, &[100; 20]);
    let memory = memory(SEGMENTS);
    for segment in 0..SEGMENTS as u32 {
        memory.copy_in(line_at(segment), &line_bytes(&arena, segment));
    }
    // Only the last page of entries came.
    let last = written.last().expect("some").place;
    copy(&arena, &memory, last.offset, last.len);
    let segment = segment_of(last.offset);
    let (begin, end) = (segment::layout::segment_at(segment), segment::layout::segment_at(segment + 1));
    // The system is not asked about every page.
    let is_sparse = || memory.next_written((last.offset & !4095) + (32 << 10)) >= end;
    assert!(is_sparse());
    let found = survey(&memory, &sums(), TERM, &[0, 0], &Settled::default()).expect("a header");
    assert_eq!(found.streams.iter().map(|stream| stream.beyond.len()).sum::<usize>(), 1);
    assert!(is_sparse() && memory.next_written(begin) <= last.offset);
    let options = StoreOptions { term: TERM.next_of(ReplicaId(3)).expect("more"), ..StoreOptions::default() };
    let store = Store::adopt(memory.clone(), Arc::new(Budget::new(u64::MAX)), options, sums());
    let store = store.expect("an arena");
    let mut seen = 0;
    for &segment in store.adopted() {
        store.replay(segment, &mut Scratch::default(), &mut |_: EntryRef, _: &Entry<'_>| seen += 1);
    }
    assert!(is_sparse() && seen == 1);
    store.visit(segment, 0, &mut |_, _| {
        seen += 1;
        true
    });
    assert!(is_sparse() && seen == 2);
    store.visit(segment, last.offset + 1, &mut |_, _| unreachable!("nothing lies behind it"));
    // The rooms that the store takes were never used, whatever the segment was used for.
    let mut writer = Arc::new(store).writer(0);
    let place = put(&mut writer, 1_000, b"key", &[1; 100]).expect("room").0;
    let taken = segment_of(place.offset);
    let (begin, end) = (segment::layout::segment_at(taken), segment::layout::segment_at(taken + 1));
    assert!(taken != segment && memory.next_written(begin + (32 << 10)) >= end);
}

/// A room of the running term whose memory was not written yet may be filled later, by an entry of a later
/// position: a look must not pass it over.
#[test]
fn a_look_waits_for_a_room_that_is_filled_out_of_turn() {
    struct Told(Vec<u64>);
    impl SettledWatcher for Told {
        fn entry(&mut self, _: u32, _: &Line, _: EntryRef, entry: &Entry<'_>) -> bool {
            self.0.push(entry.position);
            true
        }

        fn over(&mut self, _: u32) {}
    }
    let store = store(SEGMENTS, StoreOptions { term: TERM, ..StoreOptions::default() });
    let mut writer = store.writer(0);
    // Rooms of several pages each.
    let mut drafts: Vec<_> =
        (0..3).map(|i| writer.draft(&[i], &[i; 20_000], EntryMeta::PUT).expect("room")).collect();
    let last = drafts.remove(1);
    let mut places: Vec<_> =
        drafts.into_iter().zip(1..).map(|(draft, csn)| writer.finish(draft, Csn(csn))).collect();
    places.push(writer.finish(last, Csn(3)));
    let memory = memory(SEGMENTS);
    for segment in 0..SEGMENTS as u32 {
        memory.copy_in(line_at(segment), &line_bytes(store.memory(), segment));
    }
    let (mut settled, mut told) = (Settled::default(), Told(Vec::new()));
    for (place, floor) in places.iter().zip(1u64..) {
        copy(store.memory(), &memory, place.offset, place.len);
        settled.look(ArenaView { memory: &memory, sums: &sums() }, TERM, &[floor], 1 << 20, &mut told);
    }
    settled.look(ArenaView { memory: &memory, sums: &sums() }, TERM, &[3], 1 << 20, &mut told);
    assert_eq!(told.0, [0, 2, 1], "in the order of their rooms");
}
