//! Reuse of segments: crafted leftovers, wrapping generations, and every cut of a READ across a reuse.

use longarm_memory::{Journal, OwnedWords, Words};

use super::*;
use crate::object::layout;
use crate::segment::layout::segment_at;

/// Supersedes, seals and frees the entries at `slots`, so that the writer's next segment is the one it had.
fn recycle<M: OwnedWords>(store: &Arc<Store<M>>, writer: &mut Writer<M>, slots: &[Slot]) {
    for (place, csn) in slots {
        store.supersede(*place, *csn);
    }
    writer.seal_all();
    let mut collector = Collector::new(store.clone());
    collector.next_work(Nanos(0), 0);
    assert_eq!(collector.next_work(store.options.quarantine, 0), Work::Again);
}

/// A client that knows the checksum key fills its value with entries that verify, each at its own place and
/// under the generation that comes next (L4). After reuse none of them is an entry of the store.
#[test]
fn crafted_leftovers_never_become_entries() {
    let store = store(8, StoreOptions::default());
    let mut writer = store.writer(0);
    let base = segment_at(store.table);
    // A second store hands out the same rooms one generation later: its bytes are the forgeries.
    let forge = super::store(8, StoreOptions::default());
    let mut forger = forge.writer(0);
    let first = put(&mut forger, 1, b"x", b"x").expect("room");
    recycle(&forge, &mut forger, &[first]);
    for i in 0..16_384 {
        put(&mut forger, 100 + i, b"forged", b"worse").expect("room");
    }
    // 40 bytes of header and 24 of key, so that the value starts on a cache line.
    let mut value = vec![0; 400_000];
    forge.memory().copy_out(base + 64, &mut value);
    let slot = put(&mut writer, 1, &[b'k'; 24], &value).expect("room");
    assert_eq!(slot.0.offset, base);
    recycle(&store, &mut writer, &[slot]);
    let mut bytes = Vec::new();
    let forged = EntryRef { offset: base + 640, len: 64 };
    let entry = store.read(forged, Csn(110), &mut bytes);
    assert_eq!(entry.expect("verifies while nobody claims the segment").key, b"forged");
    // One entry has the forged stride: its segment is the old one, and holds no other entry.
    let (place, _) = put(&mut writer, 2, b"honest", b"value").expect("room");
    assert_eq!((place.offset, place.len), (base, 56));
    assert_eq!(store.read(forged, Csn(110), &mut bytes), Err(EntryError::Empty));
    let mut found = Vec::new();
    let report = verify_with(store.memory(), &sums(), &mut |_, entry| found.push(entry.key.to_vec()));
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(found, [b"honest".to_vec()]);
    assert_sound(&store);
}

#[test]
fn generations_wrap_and_skip_zero() {
    let store = store(8, StoreOptions::default());
    store.ledger.lock().segments[store.table as usize].line.generation = layout::GENERATION_MAX - 1;
    let mut writer = store.writer(0);
    let mut bytes = Vec::new();
    for (csn, generation) in [(1, layout::GENERATION_MAX), (2, 1), (3, 2)] {
        let slot = put(&mut writer, csn, b"key", b"the same value").expect("room");
        assert_eq!(slot.0.offset, segment_at(store.table), "the same room");
        let entry = store.read(slot.0, slot.1, &mut bytes).expect("whole");
        assert_eq!((entry.generation, entry.csn), (generation, Csn(csn)));
        assert_sound(&store);
        recycle(&store, &mut writer, &[slot]);
        assert_sound(&store);
    }
}

/// The whole way through the store: put, supersede, seal, quarantine, free, claim, put in the same room by
/// the same key. Every cut of a READ of the room over all of it is refused or is one whole entry of its time.
#[test]
fn all_cuts_across_collection_and_reuse() {
    for (first, second) in [([1u8; 100], [1u8; 100]), ([1; 100], [2; 100])] {
        let budget = Arc::new(Budget::new(u64::MAX));
        let options = StoreOptions::default();
        let journal = Journal::new(5 * SEGMENT_BYTES);
        let store = Arc::new(Store::create(journal, budget, options, sums()).expect("fits"));
        let mut writer = store.writer(0);
        let mut write = |csn, value: &[u8]| {
            let draft = writer.draft(b"key", value, EntryMeta::PUT).expect("room");
            let place = writer.finish(draft, Csn(csn));
            if csn == 1 {
                let begin = store.memory().now();
                store.supersede(place, Csn(1));
                let superseded = store.memory().now();
                recycle(&store, &mut writer, &[]);
                return (place, begin, superseded);
            }
            (place, store.memory().now(), usize::MAX)
        };
        let (old, begin, superseded) = write(1, &first);
        let (new, end, _) = write(2, &second);
        assert_eq!(old, new, "the same room");
        let mut seen = [0; 3];
        for cut in store.memory().cuts(old.offset, old.len as usize, begin, end) {
            let (lo, hi) = cut.interval();
            match object::read(&cut.bytes, old.offset, &sums()) {
                Err(_) => seen[0] += 1,
                Ok(entry) if entry.csn == Csn(1) => {
                    seen[1] += 1;
                    assert_eq!((entry.key, entry.value, entry.generation), (&b"key"[..], &first[..], 1));
                    assert!(if entry.superseded { hi >= superseded } else { lo < superseded });
                }
                Ok(entry) => {
                    seen[2] += 1;
                    assert_eq!((entry.key, entry.value, entry.generation), (&b"key"[..], &second[..], 2));
                    assert!(hi == end && entry.csn == Csn(2) && !entry.superseded);
                }
            }
        }
        assert!(seen[0] > 5 && seen[1] >= 2 && seen[2] >= 1, "{seen:?}");
        // A READ that names the old version does not accept the new one either.
        let mut bytes = Vec::new();
        assert_eq!(store.read(old, Csn(1), &mut bytes), Err(EntryError::Other(Csn(2))));
    }
}

/// A draft is no entry until its last store, whatever its room held before.
#[test]
fn a_draft_is_nothing_until_it_is_finished() {
    let store = store(8, StoreOptions::default());
    let mut writer = store.writer(0);
    let slot = put(&mut writer, 1, b"key", b"value").expect("room");
    recycle(&store, &mut writer, &[slot]);
    let draft = writer.draft(b"key", b"value", EntryMeta::PUT).expect("room");
    let mut bytes = Vec::new();
    assert_eq!(store.read(slot.0, Csn(1), &mut bytes), Err(EntryError::Empty));
    store.memory().store(slot.0.offset + layout::VERSION, 5 | 1 << 51);
    assert_eq!(store.read(slot.0, Csn(5), &mut bytes), Err(EntryError::Empty));
    let place = writer.finish(draft, Csn(2));
    assert_eq!(place, slot.0);
    assert_eq!(store.read(place, Csn(2), &mut bytes).expect("whole").value, b"value");
}
