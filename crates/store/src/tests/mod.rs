//! The store as a whole: its life from full to empty, its limits, its twin, and its schedules.

mod adopt;
mod huge;
mod life;
mod model;
mod release;
mod reuse;
mod schedule;
mod survey;

use std::sync::Arc;

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{Csn, EntryRef, Nanos};
use longarm_memory::{Backing, Budget, Mapped, Region, RegionOptions, SumKey};

use crate::*;

/// The slot of a key in a server's index.
type Slot = (EntryRef, Csn);

fn sums() -> SumKey {
    SumKey::new(0x5EED)
}

fn memory(segments: u64) -> Mapped {
    let options =
        RegionOptions { name: "arena".into(), bytes: segments * SEGMENT_BYTES, backing: Backing::Memory };
    Region::create(&options).expect("memfd").memory().clone()
}

fn store(segments: u64, options: StoreOptions) -> Arc<Store<Mapped>> {
    let budget = Arc::new(Budget::new(u64::MAX));
    Arc::new(Store::create(memory(segments), budget, options, sums()).expect("fits"))
}

fn put(writer: &mut Writer<Mapped>, csn: u64, key: &[u8], value: &[u8]) -> Result<Slot, DraftError> {
    let draft = writer.draft(key, value, EntryMeta::PUT)?;
    Ok((writer.finish(draft, Csn(csn)), Csn(csn)))
}

/// Collects as a server does, with the index as a function that is shown every live entry and may switch it.
fn collect(
    collector: &mut Collector<Mapped>,
    writer: &mut Writer<Mapped>,
    now: Nanos,
    threshold: u32,
    switch: &mut dyn FnMut(&[u8], Slot, Slot) -> bool,
) {
    let store = writer.store().clone();
    let mut bytes = Vec::new();
    for _ in 0..1_000_000 {
        match collector.next_work(now, threshold) {
            Work::Idle(_) => return,
            Work::Again => {}
            Work::Review { place, csn } => panic!("{csn:?} at {place:?} is an item"),
            Work::Release { segment, .. } => store.released(segment),
            Work::Move { place, csn } => {
                let entry = store.read(place, csn, &mut bytes).expect("a live entry verifies");
                let Ok(draft) = writer.draft_move(&entry) else {
                    collector.starved(now);
                    return;
                };
                let copy = writer.finish(draft, csn);
                if switch(entry.key, (place, csn), (copy, csn)) {
                    assert!(store.supersede(place, csn));
                } else {
                    assert!(store.supersede(copy, csn));
                }
            }
        }
    }
    panic!("collection does not end");
}

fn assert_sound(store: &Store<Mapped>) -> ArenaReport {
    let report = store.check();
    assert!(report.is_sound(), "{:#?}", report.problems);
    assert_eq!(report.total.live_bytes % LINE, 0);
    report
}
