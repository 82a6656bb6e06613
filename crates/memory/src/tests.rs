//! Tests of the door itself: copies, bounds, seals, and the journal's enumeration against brute force.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::*;

fn region(bytes: u64) -> Region {
    let options = RegionOptions { name: "test".into(), bytes, backing: Backing::Memory };
    Region::create(&options).expect("memfd")
}

proptest! {
    #[test]
    fn copies_of_any_length_come_back(at in 0u64..64, bytes in proptest::collection::vec(any::<u8>(),
        0..2000)) {
        let memory = region(4096).memory().clone();
        memory.store(0, u64::MAX);
        memory.copy_in(at * 8, &bytes);
        let mut back = vec![0; bytes.len()];
        memory.copy_out(at * 8, &mut back);
        prop_assert_eq!(&back, &bytes);
        let after = at * 8 + bytes.len() as u64;
        prop_assert_eq!(memory.load(after.next_multiple_of(8)), 0, "a copy never writes past its end");
    }

    #[test]
    fn journal_is_memory(stores in proptest::collection::vec((0u64..32, any::<u64>()), 0..50)) {
        let journal = Journal::new(256);
        let plain = region(4096).memory().clone();
        for (word, value) in stores {
            journal.store(word * 8, value);
            plain.store(word * 8, value);
        }
        for word in 0..32 {
            prop_assert_eq!(journal.load(word * 8), plain.load(word * 8));
        }
    }

    /// The enumeration finds exactly the outcomes that sampling every line at every moment finds.
    #[test]
    fn cuts_are_all_samplings(stores in proptest::collection::vec((0u64..16, 0u64..3), 1..7)) {
        let journal = Journal::new(128);
        for (word, value) in &stores {
            journal.store(word * 8, *value);
        }
        let end = journal.now();
        let mut brute = std::collections::BTreeSet::new();
        for a in 0..=end {
            for b in 0..=end {
                let mut bytes = journal.at(a, 0, 64);
                bytes.extend(journal.at(b, 64, 64));
                brute.insert(bytes);
            }
        }
        let cuts = journal.cuts(0, 128, 0, end);
        let found: std::collections::BTreeSet<_> = cuts.iter().map(|c| c.bytes.clone()).collect();
        prop_assert_eq!(found, brute);
        for cut in cuts {
            let (lo, hi) = cut.interval();
            let witnessed = (lo..=hi).any(|a| (lo..=hi).any(|b| {
                cut.bytes[..64] == journal.at(a, 0, 64) && cut.bytes[64..] == journal.at(b, 64, 64)
            }));
            prop_assert!(witnessed, "the interval can produce the bytes");
        }
    }
}

#[test]
fn out_of_bounds_is_a_crash_with_the_offset() {
    let memory = region(4096).memory().clone();
    for probe in [4096u64, 4100, u64::MAX - 7] {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| memory.load(probe)));
        assert!(caught.is_err(), "{probe:#x}");
    }
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        memory.copy_out(4088, &mut [0; 9]);
    }));
    assert!(caught.is_err());
}

#[test]
fn a_read_only_peer_cannot_write_shrink_or_grow() {
    let region = region(8192);
    region.memory().store(0, 7);
    let passed = region.read_only_file().expect("reopen");
    assert!(Region::open_writable(passed.try_clone().expect("dup"), 8192).is_err(), "no writable mapping");
    assert!(rustix::io::write(&passed, b"x").is_err(), "no write through the file");
    assert!(rustix::fs::ftruncate(&passed, 0).is_err(), "no shrinking");
    assert!(rustix::fs::ftruncate(&passed, 1 << 20).is_err(), "no growing");
    let view = Region::open_read_only(passed, 8192).expect("read-only mapping");
    assert_eq!(view.load(0), 7);
    region.memory().store(0, 8);
    assert_eq!(view.load(0), 8, "the same memory");
}

#[test]
fn an_unsealed_or_short_peer_file_is_refused() {
    let file = rustix::fs::memfd_create("bad", rustix::fs::MemfdFlags::ALLOW_SEALING).expect("memfd");
    rustix::fs::ftruncate(&file, 4096).expect("size");
    let dup = || file.as_fd().try_clone_to_owned().expect("dup");
    assert!(matches!(Region::open_writable(dup(), 4096), Err(RegionError::Unsealed)));
    rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK).expect("seal");
    assert!(matches!(Region::open_read_only(dup(), 8192), Err(RegionError::Size { .. })));
    assert!(Region::open_writable(dup(), 4096).is_ok());
}

#[test]
fn discarded_bytes_read_zero_and_the_rest_stays() {
    let region = region(16 * 4096);
    for page in 0..16 {
        region.memory().store(page * 4096, page + 1);
    }
    region.memory().store(4 * 4096 + 8, 9);
    region.memory().discard(4096 + 8, 3 * 4096);
    let words: Vec<u64> = (0..6).map(|p| region.memory().load(p * 4096)).collect();
    assert_eq!(words, [1, 2, 0, 0, 0, 6]);
    assert_eq!(region.memory().load(4 * 4096 + 8), 9, "the first word after the range");
}

#[test]
fn what_was_never_written_is_known_and_takes_no_memory() {
    const PAGES: u64 = 64;
    let options = RegionOptions { name: "holes".into(), bytes: PAGES * 4096, backing: Backing::SmallPages };
    let region = Region::create(&options).expect("memfd");
    let memory = region.memory();
    assert_eq!(memory.next_written(0), PAGES * 4096, "nothing is");
    memory.store(5 * 4096 + 64, 1);
    // As a peer would, through a mapping of its own.
    let file = region.file().expect("a file").try_clone_to_owned().expect("dup");
    Region::open_writable(file, PAGES * 4096).expect("a mapping").store(9 * 4096, 1);
    for (at, next) in [(0, 5), (5, 5), (6, 9), (9, 9), (10, PAGES), (PAGES, PAGES)] {
        assert_eq!(memory.next_written(at * 4096), next * 4096, "from page {at}");
    }
    assert_eq!(memory.next_written(5 * 4096 + 128), 5 * 4096 + 128, "the rest of its page");
    memory.discard(5 * 4096, 4096);
    assert_eq!(memory.next_written(0), 9 * 4096);
}

#[test]
fn populating_changes_no_byte_and_takes_whole_blocks() {
    const BLOCK: u64 = 2 << 20;
    let memory = region(4 * BLOCK).memory().clone();
    memory.store(BLOCK - 8, 1);
    memory.store(BLOCK + 8, 2);
    memory.store(3 * BLOCK, 3);
    let taken = memory.populate(4096, 3 * BLOCK);
    assert!(taken.is_multiple_of(BLOCK) && taken <= 2 * BLOCK, "{taken}: blocks 1 and 2 are whole");
    let words: Vec<u64> =
        [0, BLOCK - 8, BLOCK, BLOCK + 8, 3 * BLOCK].iter().map(|&at| memory.load(at)).collect();
    assert_eq!(words, [0, 1, 0, 2, 3]);
    memory.discard(BLOCK + 4096, BLOCK);
    assert_eq!((memory.load(BLOCK + 8), memory.load(2 * BLOCK), memory.load(3 * BLOCK)), (2, 0, 3));

    let options = RegionOptions { name: "small".into(), bytes: 4 * BLOCK, backing: Backing::SmallPages };
    let small = Region::create(&options).expect("memfd");
    assert_eq!(small.memory().populate(0, 4 * BLOCK), 0, "not asked for");
}

#[test]
fn populating_changes_no_byte_that_another_thread_writes_meanwhile() {
    const BLOCK: u64 = 2 << 20;
    const BLOCKS: u64 = 15;
    let memory = region(BLOCKS * BLOCK).memory().clone();
    // All blocks at once, a page of each in turn.
    let pages = || (0..BLOCKS * BLOCK / 4096).map(|n| (n % BLOCKS * BLOCK + n / BLOCKS * 4096, n + 1));
    std::thread::scope(|scope| {
        scope.spawn(|| pages().for_each(|(page, value)| memory.store(page, value)));
        memory.populate(0, BLOCKS * BLOCK);
    });
    assert!(pages().all(|(page, value)| memory.load(page) == value));
}

#[test]
fn no_key_is_weak() {
    for key in [0, 1, 2, 3, 1 << 63, u64::MAX] {
        let key = SumKey::new(key);
        let sums: Vec<_> =
            (0..64u64).flat_map(|i| [key.sum(i * 64, b"same"), key.sum(0, &i.to_le_bytes())]).collect();
        for bit in 0..64 {
            let set = sums.iter().filter(|sum| **sum >> bit & 1 == 1).count();
            assert!((32..96).contains(&set), "{} of {} have bit {bit} set", set, sums.len());
        }
        let mut once = sums.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), sums.len());
    }
}

#[test]
fn checksums_depend_on_key_place_and_every_bit() {
    let key = SumKey::new(11);
    let bytes = [3u8; 56];
    let sum = key.sum(64, &bytes);
    assert_ne!(sum, SumKey::new(12).sum(64, &bytes));
    assert_ne!(sum, key.sum(128, &bytes));
    for bit in 0..bytes.len() * 8 {
        let mut other = bytes;
        other[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(sum, key.sum(64, &other), "bit {bit}");
    }
}

#[test]
fn hashes_spread_over_buckets() {
    let key = HashKey::new(5);
    let mut counts = [0u32; 100];
    for i in 0..100_000u64 {
        counts[key.hash(&i.to_le_bytes()).below(100) as usize] += 1;
    }
    assert!(counts.iter().all(|&c| (800..1200).contains(&c)), "{counts:?}");
}

/// A copy byte by byte (REP MOVSB) read words in two parts where its destination was aligned otherwise: a
/// READ over TCP had a word of two stores.
#[test]
fn no_word_of_a_copy_is_of_two_stores() {
    const BYTES: u64 = 8192;
    let memory = region(BYTES).memory().clone();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0u64;
            // Relaxed: only ends this loop.
            while !over.load(Ordering::Relaxed) {
                round += 1;
                let word = (round & 0xff) * 0x0101_0101_0101_0101;
                (0..BYTES).step_by(8).for_each(|at| memory.store(at, word));
            }
        });
        let mut bytes = vec![0; BYTES as usize + 8];
        let (mut changes, mut torn, mut last) = (0, None, 0);
        let until = Instant::now() + Duration::from_secs(20);
        // Long enough for the race to have taken place, whenever the other thread gets its turn.
        while changes < 20_000 && torn.is_none() && Instant::now() < until {
            for (len, odd, at) in [(64, 3, 8), (256, 5, 0), (512, 1, 8), (1024, 5, 56), (4096, 3, 0)] {
                let into = &mut bytes[odd..odd + len];
                memory.copy_out(at, into);
                let whole = |word: &&[u8]| word.iter().all(|&byte| byte == word[0]);
                torn = torn.or(into.chunks(8).find(|word| !whole(word)).map(<[u8]>::to_vec));
                changes += u32::from(into[0] != last);
                last = into[0];
            }
        }
        // Relaxed: as above.
        over.store(true, Ordering::Relaxed);
        assert_eq!(torn, None, "after {changes} changes");
        assert!(changes > 100, "the race did not take place");
    });
}

#[test]
fn stores_of_two_parts_have_one_order() {
    let journal = std::sync::Arc::new(Journal::new(256));
    let [one, other] = [0, 128].map(|start| JournalPart::new(&journal, start, 128));
    other.store(8, 7);
    one.store(8, 5);
    let seen = |moment| [8, 136].map(|at| journal.at(moment, at, 8)[0]);
    assert_eq!([0, 1, 2].map(seen), [[0, 0], [0, 7], [5, 7]]);
    assert_eq!(one.cuts(8, 8, 0, 2).len(), 2, "of its own line alone");
}

#[test]
#[should_panic(expected = "16 bytes at 120 are not within 128")]
fn a_part_ends_where_the_next_one_begins() {
    JournalPart::new(&std::sync::Arc::new(Journal::new(256)), 0, 128).copy_out(120, &mut [0; 16]);
}

#[test]
fn memory_without_a_file_is_given_to_nobody() {
    let options = RegionOptions { name: "own".into(), bytes: 5000, backing: Backing::Private };
    let region = Region::create(&options).expect("memory");
    assert_eq!(region.bytes(), 8192);
    assert!((0..8192).step_by(8).all(|at| region.memory().load(at) == 0));
    region.memory().store(8184, 7);
    assert_eq!(region.memory().load(8184), 7);
    if !cfg!(feature = "simulated") {
        let refused = region.file().err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), Some("region own has no file to pass to a peer"));
        assert!(region.read_only_file().is_err());
    }
}

/// Whatever instruction the processor has for it: bytes stay as they are, and ranges need not be whole lines.
#[test]
fn writing_back_changes_nothing() {
    let options = RegionOptions { name: "persistent".into(), bytes: 4096, backing: Backing::Memory };
    let region = Region::create(&options).expect("memory");
    let memory = region.memory();
    for (at, len) in [(0, 8), (56, 16), (64, 64), (4088, 8), (0, 4096), (128, 0)] {
        memory.store(at, 1 + at);
        memory.flush(at, len);
        memory.fence();
        assert_eq!(memory.load(at), 1 + at);
    }
}

#[test]
fn flushed_lines_and_fences_are_counted() {
    let counted = Counted::new(Journal::new(1024));
    counted.store(56, 7);
    counted.flush(56, 16);
    counted.flush(128, 64);
    counted.fence();
    assert_eq!(counted.take(), PersistentWrites { lines: 3, fences: 1 });
    assert_eq!((counted.take(), counted.load(56)), (PersistentWrites::default(), 7));
}
