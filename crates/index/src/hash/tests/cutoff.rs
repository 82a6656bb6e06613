//! A server that is killed between any two stores: what a check says of its tables, and what a dump finds.

use longarm_memory::Journal;

use super::super::owner::Bound;
use super::*;

/// The memory as it was at a moment.
fn frozen(bed: &Bed<Journal>, moment: usize) -> Journal {
    Journal::of(&bed.memory.at(moment, 0, bed.memory.bytes() as usize))
}

/// The keys' hashes that a dump finds, each as often as it does, and the number of slots that it passes over.
fn dumped(bed: &Bed<Journal>, words: &Journal) -> (Vec<Hash>, usize) {
    let geometry = bed.owner.geometry();
    let (mut found, mut passed) = (Vec::new(), 0);
    for (at, table) in geometry.live().enumerate() {
        for pair in 0..table.pairs {
            let mut here = Vec::new();
            let each = |record: &Record<'_>| match bed.known_hash(record) {
                Ok(hash) if here.contains(&hash) => {}
                Ok(hash) => here.push(hash),
                Err(_) => passed += 1,
            };
            passed += items(words, table, pair, &bed.sums, each).expect("the pair stands still").torn;
            found.extend(here.into_iter().filter(|hash| has_moved(words, &geometry, at, *hash)));
        }
    }
    (found, passed)
}

/// Checks every moment of a change that is about one key.
fn check_cuts(bed: &Bed<Journal>, others: &[Vec<u8>], change: impl FnOnce()) {
    let from = bed.memory.now();
    change();
    let mut half = 0;
    for moment in from..=bed.memory.now() {
        let words = frozen(bed, moment);
        let check = |allowed| {
            verify(&words, &bed.owner.geometry(), &bed.sums, allowed, |record| bed.known_hash(record))
        };
        let report = check(1);
        assert_eq!(report.problem_count, 0, "{moment}: {:?}", report.problems);
        half += report.half;
        assert_eq!(check(0).problem_count, report.half, "one more than none is a problem");
        let (found, passed) = dumped(bed, &words);
        assert!(passed <= 1, "{moment}: {passed} slots");
        for key in others {
            let times = found.iter().filter(|hash| **hash == bed.hash(key)).count();
            assert_eq!(times, 1, "{moment}: {key:?}, while another key changes");
        }
    }
    assert!(half > 0 || bed.owner.newest().discipline == Discipline::OutOfPlace, "nothing was half changed");
}

#[test]
fn writes_that_are_cut_off_leave_one_pair_half_changed() {
    for (slots, discipline) in KINDS {
        let bed = bed(Journal::new(64 << 10), slots, discipline, 1);
        let others = bed.neighbours(3);
        others.iter().for_each(|key| _ = bed.put(key, b"v"));
        check_cuts(&bed, &others, || {
            bed.put(b"k", b"one");
            bed.put(b"k", b"two");
            bed.remove(b"k");
        });
    }
}

#[test]
fn moves_that_are_cut_off_leave_one_pair_half_changed_and_every_item() {
    for (slots, discipline) in KINDS {
        let bed = bed(Journal::new(64 << 10), slots, discipline, 1);
        let all = bed.neighbours(4);
        all.iter().for_each(|key| _ = bed.put(key, b"v"));
        bed.owner.add_table(32, bed.owner.newest().id, Bound::Budget).expect("memory");
        check_cuts(&bed, &all, || bed.owner.make_room(bed.hash(&all[0])).expect("moves"));
        assert_eq!(bed.check().items, 4);
    }
}

#[test]
fn compaction_that_is_cut_off_leaves_one_pair_half_changed_and_every_item() {
    for (slots, discipline) in KINDS {
        let bed = bed(Journal::new(64 << 10), slots, discipline, 1);
        let shape = bed.owner.newest().shape;
        let all = bed.neighbours(shape.bucket + shape.shared + 1);
        all.iter().for_each(|key| _ = bed.put(key, b"v"));
        assert!(bed.remove(&all[0]) && bed.check().extended == 1);
        check_cuts(&bed, &all[1..], || assert_eq!(bed.owner.compact_some(), 1));
    }
}
