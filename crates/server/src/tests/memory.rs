//! The memory limit: refusals, collection, eviction.

use std::time::Duration;

use longarm_index::hash::SlotKind;
use longarm_wire::{Request, RequestKind, Status};

use super::harness::{Raw, start, until};
use crate::Eviction;

#[test]
fn a_full_memory_refuses_writes_and_deletes_make_room_again() {
    for (slots, value) in [(SlotKind::Inline64, 10_000), (SlotKind::Inline64, 16), (SlotKind::Pointer16, 100)]
    {
        let (server, _) = start(|options| {
            options.memory = 16 << 20;
            options.slots = slots;
            options.expected_items = 1000;
        });
        let mut raw = Raw::connect(&server.addresses()[0]);
        let value = vec![7; value];
        let mut stored = 0u64;
        while raw.put(&stored.to_le_bytes(), &value).status == Status::Ok {
            stored += 1;
            assert!(stored < 1_000_000, "more than the memory holds");
        }
        let refused = raw.put(&stored.to_le_bytes(), &value);
        assert_eq!(refused.status, Status::OutOfMemory);
        let stats = server.stats();
        assert!(stats.memory_used <= stats.memory_limit && stats.out_of_memory >= 2);
        assert!(stats.items == stored && stored * (value.len() as u64) > 1 << 20, "{stats:?}");
        assert_eq!(raw.get(&0u64.to_le_bytes()).value, value, "reads go on");
        for i in 0..stored {
            assert_eq!(raw.delete(&i.to_le_bytes()).status, Status::Ok, "deletes go on");
        }
        assert_eq!(raw.put(b"another", &value).status, Status::Ok, "it waits for what was deleted just now");
        assert_eq!(server.stats().items, 1);
    }
}

#[test]
fn overwriting_far_more_than_the_limit_keeps_memory_bounded() {
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        let (server, _) = start(|options| {
            options.memory = 32 << 20;
            options.slots = slots;
            options.workers = 2;
        });
        let address = &server.addresses()[0];
        let write = |number: u64| {
            let mut raw = Raw::connect(address);
            let mut random = number;
            for i in 0..30_000u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let key = [number, (random >> 33) % 2000].map(u64::to_le_bytes).concat();
                let value = vec![i as u8; 1500 + (random >> 50) as usize % 1000];
                let answer = raw.put(&key, &value);
                assert_eq!(answer.status, Status::Ok, "write {i} of {number}");
                if i.is_multiple_of(16) {
                    assert_eq!(raw.get(&key).value, value);
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(1));
            scope.spawn(|| write(2));
        });
        let stats = server.stats();
        assert!(stats.memory_used <= stats.memory_limit && stats.items <= 4000, "{stats:?}");
        // An entry that is being moved counts twice.
        until("one entry an item", || {
            let stats = server.stats();
            stats.store.entries == stats.items
        });
        let engine = server.shared().clone();
        server.stop(Duration::from_secs(5));
        let report = engine.core.engine.store.check();
        assert!(report.is_sound(), "{:?}", report.problems);
    }
}

#[test]
fn eviction_makes_room_for_every_write() {
    for (slots, value) in [(SlotKind::Inline64, 2000), (SlotKind::Pointer16, 2000), (SlotKind::Inline64, 16)]
    {
        let (server, _) = start(|options| {
            options.memory = 16 << 20;
            options.eviction = Eviction::Lru;
            options.expected_items = 1000;
            options.slots = slots;
        });
        let mut raw = Raw::connect(&server.addresses()[0]);
        let value = vec![1; value];
        let writes = if value.len() > 1000 { 20_000u64 } else { 300_000 };
        for i in 0..writes {
            let status = raw.put(&i.to_le_bytes(), &value).status;
            assert_eq!(status, Status::Ok, "write {i}: {:?}", server.stats());
        }
        let stats = server.stats();
        assert!(stats.evicted > writes / 4 && stats.items < writes, "{stats:?}");
        assert!(stats.memory_used <= stats.memory_limit);
        // It does not empty the cache to make room for the next write.
        assert!(stats.items * (value.len() as u64 + 40) > 4 << 20, "{stats:?}");
        assert_eq!(raw.get(&(writes - 1).to_le_bytes()).status, Status::Ok, "the newest is there");
    }
}

/// Draws lengths of 64 bytes to so many doublings of that, as many of each doubling.
fn lengths(seed: u64, doublings: u32) -> impl Iterator<Item = usize> {
    let mut random = seed;
    std::iter::repeat_with(move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let least = 64 << (random >> 33) % u64::from(doublings);
        (least + (random >> 40) % least) as usize
    })
}

/// Each worker, and the maintenance thread, has a segment open for each size, and so they had all segments of
/// a small memory open, with little in each. Eviction gave nothing back, and writes were refused.
#[test]
fn eviction_makes_room_for_values_of_all_sizes() {
    for (doublings, writes) in [(14, 400), (10, 2000)] {
        let (server, _) = start(|options| {
            options.memory = 32 << 20;
            options.eviction = Eviction::Lru;
            options.expected_items = 1000;
            options.workers = 2;
        });
        let address = &server.addresses()[0];
        let write = |number: u64| {
            let (mut raw, mut gone) = (Raw::connect(address), 0);
            for (i, len) in (0..writes).zip(lengths(number, doublings)) {
                let key = [number, i].map(u64::to_le_bytes).concat();
                let status = raw.put(&key, &vec![1; len]).status;
                assert_eq!(status, Status::Ok, "write {i} of {number}: {:?}", server.stats());
                // The other client's writes may take its place at once, where few large items have room.
                let found = raw.get(&key);
                gone += u64::from(found.status != Status::Ok);
                assert!(found.status != Status::Ok || found.value.len() == len);
            }
            assert!(gone <= writes / 50, "{gone} of {writes} were gone at once");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(1));
            scope.spawn(|| write(2));
        });
        let stats = server.stats();
        assert!(stats.evicted > writes && stats.memory_used <= stats.memory_limit, "{stats:?}");
    }
}

#[test]
fn deletes_make_room_again_for_values_of_other_sizes() {
    let (server, _) = start(|options| {
        options.memory = 32 << 20;
        options.expected_items = 1000;
        options.workers = 2;
    });
    let mut raws = [(); 2].map(|()| Raw::connect(&server.addresses()[0]));
    let mut put = |i: u64, len| raws[i as usize % 2].put(&i.to_le_bytes(), &vec![1; len]).status;
    let stored = (0..).zip(lengths(1, 10)).take_while(|&(i, len)| put(i, len) == Status::Ok).count();
    let mut raw = Raw::connect(&server.addresses()[0]);
    for i in 0..stored as u64 {
        assert_eq!(raw.delete(&i.to_le_bytes()).status, Status::Ok);
    }
    for i in 0..20 {
        assert_eq!(put(i, 600_000), Status::Ok, "write {i}: {:?}", server.stats());
    }
}

#[test]
fn hints_set_the_clock_bits_of_what_was_read() {
    let (server, _) = start(|options| options.eviction = Eviction::Lru);
    let mut raw = Raw::connect(&server.addresses()[0]);
    let engine = &server.shared().core.engine;
    let hashes = [engine.hash(b"a"), engine.hash(b"b")];
    let bytes = hashes.map(|hash| hash.0.to_le_bytes()).concat();
    assert!(raw.send(&Request { value: &bytes, ..Request::new(RequestKind::Hints, 0) }));
    assert_eq!(raw.ask(&Request::new(RequestKind::Ping, 0)).status, Status::Ok);
    let marks = engine.marks.as_ref().expect("eviction is on");
    assert!(hashes.iter().all(|&hash| marks.take(hash)), "set by the hints");
    assert!(!hashes.iter().any(|&hash| marks.take(hash)), "cleared by the look");
}

#[test]
fn the_index_grows_while_it_is_written() {
    let (server, _) = start(|options| {
        options.expected_items = 16;
        options.workers = 2;
    });
    let address = &server.addresses()[0];
    let write = |number: u64| {
        let mut raw = Raw::connect(address);
        for i in 0..50_000u64 {
            let key = [number, i].map(u64::to_le_bytes).concat();
            assert_eq!(raw.put(&key, &i.to_le_bytes()).status, Status::Ok);
        }
        for i in 0..50_000u64 {
            let key = [number, i].map(u64::to_le_bytes).concat();
            assert_eq!(raw.get(&key).value, i.to_le_bytes());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(1));
        scope.spawn(|| write(2));
    });
    let stats = server.stats();
    assert_eq!(stats.items, 100_000);
    assert!(stats.geometry_epoch > 6, "{stats:?}");
    until("the moves to end", || server.stats().tables == 1);
    until("old tables to be given back", || {
        let stats = server.stats();
        stats.memory_used < stats.index_bytes + (8 << 20)
    });
}
