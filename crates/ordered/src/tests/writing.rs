//! A tree that is written in parts.

use longarm_index::tree::{EntryKind, TreeRange, verify};

use super::*;
use crate::arena::Seen;

/// Many times what is put in order at once, each key in several versions, some of them deletes, in no order:
/// the tree has the newest of each, and whoever asks in between is told how far it is.
#[test]
fn a_tree_that_is_written_in_parts_has_the_newest_of_each_key() {
    const KEYS: u64 = 30_000;
    let mut world = World::new();
    let mut build = Build::new(TERM, vec![0, 0], Uses::default());
    let mut model = BTreeMap::new();
    for csn in 1..=4 * KEYS {
        // Each key once before any comes again; longer and shorter ones with the same beginnings.
        let number = (csn * 7919) % KEYS;
        let key = format!("tenant{:02}:{:0width$}", number % 7, number, width = 4 + number as usize % 9);
        let kind = if (csn / 11).is_multiple_of(5) { EntryKind::Tombstone } else { EntryKind::Put };
        let place = EntryRef { offset: csn * 64, len: 64 };
        let seen = Seen {
            key: (0, 0),
            kind,
            csn: Csn(csn),
            age: u128::from(csn),
            place,
            expiry: UnixMillis::NEVER,
            copy: false,
        };
        build.found(key.as_bytes(), seen);
        model.insert(key.into_bytes(), (Csn(csn), (kind == EntryKind::Put).then_some(place)));
    }
    let mut writing = build.write(world.tree.take().expect("a tree"), 9);
    let mut percents = vec![writing.percent()];
    while !writing.go_on().expect("room") {
        percents.push(writing.percent());
    }
    assert!(percents.len() > 10 && percents.is_sorted() && percents[0] == 0, "{percents:?}");
    let (mut tree, right_at) = writing.finish().expect("room");
    assert_eq!(right_at, vec![0, 0]);
    let mut shown = Vec::new();
    let _ = tree.walk(&TreeRange::ALL, |item| {
        shown.push((item.key.to_vec(), (item.csn, Some(item.entry))));
        std::ops::ControlFlow::Continue(())
    });
    let items: Vec<_> = model.iter().filter(|(_, (_, place))| place.is_some()).collect();
    assert!(shown.iter().map(|(key, of)| (key, of)).eq(items));
    let report = verify(tree.memory(), &sums(), |_, _| Ok(()));
    assert_eq!((report.problem_count, report.items + report.markers), (0, KEYS), "{:?}", report.problems);
}

/// Found by the torture: the versions of one key were in two parts. Where there were many of them heads were
/// taken behind that key, and where there were few before its end, so that it seemed to be two keys.
#[test]
fn the_versions_of_one_key_in_two_parts_are_of_one_key() {
    const ALL: usize = 20_000;
    const VERSIONS: usize = 100;
    // The parts begin in the middle; so many versions of the key are before that.
    for early in [1, 10, 50, 90, 99] {
        let mut world = World::new();
        let mut build = Build::new(TERM, vec![0, 0], Uses::default());
        let key = |number: usize| format!("the same beginning {number:05}");
        let before = (0..ALL / 2 - early).map(key);
        let often = std::iter::repeat_n(key(ALL / 2), VERSIONS);
        let behind = (ALL / 2 + 1..ALL / 2 + 1 + ALL / 2 + early - VERSIONS).map(key);
        for (csn, key) in (1..).zip(before.chain(often).chain(behind)) {
            let seen = Seen {
                key: (0, 0),
                kind: EntryKind::Put,
                csn: Csn(csn),
                age: u128::from(csn),
                place: EntryRef { offset: csn * 64, len: 64 },
                expiry: UnixMillis::NEVER,
                copy: false,
            };
            build.found(key.as_bytes(), seen);
        }
        let mut writing = build.write(world.tree.take().expect("a tree"), 9);
        while !writing.go_on().expect("room") {}
        let (tree, _) = writing.finish().expect("room");
        let report = verify(tree.memory(), &sums(), |_, _| Ok(()));
        let items = (ALL - VERSIONS + 1) as u64;
        assert_eq!((report.problem_count, report.items), (0, items), "{:?}", report.problems);
    }
}
