//! What goes, and when: tombstones below the watermark, and segments that followers were asked about.

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
    // What was claimed from then on holds nothing older of the key: equality is enough.
    let large = put(&mut writer, 14, b"large", &vec![0; 3 << 20]).expect("room");
    assert_eq!(store.watermark_without(segment_of(tombstone.0.offset)), Some(Csn(13)));
    assert!(may_go(tombstone));
    // A tombstone in a younger segment hides what may be in the older one, until that is reclaimed.
    store.supersede(tombstone.0, tombstone.1);
    let younger = {
        let draft = writer.draft(&[8; 300], b"", EntryMeta::TOMBSTONE).expect("room");
        (writer.finish(draft, Csn(15)), Csn(15))
    };
    store.set_stable(Csn(15));
    assert!(!may_go(younger), "the older segments were claimed before it was applied");
    // A run is one: none of its segments counts when it is left aside.
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

/// A tombstone that collection moves stays one, in a segment that hides no less than before.
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
