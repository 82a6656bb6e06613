//! Growth under load: threads that write while the table grows, and the load factor at which it does.

use longarm_base::Nanos;
use longarm_memory::{Backing, Mapped, Region, RegionOptions};

use super::super::owner::Bound;
use super::*;

fn mapped(bytes: u64) -> Mapped {
    let options = RegionOptions { name: "index".into(), bytes, backing: Backing::Memory };
    Region::create(&options).expect("memfd").memory().clone()
}

/// The paper reports "about 70 %" (V.B); the shapes were chosen to reach it with the smallest READ.
#[test]
fn load_factor_at_growth_is_at_least_seventy_percent() {
    for (slots, discipline) in
        [(SlotKind::Inline64, Discipline::InPlace), (SlotKind::Pointer16, Discipline::InPlace)]
    {
        let bed = bed(mapped(64 << 20), slots, discipline, 40_000);
        let mut n = 0u64;
        while bed.owner.geometry().live().count() == 1 && !bed.owner.should_grow() {
            bed.put(format!("key{n}").as_bytes(), b"0123456789");
            n += 1;
        }
        let load = n as f64 / bed.check().slots as f64;
        assert!(load >= 0.70, "{slots:?}: {load:.3} after {n} items");
    }
}

#[test]
fn writers_and_readers_while_the_table_grows() {
    for discipline in [Discipline::InPlace, Discipline::OutOfPlace] {
        write_and_read(&bed(mapped(256 << 20), SlotKind::Inline64, discipline, 100));
    }
}

fn write_and_read(bed: &Bed<Mapped>) {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|w| {
                scope.spawn(move || {
                    for i in 0..20_000u64 {
                        bed.put(format!("w{w}-{}", i % 7_000).as_bytes(), &i.to_le_bytes());
                        if i % 11 == 0 {
                            bed.remove(format!("w{w}-{}", i / 2 % 7_000).as_bytes());
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut now = 0;
            // Relaxed: a flag that publishes nothing else.
            while !stop.load(Ordering::Relaxed) {
                now += 1;
                bed.owner.move_some(16);
                bed.owner.reclaim(Nanos(now), Nanos(1000));
                if bed.owner.should_grow() {
                    bed.owner.grow().expect("memory");
                }
            }
        });
        let outcomes: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        // Relaxed: as above.
        stop.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok), "a writer failed");
    });
    while bed.owner.move_some(1000) == Moved::More {}
    assert_eq!(bed.reclaim(1 << 50, 1), 0);
    let report = bed.check();
    assert!(report.items > 15_000 && report.tables == 1, "{report:?}");
    for w in 0..3 {
        assert!(bed.get(format!("w{w}-6999").as_bytes(), ReadGranularity::Lines).0.is_some());
    }
}

/// Where the system has huge pages, a table that grew stands in them but for its edges, also when writers
/// were ahead of the move.
#[test]
fn a_grown_table_stands_in_huge_pages() {
    const BLOCK: u64 = 2 << 20;
    let memory = mapped(256 << 20);
    let has_them = memory.populate(0, BLOCK) == BLOCK;
    memory.discard(0, BLOCK);
    let bed = bed(memory, SlotKind::Inline64, Discipline::InPlace, 60_000);
    let before = bed.owner.geometry();
    let mut n = 0u64;
    while bed.owner.geometry().live().count() == 1 {
        bed.put(format!("key{n}").as_bytes(), b"0123456789");
        n += 1;
        if bed.owner.should_grow() {
            bed.owner.grow().expect("memory");
        }
    }
    for n in n..n + 5_000 {
        bed.put(format!("key{n}").as_bytes(), b"0123456789");
    }
    while bed.owner.move_some(64) == Moved::More {}
    assert_eq!(bed.reclaim(1 << 50, 1), 0);
    let table = *bed.owner.geometry().live().next().expect("a table");
    assert!(table.bytes() > before.live().next().expect("a table").bytes());
    assert!(table.base.is_multiple_of(BLOCK));
    if has_them {
        assert_eq!(bed.owner.huge_bytes(), table.bytes() / BLOCK * BLOCK);
    }
    assert_eq!(bed.check().items, n + 5_000);
}

#[test]
fn items_that_are_about_to_come_get_room_if_the_region_has_it() {
    let options = |expected_items, found_items| Options {
        slots: SlotKind::Inline64,
        discipline: Discipline::InPlace,
        expected_items,
        found_items,
        populate: true,
        hash_key: 7,
        places: false,
    };
    let pairs = |options| {
        let bed = bed_of(mapped(4 << 20), options);
        let pairs = bed.owner.geometry().live().map(|table| table.pairs).collect::<Vec<_>>();
        assert_eq!(pairs.len(), 1);
        pairs[0]
    };
    assert_eq!(pairs(options(1, 10_000)), pairs(options(10_000, 0)));
    assert_eq!(pairs(options(10_000, 1)), pairs(options(10_000, 0)));
    assert_eq!(pairs(options(1, u64::MAX)), pairs(options(1, 0)), "no region has that");
}

#[test]
fn inline_items_keep_their_places_while_tables_grow() {
    let options = Options {
        slots: SlotKind::Inline64,
        discipline: Discipline::InPlace,
        expected_items: 1,
        found_items: 0,
        populate: true,
        hash_key: 7,
        places: true,
    };
    let bed = bed_of(mapped(4 << 20), options);
    let place = |i: u64| EntryRef { offset: (i + 1) * 64, len: 104 };
    let store = |i: u64, csn: u64, entry: Option<EntryRef>| {
        let (key, expiry) = (i.to_le_bytes(), UnixMillis::NEVER);
        let hash = bed.hash(&key);
        let record = Record::Inline { csn: Csn(csn), key: &key, value: b"v", expiry, entry };
        loop {
            let index = bed.owner.read();
            let mut pair = index.lock(hash);
            let done = match pair.find(&key) {
                Some(found) => pair.replace(&found, &record),
                None => pair.insert(&record),
            };
            drop(pair);
            drop(index);
            if done.is_ok() {
                return;
            }
            bed.owner.make_room(hash).expect("memory");
        }
    };
    let entry_of = |i: u64| {
        let key = i.to_le_bytes();
        bed.owner.read().lock(bed.hash(&key)).find(&key).expect("it is there").entry()
    };
    for i in 0..10_000u64 {
        store(i, i + 1, Some(place(i)));
        // Each third has moved since, each fifth stands in its slot alone.
        match i {
            i if i.is_multiple_of(3) => store(i, i + 1, Some(place(i + 20_000))),
            i if i.is_multiple_of(5) => store(i, i + 1, None),
            _ => {}
        }
    }
    for i in 0..10_000u64 {
        let wanted = match i {
            i if i.is_multiple_of(3) => Some(place(i + 20_000)),
            i if i.is_multiple_of(5) => None,
            i => Some(place(i)),
        };
        assert_eq!(entry_of(i), wanted, "item {i}");
    }
    assert!(bed.owner.geometry().epoch > 2, "it grew");
    assert_eq!(bed.check().inline, 10_000);
}

#[test]
fn out_of_memory_is_said_and_nothing_is_lost() {
    let bed = bed(mapped(512 << 10), SlotKind::Inline64, Discipline::InPlace, 100);
    let mut stored = Vec::new();
    for i in 0..100_000u32 {
        let key = format!("key{i}").into_bytes();
        let hash = bed.hash(&key);
        let record = Record::Inline {
            csn: Csn(u64::from(i) + 1),
            key: &key,
            value: b"v",
            expiry: UnixMillis::NEVER,
            entry: None,
        };
        let index = bed.owner.read();
        let mut pair = index.lock(hash);
        if pair.insert(&record).is_ok() {
            stored.push(key);
            continue;
        }
        drop(pair);
        drop(index);
        if bed.owner.make_room(hash).is_err() {
            break;
        }
        while bed.owner.move_some(64) == Moved::More {}
        bed.reclaim(10, 1);
    }
    assert!(stored.len() > 1000, "{}", stored.len());
    assert_eq!(bed.check().items, stored.len() as u64);
    for key in &stored {
        assert!(bed.get(key, ReadGranularity::Window).0.is_some());
        assert!(bed.remove(key), "deletes go on");
    }
    assert_eq!(bed.check().items, 0);
}

/// Whoever withdraws a table, or looks after those that are out of use, may be kept from the processor at any
/// moment, for longer than the quarantine.
#[test]
fn a_table_stays_for_its_quarantine_from_when_it_was_withdrawn() {
    let bed = bed(Journal::new(1 << 20), SlotKind::Inline64, Discipline::InPlace, 1);
    bed.put(b"k", b"one");
    bed.owner.grow().expect("memory");
    assert_eq!(bed.owner.reclaim(Nanos(1_000), Nanos(100)), 0);
    // A pass begins at 2,000, and stalls; the table is withdrawn meanwhile, at 9,000.
    while bed.owner.move_some(100) == Moved::More {}
    let used = bed.owner.budget.used();
    assert_eq!(bed.owner.reclaim(Nanos(2_000), Nanos(100)), 1);
    // The next begins at 9,010.
    for now in [9_010, 9_020, 9_109] {
        assert_eq!(bed.owner.reclaim(Nanos(now), Nanos(100)), 1, "at {now}");
    }
    assert_eq!(bed.owner.reclaim(Nanos(9_110), Nanos(100)), 0);
    assert!(bed.owner.budget.used() < used);
}

/// A reader may be so late that the table it knows of is gone. Zeroed memory is not a key that is not there.
#[test]
fn a_table_that_was_given_back_is_not_one_that_was_never_used() {
    for (slots, discipline) in KINDS {
        let bed = bed(Journal::new(1 << 20), slots, discipline, 1);
        bed.put(b"k", b"one");
        let before = bed.owner.geometry();
        bed.owner.grow().expect("memory");
        while bed.owner.move_some(100) == Moved::More {}
        assert_eq!(bed.reclaim(1_000, 0), 0);
        for granularity in [ReadGranularity::Window, ReadGranularity::Lines] {
            let mut step = bed.search(b"k", granularity, &before);
            assert_eq!(step, SearchStep::Stale);
            step = bed.search(b"other", granularity, &bed.owner.geometry());
            assert_eq!(step, SearchStep::Absent);
        }
    }
}

/// So many keys of this bucket in a table of 16 pairs, and of that one in the next table of 5.
fn keys_of(bed: &Bed<Mapped>, bucket: u64, next: u64, count: usize) -> Vec<Vec<u8>> {
    let names = (0u32..).map(|i| format!("key{i}").into_bytes());
    let fits = |hash: Hash| hash.below(32) == bucket && hash.below(10) == next;
    names.filter(|key| fits(bed.hash(key))).take(count).collect()
}

/// A pair moves into two, of which one has no room. Meanwhile another thread walks over the other one, as
/// eviction and expiry do, and removes what it finds.
#[test]
fn what_is_evicted_in_the_next_table_while_a_move_fails() {
    let bed = bed(mapped(32 << 10), SlotKind::Inline64, Discipline::InPlace, 1);
    let table = bed.owner.newest();
    assert_eq!(table.pairs, 16);
    let keys = |bucket, next, count| keys_of(&bed, bucket, next, count);
    let (far, near) = (keys(31, 9, 11), keys(8, 2, 10));
    let (first, last) = (&keys(6, 1, 1)[0], &keys(7, 2, 1)[0]);
    far.iter().chain(&near).chain([first]).for_each(|key| _ = bed.put(key, &[7; 100]));
    let csn = bed.put(last, &[7; 100]);
    bed.owner.add_table(5, table.id, Bound::Budget).expect("memory");
    // One takes the only group of the share, one the slots of the even half of pair 1.
    bed.owner.make_room(bed.hash(&far[0])).expect("moves");
    bed.owner.make_room(bed.hash(&near[0])).expect("moves");
    assert_eq!(bed.owner.make_room(bed.hash(last)), Err(NoRoom::Table), "alone it is taken back");
    let barrier = Arc::new(Barrier::new(2));
    *bed.book.stop.lock().expect("stop") = Some((csn, barrier.clone()));
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| bed.owner.make_room(bed.hash(last)));
        // `first` is copied, the hash of `last` is asked for.
        barrier.wait();
        let index = bed.owner.read();
        let mut pair = index.lock_nth(1, 0).expect("the newest table");
        let all = pair.all();
        all.iter().for_each(|found| pair.remove(found));
        drop(pair);
        drop(index);
        barrier.wait();
        let outcome = mover.join();
        assert_eq!(outcome.ok(), Some(Err(NoRoom::Table)), "the mover died");
        assert!(all.is_empty(), "a copy is no item before its pair has MOVED");
    });
    assert!(bed.get(first, ReadGranularity::Window).0.is_some());
    assert_eq!(bed.check().items, 23);
    // Items that have moved are those of the next table.
    let index = bed.owner.read();
    assert_eq!(index.lock_nth(1, 4).expect("the newest table").all().len(), far.len());
}

/// A copy gets the only group of the next table's share, and the item after it finds no room.
#[test]
fn a_move_that_fails_gives_its_groups_back() {
    let bed = bed(mapped(32 << 10), SlotKind::Inline64, Discipline::InPlace, 1);
    let table = bed.owner.newest();
    let keys = |bucket, next, count| keys_of(&bed, bucket, next, count);
    let (low, high) = (keys(5, 1, 10), keys(8, 2, 10));
    let (first, last) = (&keys(6, 1, 1)[0], &keys(7, 2, 1)[0]);
    low.iter().chain(&high).chain([first, last]).for_each(|key| _ = bed.put(key, &[7; 100]));
    bed.owner.add_table(5, table.id, Bound::Budget).expect("memory");
    for key in [&low[0], &high[0]] {
        bed.owner.make_room(bed.hash(key)).expect("moves");
    }
    for _ in 0..3 {
        assert_eq!(bed.owner.make_room(bed.hash(last)), Err(NoRoom::Table));
        let live = bed.owner.state.read().expect("index state").live[1].clone();
        // Relaxed: this thread counted.
        assert_eq!((live.extended.load(Ordering::Relaxed), bed.check().extended), (0, 0));
    }
    assert!(bed.remove(last));
    bed.owner.make_room(bed.hash(first)).expect("the group is there");
    assert_eq!((bed.check().extended, bed.check().items), (1, 21));
}

/// No further table is to be had, and a group of the next one has a record for which its pair has a slot.
#[test]
fn a_move_goes_on_with_groups_that_come_back() {
    let bed = bed(mapped(32 << 10), SlotKind::Inline64, Discipline::InPlace, 1);
    let table = bed.owner.newest();
    let keys = |bucket, next, count| keys_of(&bed, bucket, next, count);
    let (far, near) = (keys(31, 9, 11), keys(8, 2, 10));
    let last = &keys(7, 2, 1)[0];
    far.iter().chain(&near).chain([last]).for_each(|key| _ = bed.put(key, &[7; 100]));
    bed.owner.add_table(5, table.id, Bound::Budget).expect("memory");
    for key in [&far[0], &near[0]] {
        bed.owner.make_room(bed.hash(key)).expect("moves");
    }
    assert!(bed.remove(&far[0]));
    assert_eq!(bed.owner.move_some(table.pairs), Moved::More, "the only group of the share comes back");
    assert_eq!(bed.owner.move_some(table.pairs), Moved::More);
    assert_eq!(bed.owner.geometry().live().count(), 1);
    let report = bed.check();
    assert_eq!((report.items, report.extended), (21, 1));
    assert_eq!(bed.owner.move_some(1), Moved::Idle);
}
