//! Filling, freeing, limits, and the findings of verify.

use std::collections::BTreeMap;

use longarm_base::UnixMillis;
use longarm_base::limits::VALUE_MAX;
use longarm_memory::{OwnedWords, Words};

use super::*;
use crate::object::layout;
use crate::segment::SegmentState;

const QUARANTINE: Nanos = Nanos::from_millis(50);

#[test]
fn an_arena_that_cannot_be_is_refused_with_a_reason() {
    let create = |memory: Mapped, limit: u64, options| {
        Store::create(memory, Arc::new(Budget::new(limit)), options, sums()).map(|_| ()).unwrap_err()
    };
    let options = StoreOptions::default();
    assert!(matches!(create(memory(3), u64::MAX, options), CreateStoreError::Size { least: 4, .. }));
    let small = create(memory(8), SEGMENT_BYTES, options);
    assert!(small.to_string().contains("raise the limit"), "{small}");
    assert_eq!(
        create(memory(8), u64::MAX, StoreOptions { streams: 0, ..options }),
        CreateStoreError::Streams
    );
    let used = memory(8);
    used.store(8, 1);
    assert_eq!(create(used, u64::MAX, options), CreateStoreError::NotEmpty);
}

#[test]
fn what_no_entry_can_be_is_refused() {
    let store = store(8, StoreOptions::default());
    let mut writer = store.writer(0);
    let mut draft = |key: &[u8], len| writer.draft_streamed(key, len, EntryMeta::PUT).map(drop);
    assert_eq!(draft(b"", 1), Err(DraftError::Key(0)));
    assert_eq!(draft(&[0; 1025], 1), Err(DraftError::Key(1025)));
    assert_eq!(draft(b"k", VALUE_MAX + 1), Err(DraftError::Value(VALUE_MAX + 1)));
    assert!(matches!(draft(b"k", VALUE_MAX), Err(DraftError::Full(StoreFull::Segments { total: 8 }))));
    let mut bytes = Vec::new();
    for (offset, len) in
        [(u64::MAX - 63, 64), (0, 64), (SEGMENT_BYTES + 8, 64), (8 * SEGMENT_BYTES - 64, 128)]
    {
        let place = EntryRef { offset, len };
        assert_eq!(store.read(place, Csn(1), &mut bytes), Err(EntryError::Outside { offset, len }));
    }
}

#[test]
fn the_largest_value_arrives_in_pieces_and_goes_again() {
    let store = store(70, StoreOptions { pool: 0, ..StoreOptions::default() });
    let mut writer = store.writer(0);
    let value: Vec<u8> =
        (0..VALUE_MAX as u32 / 4).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut draft = writer.draft_streamed(b"a large one", value.len(), EntryMeta::PUT).expect("room");
    for (i, piece) in value.chunks(333_331).enumerate() {
        writer.fill(&mut draft, i as u64 * 333_331, piece).expect("in order");
    }
    let place = writer.finish(draft, Csn(1));
    let mut bytes = Vec::new();
    assert!(store.read(place, Csn(1), &mut bytes).expect("whole").value == value);
    assert_eq!(store.read(place, Csn(2), &mut bytes).unwrap_err(), EntryError::Other(Csn(1)));
    assert_eq!(store.counters().used_bytes, 65 * SEGMENT_BYTES);
    let full = writer.draft(b"k", &vec![0; 3 << 20], EntryMeta::PUT).unwrap_err();
    assert!(full.to_string().contains("out of memory"), "{full}");
    assert_eq!(assert_sound(&store).states[SegmentState::RunBody as usize], 64);
    // The dead segment waits for the readers, and then all of it is free.
    assert!(store.supersede(place, Csn(1)) && !store.supersede(place, Csn(1)));
    let mut collector = Collector::new(store.clone());
    assert_eq!(collector.next_work(Nanos(5), 50), Work::Idle(Some(Nanos(5) + QUARANTINE)));
    assert_eq!(store.counters().quarantined, 65);
    assert_sound(&store);
    assert_eq!(collector.next_work(Nanos(5) + QUARANTINE, 50), Work::Again);
    assert_eq!(store.counters().free, 69);
    assert_sound(&store);
    assert_eq!(store.memory().load(place.offset), 0, "its pages were given back");
    put(&mut writer, 2, b"k", &vec![1; 3 << 20]).expect("room again");
    assert_sound(&store);
}

/// Entries of one size fill the store, and half are deleted: collection works out of its reserve, and writes
/// continue.
#[test]
fn collection_never_starves() {
    let limit = 12 * SEGMENT_BYTES;
    let budget = Arc::new(Budget::new(limit));
    let options = StoreOptions { reserve: 1, ..StoreOptions::default() };
    let store = Arc::new(Store::create(memory(40), budget.clone(), options, sums()).expect("fits"));
    let mut writer = store.writer(0);
    let mut collector = Collector::new(store.clone());
    let mut index: BTreeMap<Vec<u8>, Slot> = BTreeMap::new();
    let (mut csn, mut now) = (0, Nanos(0));
    for round in 0..5 {
        let full = loop {
            csn += 1;
            let key = format!("key {csn}").into_bytes();
            match put(&mut writer, csn, &key, &[round; 5000]) {
                Ok(slot) => index.insert(key, slot),
                Err(full) => break full,
            };
        };
        assert!(matches!(full, DraftError::Full(StoreFull::Budget { limit: l, .. }) if l == limit), "{full}");
        let before = store.counters();
        assert_eq!((before.entries as usize, before.reserve), (index.len(), 1));
        let mut even = 0;
        index.retain(|_, slot| {
            even += 1;
            even % 2 == 0 || !store.supersede(slot.0, slot.1)
        });
        for _ in 0..20 {
            now = now + QUARANTINE;
            collect(&mut collector, &mut writer, now, 60, &mut |key, from, to| {
                index.get_mut(key).is_some_and(|slot| *slot == from && std::mem::replace(slot, to) == from)
            });
        }
        let after = store.counters();
        assert!(after.used_bytes < before.used_bytes * 3 / 4, "{before:?} {after:?}");
        assert_eq!(after.reserve, 1, "the reserve is filled up first: {after:?}");
        assert_sound(&store);
    }
    let mut bytes = Vec::new();
    for (key, (place, csn)) in &index {
        assert_eq!(store.read(*place, *csn, &mut bytes).expect("whole").key, key);
    }
    assert!(budget.used() <= limit);
}

/// Found by deletes of long keys in a full group: copies and tombstones had taken the whole reserve. Dead
/// segments held records that a session might still ask for, which had no place to go, so none was freed.
#[test]
fn copies_and_tombstones_leave_the_last_segment_to_records() {
    let budget = Arc::new(Budget::new(12 * SEGMENT_BYTES));
    let options = StoreOptions { reserve: 3, records: 1, ..StoreOptions::default() };
    let store = Arc::new(Store::create(memory(40), budget, options, sums()).expect("fits"));
    let mut writer = store.writer(0);
    let mut csn = 0;
    while put(&mut writer, csn + 1, b"key", &[1; 5000]).is_ok() {
        csn += 1;
    }
    let tombstone = EntryMeta::of(EntryKind::Tombstone);
    while let Ok(draft) = writer.draft_kept(&[b'k'; 1000], &[], tombstone) {
        csn += 1;
        writer.finish(draft, Csn(csn));
    }
    assert_eq!(store.counters().reserve, 1, "no copy and no tombstone takes it");
    let record = EntryMeta::of(EntryKind::Noop).by(OperationId { id: 7, operation: 9 });
    let mut records = 0;
    while let Ok(draft) = writer.draft_record(b"1", record) {
        (csn, records) = (csn + 1, records + 1);
        writer.finish(draft, Csn(csn));
    }
    assert!(records >= SEGMENT_BYTES / 128, "{records} found a place");
    assert_eq!(store.counters().reserve, 0);
    assert_sound(&store);
}

/// Entries are superseded in many segments while freed memory comes back late. The segments that collection
/// begins with are nearly as full as is still worth it.
#[test]
fn copies_are_not_spread_over_segments_that_stay() {
    for seed in 0..60u64 {
        let budget = Arc::new(Budget::new(16 * SEGMENT_BYTES));
        let options = StoreOptions { reserve: 2, ..StoreOptions::default() };
        let store = Arc::new(Store::create(memory(40), budget, options, sums()).expect("fits"));
        let mut writer = store.writer(0);
        let mut collector = Collector::new(store.clone());
        let mut index: BTreeMap<Vec<u8>, Slot> = BTreeMap::new();
        let mut csn = 0;
        while let Ok(slot) = put(&mut writer, csn + 1, &csn.to_le_bytes(), &[1; 2000]) {
            index.insert(csn.to_le_bytes().to_vec(), slot);
            csn += 1;
        }
        let before = store.counters();
        let mut random = seed;
        for step in 1..4000 {
            let now = Nanos(QUARANTINE.0 * step / (20 << (seed % 4)));
            if store.counters().live_bytes > before.live_bytes * 6 / 10 {
                index.retain(|_, slot| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    random >> (52 + seed % 9) > 0 || !store.supersede(slot.0, slot.1)
                });
            }
            collect(&mut collector, &mut writer, now, 60, &mut |key, from, to| {
                index.get_mut(key).is_some_and(|slot| *slot == from && std::mem::replace(slot, to) == from)
            });
        }
        let after = store.counters();
        assert_eq!(after.reserve, 2, "{seed} {before:?} {after:?}");
        assert!(after.used_bytes < before.used_bytes * 9 / 10, "{seed} {before:?} {after:?}");
        assert_sound(&store);
    }
}

#[test]
fn a_kilobyte_costs_at_most_fifteen_percent_more() {
    let store = store(64, StoreOptions { streams: 2, ..StoreOptions::default() });
    let mut writers = [store.writer(0), store.writer(1)];
    for i in 0..40_000u64 {
        put(&mut writers[i as usize % 2], i + 1, format!("{i:016}").as_bytes(), &[1; 1024]).expect("room");
    }
    let used = store.counters().used_bytes as f64 / (40_000.0 * 1040.0);
    assert!(used < 1.15, "{used}");
}

/// Four writers write all sizes at once in a store of 64 MiB. With collection more than half of it holds data
/// before a write is refused for good, although each writer needs segments of many classes.
#[test]
fn a_small_store_is_not_used_up_by_open_segments() {
    let store = store(64, StoreOptions { streams: 4, ..StoreOptions::default() });
    let mut writers: Vec<_> = (0..4).map(|i| store.writer(i)).collect();
    let mut collector = Collector::new(store.clone());
    let (mut csn, mut now, mut before_refusal) = (0, Nanos(0), 0);
    'full: for i in 0.. {
        for w in 0..4 {
            csn += 1;
            let value = vec![2; (1usize << (i * 7 % 18)) + i % 13];
            let mut refused = 0;
            while put(&mut writers[w], csn, &[1; 16], &value).is_err() {
                if before_refusal == 0 {
                    before_refusal = store.counters().live_bytes;
                }
                refused += 1;
                if refused == 20 {
                    break 'full;
                }
                now = now + QUARANTINE;
                collect(&mut collector, &mut writers[0], now, 30, &mut |_, _, _| true);
            }
        }
    }
    let counters = store.counters();
    assert!(before_refusal > 20 * SEGMENT_BYTES, "{before_refusal} bytes before the first refusal");
    assert!(counters.live_bytes > 34 * SEGMENT_BYTES && counters.reserve == 2, "{counters:?}");
    assert_sound(&store);
}

#[test]
fn rooms_of_dropped_drafts_are_used_again() {
    let store = store(8, StoreOptions::default());
    let mut writer = store.writer(0);
    let first = writer.draft(b"a", b"1", EntryMeta::PUT).expect("room");
    let second = writer.draft(b"b", b"2", EntryMeta::PUT).expect("room");
    assert_eq!(store.counters().drafts, 2);
    drop(first);
    let b = writer.finish(second, Csn(1));
    let (c, _) = put(&mut writer, 2, b"c", b"3").expect("room");
    assert!(c.offset < b.offset, "the room of the dropped draft");
    assert_eq!(assert_sound(&store).total.unfinished, 0);
    // The stream continues where its last writer left it.
    drop(writer);
    let mut writer = store.writer(0);
    let (d, csn) = put(&mut writer, 3, b"d", b"4").expect("room");
    let mut bytes = Vec::new();
    assert_eq!(store.read(d, csn, &mut bytes).expect("whole").position, 2);
    assert_eq!(store.counters().active, 1);
    // A draft that outlives its segment's seal keeps the segment from dying.
    let late = writer.draft(b"e", b"5", EntryMeta::PUT).expect("room");
    for (place, csn) in [(b, 1), (c, 2), (d, 3)] {
        store.supersede(place, Csn(csn));
    }
    writer.seal_all();
    let mut collector = Collector::new(store.clone());
    assert_eq!(collector.next_work(Nanos(0), 100), Work::Idle(None));
    writer.abandon(late);
    assert!(matches!(collector.next_work(Nanos(0), 100), Work::Idle(Some(_))));
    assert_eq!(store.counters().quarantined, 1);
    assert_sound(&store);
}

/// Copies take whole rooms, which are up to half larger than large entries. Found by the simulator: a server
/// with two values of 360 KiB in each segment copied them over and over again once memory was short, and each
/// segment that was freed went to the next copies, and never to a write.
#[test]
fn a_segment_that_copies_would_fill_again_is_left() {
    let store = store(5, StoreOptions::default());
    let mut writer = store.writer(0);
    let written = |csn| put(&mut writer, csn, b"large", &vec![1; 360 << 10]).ok();
    let places: Vec<_> = (1..).map_while(written).collect();
    assert_eq!(places.len() % 2, 0, "segments of two each");
    writer.seal_all();
    let mut collector = Collector::new(store.clone());
    assert_eq!(collector.next_work(Nanos(0), 95), Work::Idle(None));
    // Half of a segment is worth it.
    let (at, csn) = places[0];
    assert!(store.supersede(at, csn));
    let (place, csn) = places[1];
    assert_eq!(collector.next_work(Nanos(1 << 40), 95), Work::Move { place, csn });
}

/// A writer that finds no segment cannot seal those of another, and one that rests does not know of it.
#[test]
fn all_writers_seal_what_holds_little_when_one_finds_no_segment() {
    for evicts in [false, true] {
        let store = store(16, StoreOptions { streams: 3, evicts, ..StoreOptions::default() });
        let [mut one, mut other, mut mover] = [0, 1, 2].map(|stream| store.writer(stream));
        let mut small = Vec::new();
        for (csn, len) in (1..).zip([64, 1 << 10, 1 << 14, 1 << 17]) {
            small.push(put(&mut other, csn, b"small", &vec![1; len]).expect("room"));
        }
        let draft = mover.draft_kept(b"copy", b"value", EntryMeta::PUT).expect("room");
        mover.finish(draft, Csn(5));
        let large = |one: &mut _, csn| put(one, csn, b"large", &vec![1; 600_000]);
        let count = (10..).take_while(|&csn| large(&mut one, csn).is_ok()).count();
        assert_eq!((count, store.counters().active), (8, 5));
        small.into_iter().for_each(|(at, csn)| assert!(store.supersede(at, csn)));
        let mut collector = Collector::new(store.clone());
        assert_eq!(collector.next_work(Nanos(0), 8), Work::Idle(None));
        [&mut one, &mut other, &mut mover].into_iter().for_each(Writer::seal_old);
        // What collection filled is taken apart again only where it can be evicted.
        let StoreCounters { active, quarantined, .. } = (collector.free(Nanos(0)), store.counters()).1;
        assert_eq!((active, quarantined), (u32::from(!evicts), 4));
        assert_eq!(collector.free(QUARANTINE), Work::Again);
        large(&mut one, 100).expect("room");
        assert_sound(&store);
    }
}

#[test]
fn a_move_keeps_everything_but_its_position() {
    let store = store(8, StoreOptions::default());
    let mut writer = store.writer(0);
    let session = OperationId { id: 3, operation: 4 };
    let meta = EntryMeta::of(EntryKind::Tombstone).expiring(UnixMillis(77)).by(session);
    for meta in [meta, EntryMeta::PUT.expiring(UnixMillis(9))] {
        let draft = writer.draft(b"k", b"value", meta).expect("room");
        let place = writer.finish(draft, Csn(1));
        let mut bytes = Vec::new();
        let entry = store.read(place, Csn(1), &mut bytes).expect("whole");
        let draft = writer.draft_move(&entry).expect("room");
        let copy = writer.finish(draft, Csn(1));
        let mut copied = Vec::new();
        let found = store.read(copy, Csn(1), &mut copied).expect("whole");
        let kind = if meta.kind == EntryKind::Put { EntryKind::Move } else { EntryKind::Tombstone };
        let wanted = Entry { kind, moved: true, position: entry.position + 1, ..entry };
        assert_eq!(found, Entry { generation: found.generation, ..wanted });
        assert_eq!(found.kind.is_value(), meta.kind == EntryKind::Put);
        // A moved entry that is moved again stays one.
        let draft = writer.draft_move(&found).expect("room");
        let again = writer.finish(draft, Csn(1));
        assert_eq!(store.read(again, Csn(1), &mut Vec::new()).expect("whole").kind, kind);
    }
}

#[test]
fn tombstones_may_go_below_the_oldest_claim() {
    let store = store(8, StoreOptions::default());
    let mut writer = store.writer(0);
    assert_eq!(store.watermark(), None);
    store.set_stable(Csn(10));
    let (small, csn) = put(&mut writer, 11, b"k", b"v").expect("room");
    store.set_stable(Csn(20));
    store.set_stable(Csn(15));
    put(&mut writer, 21, b"k", &[0; 1000]).expect("room");
    assert_eq!(store.watermark(), Some(Csn(10)));
    store.supersede(small, csn);
    writer.seal_all();
    let mut collector = Collector::new(store.clone());
    collector.next_work(Nanos(0), 0);
    assert_eq!(store.watermark(), Some(Csn(10)), "in quarantine it is not reclaimed");
    collector.next_work(QUARANTINE, 0);
    assert_eq!(store.watermark(), Some(Csn(20)));
}

#[test]
fn verify_names_what_is_wrong() {
    let store = store(16, StoreOptions::default());
    let mut writer = store.writer(0);
    let (small, _) = put(&mut writer, 1, b"small", b"value").expect("room");
    let (large, _) = put(&mut writer, 2, b"large", &vec![3; 3 << 20]).expect("room");
    assert_sound(&store);
    let words = store.memory().clone();
    let line = |segment: u64| segment * LINE;
    let segment = |place: EntryRef| place.offset / SEGMENT_BYTES;
    let cases = [
        (small.offset + 48, "checksum does not hold"),
        (small.offset + layout::MARK, "checksum does not hold"),
        (small.offset + 64, "Torn|out of range|says|checksum"),
        (small.offset + layout::LENGTHS, "says|out of range|checksum"),
        (line(segment(small)) + 8, "the checksum of its line"),
        (line(segment(small)) + 40, "the checksum of its line"),
        (line(segment(small)) + 48, "tail out of range"),
        (line(segment(large)) + 16, "the checksum of its line"),
        (line(segment(large) + 1) + 16, "is not body 1"),
        (8, "magic"),
        (24, "header does not hold"),
    ];
    for (at, wanted) in cases {
        let before = words.load(at);
        words.store(at, before ^ 0x0101_0101_0101_0101);
        let report = store.check();
        let named = report.problems.iter().any(|p| wanted.split('|').any(|w| p.contains(w)));
        assert!(named, "{at:#x}: {wanted}: {:?}", report.problems);
        words.store(at, before);
        assert_sound(&store);
    }
    // The bit alone is set, without the store knowing, so the accounting is wrong.
    let mark = words.load(small.offset + layout::MARK);
    words.store(small.offset + layout::MARK, mark | layout::SUPERSEDED);
    assert!(store.check().problems.iter().any(|p| p.contains("accounted")));
    assert!(verify(&words, &sums()).is_sound(), "the bytes alone are fine");
    assert!(!verify(&words, &SumKey::new(1)).is_sound(), "another key");
    assert!(!verify(&memory(3), &sums()).is_sound(), "no arena");
}

/// An inspector walks the arena while its owner writes, seals, collects and reuses: it reports no false
/// problem.
#[test]
fn a_live_arena_verifies_while_it_changes() {
    let store = store(12, StoreOptions { quarantine: Nanos(1), ..StoreOptions::default() });
    let written = sync::Counter::default();
    let done = || written.get() >= 5_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = store.writer(0);
            let mut collector = Collector::new(store.clone());
            let mut slots = std::collections::VecDeque::new();
            for csn in 1..=5_000 {
                let len = [300, 3_000, 90_000, 1_300_000][csn as usize % 97 % 4] + csn as usize % 50;
                slots.extend(put(&mut writer, csn, b"key", &vec![csn as u8; len]));
                if slots.len() > 8 {
                    let (place, csn): Slot = slots.pop_front().expect("nine of them");
                    store.supersede(place, csn);
                }
                if csn % 50 == 0 {
                    writer.seal_all();
                }
                collector.next_work(Nanos(csn * 10), 0);
                written.set(csn);
            }
        });
        while !done() {
            let report = verify(store.memory(), &sums());
            assert!(report.is_sound(), "{:#?}", report.problems);
        }
    });
    assert_sound(&store);
}
