//! Releases, and when they happen: tombstones below the watermark, and segments that followers were asked
//! about.

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
    let large = put(&mut writer, 14, b"large", &vec![0; 3 << 20]).expect("room");
    assert_eq!(store.watermark_without(segment_of(tombstone.0.offset)), Some(Csn(13)));
    assert!(may_go(tombstone));
    // A tombstone in a younger segment hides entries that may be in the older one, until that is reclaimed.
    store.supersede(tombstone.0, tombstone.1);
    let younger = {
        let draft = writer.draft(&[8; 300], b"", EntryMeta::TOMBSTONE).expect("room");
        (writer.finish(draft, Csn(15)), Csn(15))
    };
    store.set_stable(Csn(15));
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
