//! Huge pages under an arena: which blocks are asked for, and that no byte changes.

use longarm_memory::{HUGE_PAGE, OwnedWords};

use super::*;
use crate::huge::HugePace;
use crate::segment::block::{AHEAD, BLOCK};

/// Whether the system has huge pages now.
fn has_huge_pages() -> bool {
    memory(u64::from(BLOCK)).populate(0, HUGE_PAGE) == HUGE_PAGE
}

/// Asks for blocks until there is none to ask for; the number of blocks.
fn all_blocks(store: &Store<Mapped>) -> u32 {
    (0..1_000).take_while(|_| store.populate_some()).count() as u32
}

/// Segments in use.
fn used_segments(store: &Store<Mapped>) -> u32 {
    let counters = store.counters();
    counters.segments - counters.free
}

fn kept(store: &Store<Mapped>) -> u32 {
    store.ledger.lock().free.kept()
}

#[test]
fn a_few_free_segments_have_memory_ahead_of_the_writers() {
    let has = has_huge_pages();
    let store = store(32, StoreOptions { pool: 8, ..StoreOptions::default() });
    let asked = all_blocks(&store);
    if !has {
        return;
    }
    assert_eq!((asked, kept(&store)), (AHEAD / BLOCK, AHEAD));
    // A writer fills two of them, and they come first.
    let mut writer = store.writer(0);
    let value = vec![7; 100_000];
    let mut slots = Vec::new();
    for csn in 1..=20u64 {
        slots.push(put(&mut writer, csn, &csn.to_le_bytes(), &value).expect("room"));
    }
    let used = used_segments(&store);
    assert_eq!(kept(&store), AHEAD - used.min(AHEAD));
    assert!(all_blocks(&store) > 0 && kept(&store) >= AHEAD);
    let mut bytes = Vec::new();
    for (place, csn) in slots {
        assert_eq!(store.read(place, csn, &mut bytes).expect("no byte changed").value, value);
    }
    assert_sound(&store);
}

#[test]
fn segments_in_use_are_taken_over_a_block_at_a_time() {
    let has = has_huge_pages();
    let store = store(32, StoreOptions { pool: 0, ..StoreOptions::default() });
    let mut writer = store.writer(0);
    let value = vec![9; 100_000];
    let slots: Vec<Slot> =
        (1..=160u64).map(|csn| put(&mut writer, csn, &csn.to_le_bytes(), &value).expect("room")).collect();
    let used = used_segments(&store);
    assert!(used > 2 * AHEAD);
    let asked = all_blocks(&store);
    if has {
        // The first block has the table, and the last one may be used in part.
        assert!(asked >= (used / BLOCK - 1) + AHEAD / BLOCK, "{asked} blocks, {used} segments");
        assert!(!store.populate_some(), "each of them once");
    }
    let mut bytes = Vec::new();
    for &(place, csn) in &slots {
        assert_eq!(store.read(place, csn, &mut bytes).expect("no byte changed").value, value);
    }
    assert_sound(&store);
    // What goes back to the system is asked for again when it is in use again.
    slots.iter().for_each(|&(place, csn)| assert!(store.supersede(place, csn)));
    writer.seal_all();
    let mut collector = Collector::new(store.clone());
    collect(&mut collector, &mut writer, Nanos(0), 0, &mut |_, _, _| false);
    collect(&mut collector, &mut writer, Nanos::from_millis(1_000), 0, &mut |_, _, _| false);
    assert_eq!(used_segments(&store), 0);
    for csn in 1..=160u64 {
        put(&mut writer, 1_000 + csn, &csn.to_le_bytes(), &value).expect("room");
    }
    assert!(!has || all_blocks(&store) >= used / BLOCK - 1);
    assert_sound(&store);
}

#[test]
fn a_system_without_huge_pages_is_asked_a_few_times_only() {
    let options =
        RegionOptions { name: "arena".into(), bytes: 64 * SEGMENT_BYTES, backing: Backing::SmallPages };
    let memory = Region::create(&options).expect("memfd").memory().clone();
    let budget = Arc::new(Budget::new(u64::MAX));
    let store = Store::create(memory, budget, StoreOptions::default(), sums()).expect("fits");
    let mut writer = Arc::new(store).writer(0);
    for csn in 1..=300u64 {
        put(&mut writer, csn, &csn.to_le_bytes(), &[1; 100_000]).expect("room");
    }
    assert!((1..=8).contains(&all_blocks(writer.store())));
    assert_eq!(kept(writer.store()), 0);
}

#[test]
fn a_follower_keeps_a_little_ahead_of_its_leader() {
    // The leader's own arena stands for the follower's copy: its lines are all that counts.
    let store = store(64, StoreOptions::default());
    let sums = sums();
    let mut populated = Populated::default();
    let mut advance = || (0..100).take_while(|_| populated.advance(&store.memory, &sums)).count() as u32;
    assert_eq!(advance(), 0, "nothing is written yet");
    if !has_huge_pages() {
        return;
    }
    let mut writer = store.writer(0);
    let mut blocks = 0;
    for csn in 1..=200u64 {
        put(&mut writer, csn, &csn.to_le_bytes(), &[1; 100_000]).expect("room");
        blocks += advance();
        let highest = store.table + used_segments(&store) - 1;
        assert_eq!(blocks, highest / BLOCK + 1 + AHEAD / BLOCK, "segment {highest} is claimed");
    }
}

#[test]
fn blocks_take_a_small_part_of_the_time() {
    let mut pace = HugePace::default();
    let (mut now, mut spent) = (Nanos::from_millis(1), 0);
    let begun = now;
    for i in 0..100_000u64 {
        if pace.is_due(now, 0) {
            let took = 100_000 + i % 7 * 1_000_000;
            pace.took(now, now + Nanos(took));
            now = now + Nanos(took);
            spent += took;
        }
        now = now + Nanos(50_000);
    }
    let share = spent * 100 / now.since(begun).0;
    assert!((18..=25).contains(&share), "{share} percent");
}

#[test]
fn blocks_are_left_alone_until_little_was_written_for_a_second() {
    let mut pace = HugePace::default();
    let (mut now, mut written) = (Nanos::from_millis(1), 0);
    // Looks each 20 ms for so many windows; returns in how many of the looks a block is due.
    let mut due = |windows: u32, entries: u64| {
        (0..5 * windows).fold(0, |due, _| {
            (now, written) = (now + Nanos::from_millis(20), written + entries);
            due + u32::from(pace.is_due(now, written))
        })
    };
    assert_eq!(due(20, 641), 0, "much is written");
    assert_eq!((due(10, 640), due(2, 640)), (0, 10), "a look or two belong to the window before");
    assert!(due(1, 641) < 5 && due(20, 641) == 0, "the window at whose end much was written is the last");
    assert_eq!((due(8, 0), due(2, 641), due(8, 0)), (0, 0, 0), "a pause between two bursts");
    assert!(due(4, 0) > 5);
}
