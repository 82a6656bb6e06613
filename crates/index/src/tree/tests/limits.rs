//! Limits: memory, lengths of keys, trees that are built or emptied, long steps, and a reader in foreign
//! bytes.

use longarm_memory::{Journal, Mapped};
use proptest::prelude::*;

use super::super::layout::{HEADER_ROOM, NODES_AT};
use super::model::region;
use super::*;

fn name(i: u64) -> Vec<u8> {
    longarm_base::random::mix64(i).to_le_bytes().to_vec()
}

#[test]
fn a_tree_without_room_says_so_and_stays_as_it_is() {
    let options = TreeOptions { bytes_max: NODES_AT + (160 << 10), ..SMALL };
    let mut bed = bed(region(1 << 20), options);
    let mut keys: Vec<Vec<u8>> = (0..)
        .map_while(|i| {
            bed.csn += 1;
            let (key, csn) = (name(i), bed.csn);
            match bed.owner.begin().apply(&put_of(&key, csn)) {
                Ok(true) => Some(key),
                other => {
                    assert_eq!(other, Err(TreeFull { bytes: NODES_AT + (160 << 10) }));
                    None
                }
            }
        })
        .collect();
    bed.publish();
    keys.sort();
    let report = bed.check();
    assert!(report.levels.len() >= 3 && report.units * 256 > 80 << 10, "{report:?}");
    assert_eq!(bed.all().into_iter().map(|(key, _)| key).collect::<Vec<_>>(), keys);
    // What is deleted makes room again, once nobody needs its marker.
    let gone: Vec<&[u8]> = keys.iter().skip(1).map(Vec::as_slice).collect();
    bed.delete(&gone);
    while bed.owner.begin().sweep(usize::MAX).merged > 0 {
        bed.publish();
        bed.check();
    }
    assert_eq!(bed.check().nodes(), 1);
    (0..100).for_each(|i| _ = bed.put(&[&name(1 << 20 | i)]));
    assert_eq!(bed.check().items, 101);
}

#[test]
fn a_region_without_room_for_one_block_holds_no_tree() {
    let create = |bytes| {
        Owner::create(region(bytes), Arc::new(Book::default()), SumKey::new(1), 1, TreeOptions::default())
    };
    assert_eq!(create(NODES_AT).err(), Some(TreeFull { bytes: NODES_AT }));
    assert!(create(NODES_AT + (8 << 10)).is_ok());
}

#[test]
fn keys_of_one_kib_fill_nodes_of_eight() {
    let mut bed = bed(region(4 << 20), TreeOptions::default());
    let long = |i: u64| [&name(i)[..], &[b'l'; 1016]].concat();
    for i in 0..300 {
        assert_eq!(bed.put(&[&long(i)]), i + 2);
    }
    let report = bed.check();
    assert_eq!(report.items, 300);
    let per_key = report.units * 1024 / 300;
    assert!(per_key < 2200, "{per_key} bytes a key");
    let longer = std::panic::AssertUnwindSafe(move || bed.put(&[&[0; 1025]]));
    assert!(std::panic::catch_unwind(longer).is_err(), "longer than a key may be");
}

#[test]
fn a_tree_that_is_built_is_as_one_that_grew() {
    let mut keys: Vec<Vec<u8>> = (0..5000).map(name).collect();
    keys.extend((0..200).map(|i| [&b"x/long/common/prefix/"[..], &[b'0'; 300], &name(i)].concat()));
    keys.sort();
    for count in [0, 1, 20, 1000, keys.len()] {
        let book = Arc::new(Book::default());
        let (memory, sums) = (Arc::new(region(4 << 20)), SumKey::new(99));
        let options = TreeOptions::default();
        let mut builder = Builder::new(memory.clone(), book.clone(), sums.clone(), 5, options).expect("room");
        let record = |csn: u64| LeafRecord {
            csn: Csn(csn),
            entry: (!csn.is_multiple_of(7)).then_some(place(csn)),
            expiry: UnixMillis::NEVER,
        };
        for (csn, key) in (1..).zip(&keys[..count]) {
            builder.push(key, &record(csn)).expect("room");
        }
        let owner = builder.finish(&standing(0)).expect("room");
        let mut bed = Bed { memory, owner, book, sums, csn: count as u64 };
        let report = bed.check();
        assert_eq!((report.items + report.markers) as usize, count);
        let live = (1..=count as u64).filter(|csn| !csn.is_multiple_of(7)).count();
        assert_eq!((bed.all().len(), bed.read(&TreeRange::ALL).0.len()), (live, live));
        if count >= 1000 {
            let full = report.used * 100 / (report.units * 1024);
            assert!((65..=92).contains(&full), "{full} % of {count} keys");
        }
        // It goes on as any other.
        for i in 10_000..10_500 {
            bed.put(&[&name(i)]);
        }
        assert_eq!(bed.check().items as usize, live + 500);
    }
}

#[test]
fn a_tree_is_emptied_and_built_anew_under_another_incarnation() {
    let mut bed = bed(region(4 << 20), SMALL);
    (0..300).for_each(|i| _ = bed.put(&[&name(i)]));
    let old = bed.header();
    bed.owner.reset(78, &standing(bed.csn));
    assert_eq!((bed.all().len(), bed.check().nodes()), (0, 1));
    assert!(bed.header().step == old.step + 1 && bed.header().incarnation == 78);
    let sight = Sight { header: &old, sums: &bed.sums, bytes: bed.memory.bytes() };
    let (mut walk, _) = TreeWalk::start(&TreeRange::ALL, None, &sight);
    let mut bytes = vec![0; old.root.bytes(old.unit)];
    bed.memory.copy_out(old.root.at(old.unit), &mut bytes);
    assert!(matches!(walk.feed(old.root, &bytes, &sight), TreeStep::Torn), "nothing old is left");
    (0..300).for_each(|i| _ = bed.put(&[&name(i)]));
    let Bed { memory, owner, book, sums, csn } = bed;
    let mut builder = Builder::anew(owner, 79);
    let mut keys: Vec<_> = (0..500).map(name).collect();
    keys.sort();
    for (i, key) in keys.iter().enumerate() {
        let entry = Some(place(i as u64));
        builder.push(key, &LeafRecord { csn: Csn(csn), entry, expiry: UnixMillis::NEVER }).expect("room");
    }
    let owner = builder.finish(&standing(csn)).expect("room");
    let mut bed = Bed { memory, owner, book, sums, csn };
    assert_eq!((bed.check().items, bed.all().len()), (500, 500));
    assert!(bed.header().step > old.step + 300);
}

#[test]
fn a_tree_that_ends_leaves_zeroes_and_the_rest_of_its_memory_alone() {
    for pinned in [false, true] {
        let memory = region(4 << 20);
        if pinned {
            memory.pin();
        }
        let mut bed = bed(memory, SMALL);
        (0..300).for_each(|i| _ = bed.put(&[&name(i)]));
        let (header, last) = (bed.header(), bed.memory.bytes() - 8);
        let used = header.top * header.unit.bytes();
        assert!(used < 1 << 20, "{used} bytes are little");
        bed.memory.store(last, 1);
        bed.owner.end();
        assert!((0..used).step_by(8).all(|at| bed.memory.load(at) == 0));
        assert_eq!(bed.memory.load(last), 1, "what was not used is not touched");
    }
}

/// More changed nodes than a step keeps to itself: what is stored before its end is not seen before its end.
#[test]
fn a_step_of_very_many_entries_is_still_one() {
    let options = TreeOptions { least_keys: 2, ..SMALL };
    let mut bed = bed(region(16 << 20), options);
    bed.put(&[b"first"]);
    let before = bed.header();
    for i in 0..40_000 {
        bed.csn += 1;
        let (key, csn) = (name(i), bed.csn);
        assert_eq!(bed.owner.begin().apply(&put_of(&key, csn)), Ok(true));
    }
    assert_eq!(bed.header(), before);
    assert!(bed.memory.load(NODES_AT + (1 << 20)) != 0, "some of it is stored");
    bed.publish();
    assert_eq!((bed.check().items, bed.header().step), (40_001, before.step + 1));
}

#[test]
fn reads_of_a_walk_are_the_way_down_and_the_leaves() {
    let mut bed = bed(region(4 << 20), TreeOptions::default());
    let keys: Vec<Vec<u8>> = (0..2000).map(name).collect();
    for chunk in keys.chunks(100) {
        bed.put(&chunk.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    let levels = bed.check().levels;
    assert_eq!(bed.read(&TreeRange::ALL).1 as u64, levels[0] + levels.len() as u64 - 1);
    let one = Bound::Included(keys[7].as_slice());
    let (shown, reads) = bed.read(&TreeRange { low: one, high: one, reverse: false });
    assert_eq!((shown.len(), reads), (1, levels.len()));
}

#[test]
fn leaves_that_a_parent_names_are_those_that_come_next() {
    let mut bed = bed(region(1 << 20), SMALL);
    (0..200).for_each(|i| _ = bed.put(&[&name(i)]));
    let header = bed.header();
    let sight = Sight { header: &header, sums: &bed.sums, bytes: bed.memory.bytes() };
    let (mut walk, mut step) = TreeWalk::start(&TreeRange::ALL, None, &sight);
    let (mut guesses, mut followed) = (Vec::new(), 0);
    while let TreeStep::Read(pointer) = step {
        let mut bytes = vec![0; pointer.bytes(header.unit)];
        bed.memory.copy_out(pointer.at(header.unit), &mut bytes);
        if pointer.level == 1 {
            guesses = walk.guesses(&NodeView::parse(&bytes, header.unit).expect("a node")).collect();
            guesses.reverse();
        }
        step = match walk.feed(pointer, &bytes, &sight) {
            TreeStep::Read(next) => TreeStep::Read(next),
            TreeStep::Leaf(_) => walk.go_on(&TreeRange::ALL, &sight),
            other => panic!("{other:?} with nobody writing"),
        };
        if pointer.level == 0
            && let (TreeStep::Read(next), Some(guess)) = (step, guesses.pop())
        {
            assert_eq!(next, guess);
            followed += 1;
        }
    }
    assert!(matches!(step, TreeStep::End) && followed >= 2, "{step:?}, {followed} of a parent's");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Whatever stands in the region, a walk asks for nothing outside, ends, and shows nothing (X2).
    #[test]
    fn a_walk_in_garbage_ends(words in proptest::collection::vec(any::<u64>(), 1..40), key in any::<u64>(),
        reverse in any::<bool>()) {
        let bed = bed(Journal::new(NODES_AT + (64 << 10)), SMALL);
        let header = bed.header();
        let sight = Sight { header: &header, sums: &bed.sums, bytes: bed.memory.bytes() };
        for (i, word) in words.iter().enumerate() {
            let at = NODES_AT + word % (4 << 10) / 8 * 8;
            bed.memory.store(at, word.rotate_left(i as u32));
        }
        bed.memory.store(HEADER_ROOM + 40, key);
        let key = name(key);
        let range = TreeRange { low: Bound::Included(&key), high: Bound::Unbounded, reverse };
        let (mut walk, mut step) = TreeWalk::start(&range, None, &sight);
        for _ in 0..20 {
            let TreeStep::Read(pointer) = step else { break };
            let place = pointer.place(header.unit, sight.bytes).expect("within the region");
            let mut bytes = vec![0; place.len as usize];
            bed.memory.copy_out(place.offset, &mut bytes);
            step = match walk.feed(pointer, &bytes, &sight) {
                TreeStep::Leaf(leaf) => {
                    prop_assert_eq!(leaf.count(), 0, "only the root is a node");
                    walk.go_on(&range, &sight)
                }
                TreeStep::Read(pointer) => TreeStep::Read(pointer),
                _ => TreeStep::End,
            };
        }
        prop_assert!(!matches!(step, TreeStep::Read(_)));
        let _ = newest_header(&*bed.memory, &bed.sums);
    }
}

#[test]
fn a_check_finds_what_is_broken() {
    let mut bed: Bed<Mapped> = bed(region(1 << 20), SMALL);
    (0..100).for_each(|i| _ = bed.put(&[&name(i)]));
    let nodes = bed.check().nodes();
    let problems = |bed: &Bed<Mapped>| verify(&*bed.memory, &bed.sums, |_, _| Ok(())).problem_count;
    let root = bed.header().root.at(Unit::Small);
    for at in [root, root + 8, root + 16, root + 64] {
        let word = bed.memory.load(at);
        bed.memory.store(at, word ^ 1 << 40);
        assert!(problems(&bed) > 0, "{at}");
        bed.memory.store(at, word);
    }
    assert_eq!((problems(&bed), bed.check().nodes()), (0, nodes));
    let refuse =
        |_: &[u8], record: &LeafRecord| if record.csn.0 == 50 { Err("not there".into()) } else { Ok(()) };
    let report = verify(&*bed.memory, &bed.sums, refuse);
    assert!(report.problem_count == 1 && report.problems[0].contains("not there"));
    bed.memory.store(0, 1);
    bed.memory.store(HEADER_ROOM, 1);
    assert_eq!(problems(&bed), 1, "no header");
}
