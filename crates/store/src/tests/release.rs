//! Releases, and when they happen: tombstones below the watermark, and segments that followers were asked
//! about.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::segment::layout::segment_of;

const QUARANTINE: Nanos = Nanos::from_millis(50);

/// Writes a tombstone.
fn delete(writer: &mut Writer<Mapped>, csn: u64, key: &[u8]) -> Slot {
    let draft = writer.draft(key, b"", EntryMeta::TOMBSTONE).expect("room");
    (writer.finish(draft, Csn(csn)), Csn(csn))
}

#[test]
fn a_tombstone_may_go_when_nothing_it_hides_can_come_back() {
    let store = store(12, StoreOptions::default());
    let mut writer = store.writer(0);
    let may_go = |slot: Slot| store.tombstone_may_go(slot.0, slot.1);
    store.set_stable(Csn(10));
    let old = put(&mut writer, 11, b"key", b"value").expect("room");
    let tombstone = delete(&mut writer, 13, b"key");
    assert_eq!(segment_of(old.0.offset), segment_of(tombstone.0.offset));
    store.supersede(old.0, old.1);
    // Version 12 is under way, perhaps of this key.
    store.set_stable(Csn(11));
    assert!(!may_go(tombstone), "an older write is under way");
    store.set_stable(Csn(13));
    assert!(may_go(tombstone), "alone with what it hides: they go together");
    // A segment that was claimed from then on holds no older entry of the key: equality is enough.
    put(&mut writer, 14, b"another class", &[0; 3000]).expect("room");
    assert_eq!(store.watermark_without(segment_of(tombstone.0.offset)), Some(Csn(13)));
    assert!(may_go(tombstone));
    // Nor does a run whose one entry is an item, however old.
    let large = put(&mut writer, 15, b"large", &vec![0; 3 << 20]).expect("room");
    let aside = segment_of(tombstone.0.offset);
    store.set_stable(Csn(15));
    assert_eq!(store.watermark_without(aside), Some(Csn(13)));
    // A tombstone in a younger segment hides entries that may be in the older one, until that is reclaimed.
    store.supersede(tombstone.0, tombstone.1);
    let younger = {
        let draft = writer.draft(&[8; 300], b"", EntryMeta::TOMBSTONE).expect("room");
        (writer.finish(draft, Csn(16)), Csn(16))
    };
    store.set_stable(Csn(16));
    assert!(!may_go(younger), "the older segments were claimed before it was applied");
    // A run counts as one: none of its segments counts when it is left aside.
    let head = segment_of(large.0.offset);
    store.supersede(large.0, large.1);
    for segment in head..head + 4 {
        assert_eq!(store.watermark_without(segment), Some(Csn(10)));
    }
    writer.seal_all();
    let mut collector = Collector::new(store.clone());
    collector.next_work(Nanos(0), 0);
    assert!(!may_go(younger), "in quarantine nothing is reclaimed yet");
    collector.next_work(QUARANTINE, 0);
    assert_eq!(store.watermark_without(segment_of(younger.0.offset)), None);
    assert!(may_go(younger));
    assert_sound(&store);
}

/// The run that an entry was in is dead, and still there: what it holds would come back.
#[test]
fn a_tombstone_outlives_the_run_that_it_hides() {
    let store = store(12, StoreOptions::default());
    let mut writer = store.writer(0);
    store.set_stable(Csn(10));
    let large = put(&mut writer, 11, b"key", &vec![0; 3 << 20]).expect("room");
    store.set_stable(Csn(11));
    let tombstone = delete(&mut writer, 12, b"key");
    store.supersede(large.0, large.1);
    store.set_stable(Csn(12));
    assert!(!store.tombstone_may_go(tombstone.0, tombstone.1));
    let mut collector = Collector::new(store.clone());
    collector.next_work(Nanos(0), 0);
    assert!(!store.tombstone_may_go(tombstone.0, tombstone.1), "in quarantine");
    collector.next_work(QUARANTINE, 0);
    assert!(store.tombstone_may_go(tombstone.0, tombstone.1));
}

/// Items of all kinds: such that nobody overwrites, a tenth that was, and one that has a run.
fn items_that_stay(writer: &mut Writer<Mapped>, next: &mut impl FnMut() -> u64) -> BTreeMap<Vec<u8>, Slot> {
    let mut items = BTreeMap::new();
    for i in 0..4_000u64 {
        // Two of another class leave a segment open that nobody fills.
        let len = if i % 2_000 == 7 { 20_000 } else { 1_000 };
        let key = i.to_le_bytes();
        items.insert(key.to_vec(), put(writer, next(), &key, &vec![1; len]).expect("room"));
    }
    items.insert(b"run".to_vec(), put(writer, next(), b"run", &vec![1; 2 << 20]).expect("room"));
    // No segment is worth collecting for these.
    for i in (0..4_000u64).step_by(10) {
        let key = i.to_le_bytes();
        let newer = put(writer, next(), &key, &[1; 1_000]).expect("room");
        let (place, csn) = items.insert(key.to_vec(), newer).expect("it was there");
        writer.store().supersede(place, csn);
    }
    items
}

/// Puts and deletes a key; returns the tombstone.
fn come_and_go(writer: &mut Writer<Mapped>, next: &mut impl FnMut() -> u64) -> Slot {
    let item = put(writer, next(), b"it comes and goes", &[1; 300]).expect("room");
    let tombstone = delete(writer, next(), b"it comes and goes");
    writer.store().supersede(item.0, item.1);
    writer.store().set_stable(tombstone.1);
    tombstone
}

/// Beside items that stay, keys come and go.
#[test]
fn tombstones_go_when_the_oldest_segments_are_emptied() {
    let budget = Arc::new(Budget::new(32 * SEGMENT_BYTES));
    let store = Arc::new(Store::create(memory(33), budget, StoreOptions::default(), sums()).expect("fits"));
    let mut writer = store.writer(0);
    let mut csn = 0;
    let mut next = || {
        csn += 1;
        csn
    };
    let mut items = items_that_stay(&mut writer, &mut next);
    let mut tombstones: BTreeSet<Slot> = (0..2_000).map(|_| come_and_go(&mut writer, &mut next)).collect();
    let began = store.stable();
    let mut collector = Collector::new(store.clone());
    // Segments with older entries stay, so no review helps, but one of what came after they are empty.
    let (mut now, mut moves) = (Nanos(0), 0);
    let mut round = |tombstones: &mut BTreeSet<Slot>, collector: &mut Collector<Mapped>| {
        if collector.reviews() {
            writer.seal_all();
        }
        now = now + QUARANTINE;
        assert!(now < Nanos::from_millis(10_000), "the watermark stays at {:?}", store.watermark());
        writer.seal_old();
        let mut bytes = Vec::new();
        loop {
            let (place, csn, moved) = match collector.next_work(now, 8) {
                Work::Review { place, csn } => (place, csn, false),
                Work::Move { place, csn } => (place, csn, true),
                Work::Again => continue,
                _ => return,
            };
            if tombstones.contains(&(place, csn)) && store.tombstone_may_go(place, csn) {
                tombstones.remove(&(place, csn));
                store.supersede(place, csn);
            } else if moved {
                moves += 1;
                let entry = store.read(place, csn, &mut bytes).expect("a live entry verifies");
                let draft = writer.draft_move(&entry).expect("room");
                let slot = (writer.finish(draft, csn), csn);
                if tombstones.remove(&(place, csn)) {
                    tombstones.insert(slot);
                } else {
                    *items.get_mut(entry.key).expect("an item") = slot;
                }
                store.supersede(place, csn);
            }
        }
    };
    collector.review();
    round(&mut tombstones, &mut collector);
    assert!(!collector.reviews() && tombstones.len() > 1_900, "{} stay of 2,000", tombstones.len());
    collector.empty_before(Some(began));
    while store.watermark().is_some_and(|oldest| oldest < began) {
        round(&mut tombstones, &mut collector);
    }
    collector.empty_before(None);
    collector.review();
    round(&mut tombstones, &mut collector);
    assert!(tombstones.is_empty(), "{} tombstones stay of 2,000", tombstones.len());
    assert!(moves < 10_000, "{moves} moves: once around");
    let mut bytes = Vec::new();
    for (key, (place, csn)) in &items {
        assert_eq!(store.read(*place, *csn, &mut bytes).expect("an item").key, &key[..]);
    }
    assert_sound(&store);
}

/// A moved tombstone stays a tombstone, in a segment that hides no less than before.
#[test]
fn a_moved_tombstone_is_judged_where_it_is_now() {
    let store = store(12, StoreOptions::default());
    let mut writer = store.writer(0);
    let old = put(&mut writer, 1, b"key", b"value").expect("room");
    let (place, csn) = delete(&mut writer, 2, b"key");
    store.supersede(old.0, old.1);
    store.set_stable(Csn(2));
    assert!(store.tombstone_may_go(place, csn));
    let mut bytes = Vec::new();
    let entry = store.read(place, csn, &mut bytes).expect("whole");
    let draft = writer.draft_move(&entry).expect("room");
    let copy = writer.finish(draft, csn);
    store.supersede(place, csn);
    assert_ne!(segment_of(copy.offset), segment_of(place.offset));
    assert!(!store.tombstone_may_go(copy, csn), "what it hides is still stored, and goes without it");
    writer.seal_all();
    let mut collector = Collector::new(store.clone());
    collector.next_work(Nanos(0), 0);
    collector.next_work(QUARANTINE, 0);
    assert!(store.tombstone_may_go(copy, csn));
}

#[test]
fn a_dead_segment_is_offered_once_and_waits_until_it_is_released() {
    let options = StoreOptions { ask_release: true, ..StoreOptions::default() };
    let budget = Arc::new(Budget::new(u64::MAX));
    let store = Arc::new(Store::create(memory(12), budget.clone(), options, sums()).expect("fits"));
    let before = budget.used();
    let mut writer = store.writer(0);
    let small = put(&mut writer, 1, b"small", b"value").expect("room");
    let large = put(&mut writer, 2, b"large", &vec![3; 3 << 20]).expect("room");
    let kept = put(&mut writer, 3, b"kept", &[4; 5000]).expect("room");
    writer.seal_all();
    for (place, csn) in [small, large] {
        assert!(store.supersede(place, csn));
    }
    let mut collectors = [Collector::new(store.clone()), Collector::new(store.clone())];
    assert_eq!(collectors[0].next_work(Nanos(0), 0), Work::Idle(Some(QUARANTINE)));
    assert_eq!(collectors[1].next_work(Nanos(0), 0), Work::Idle(Some(QUARANTINE)));
    let head = segment_of(large.0.offset);
    let asked = [
        Work::Release { segment: segment_of(small.0.offset), run: 1, generation: 1 },
        Work::Release { segment: head, run: 4, generation: 1 },
    ];
    for (collector, asked) in collectors.iter_mut().zip(asked) {
        assert_eq!(collector.next_work(QUARANTINE, 0), asked);
    }
    for collector in &mut collectors {
        assert_eq!(collector.next_work(QUARANTINE + QUARANTINE, 0), Work::Idle(None), "each is offered once");
    }
    // No writer may have them meanwhile, and they count as in use.
    let waiting = store.counters();
    assert_eq!((waiting.quarantined, waiting.sealed, waiting.free), (5, 1, 5));
    assert_eq!(store.watermark(), Some(Csn(0)));
    assert!(put(&mut writer, 4, b"larger", &vec![5; 5 << 20]).is_err(), "too few are free");
    assert_sound(&store);
    store.released(head);
    assert_eq!((store.counters().quarantined, store.counters().free), (1, 9));
    assert_sound(&store);
    store.released(segment_of(small.0.offset));
    assert_eq!((store.counters().quarantined, budget.used()), (0, before + SEGMENT_BYTES));
    let report = assert_sound(&store);
    assert_eq!(report.total.live_entries, 1);
    put(&mut writer, 4, b"larger", &vec![5; 5 << 20]).expect("room again");
    assert!(store.supersede(kept.0, kept.1));
}

#[test]
#[should_panic(expected = "was not asked about")]
fn releasing_what_was_not_offered_is_a_crash() {
    let store = store(8, StoreOptions { ask_release: true, ..StoreOptions::default() });
    let mut writer = store.writer(0);
    let (place, csn) = put(&mut writer, 1, b"key", b"value").expect("room");
    writer.seal_all();
    store.supersede(place, csn);
    let mut collector = Collector::new(store.clone());
    collector.next_work(Nanos(0), 0);
    store.released(segment_of(place.offset));
}
