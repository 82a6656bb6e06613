//! Nodes one by one: search, changes in place, prefixes, splits, and bytes that nobody wrote.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::edit;
use super::super::encode::{Aim, Frame, Item, encode, items, separator_len, size, split};
use super::super::layout::node;
use super::super::lines::Lines;
use super::super::record::Payload;
use super::*;

fn payload(csn: u64, expires: bool) -> Payload {
    let expiry = UnixMillis(if expires { csn } else { 0 });
    LeafRecord { csn: Csn(csn), entry: Some(place(csn)), expiry }.pack()
}

fn frame(class: u8) -> Frame<'static> {
    let none = SplitKey::whole(&[]);
    Frame { level: 0, class, right: None, low: none, high: none, first: None }
}

fn node_of(class: u8, keys: &[&[u8]]) -> Vec<u8> {
    let payloads: Vec<Payload> =
        (1..=keys.len() as u64).map(|csn| payload(csn, csn.is_multiple_of(3))).collect();
    let items: Vec<Item<'_>> = keys.iter().zip(&payloads).map(|(key, own)| Item::new(key, own)).collect();
    let mut bytes = vec![0xFF; Unit::Small.node_bytes(class)];
    encode(&mut bytes, &frame(class), &items);
    bytes
}

fn keys_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let view = NodeView::parse(bytes, Unit::Small).expect("a node");
    (0..view.count()).map(|i| [view.prefix(), view.suffix(i)].concat()).collect()
}

#[test]
fn keys_are_found_by_prefix_head_and_suffix() {
    let keys: [&[u8]; 8] =
        [b"pre", b"pre\0", b"prea", b"preab", b"preabcd", b"preabcde", b"preabcdf", b"pref"];
    let bytes = node_of(1, &keys);
    let view = NodeView::parse(&bytes, Unit::Small).expect("a node");
    assert_eq!(view.prefix(), b"pre");
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(view.position(key), Ok(i), "{key:?}");
        assert_eq!(view.record(i).expect("a record").csn, Csn(i as u64 + 1));
    }
    let absent: [(&[u8], usize); 7] =
        [(b"", 0), (b"p", 0), (b"pqz", 0), (b"prf", 8), (b"q", 8), (b"preaba", 4), (b"prez", 8)];
    for (key, at) in absent {
        assert_eq!(view.position(key), Err(at), "{key:?}");
    }
}

#[test]
fn a_record_that_becomes_longer_or_shorter_keeps_its_key() {
    let mut bytes = node_of(0, &[b"a", b"b", b"c"]);
    for (i, expires) in [(0, true), (1, true), (0, false), (2, false), (1, false), (1, true)] {
        assert!(edit::replace(&mut bytes, i, &payload(50, expires)).is_some());
        let view = NodeView::parse(&bytes, Unit::Small).expect("a node");
        assert_eq!(view.record(i), LeafRecord::unpack(payload(50, expires).bytes()));
    }
    assert_eq!(keys_of(&bytes), [b"a", b"b", b"c"]);
}

#[test]
fn without_room_nothing_changes() {
    let mut bytes = node_of(0, &[b"a", b"b"]);
    let mut key = 0;
    loop {
        let name = [b'c', b'0' + key];
        let before = bytes.clone();
        let at = NodeView::of(&bytes).count();
        if edit::insert(&mut bytes, at, &name, &payload(9, false)).is_none() {
            assert_eq!(bytes, before);
            break;
        }
        key += 1;
    }
    let before = bytes.clone();
    assert!(edit::replace(&mut bytes, 0, &payload(9, true)).is_none() && bytes == before);
    let mut other = node_of(0, &[b"aa", b"ab"]);
    assert_eq!(edit::insert(&mut other, 2, b"b", &payload(1, false)), None, "another prefix");
    edit::remove(&mut bytes, 0);
    assert_eq!(keys_of(&bytes).len(), usize::from(key) + 1);
}

#[test]
fn separators_are_the_shortest_that_part() {
    let cases: [[&[u8]; 3]; 4] =
        [[b"abc", b"abd", b"abd"], [b"a", b"zebra", b"z"], [b"ab", b"abc", b"abc"], [b"a", b"a\0x", b"a\0"]];
    for [left, right, separator] in cases {
        let len = separator_len(&SplitKey::whole(left), &SplitKey::whole(right));
        assert_eq!(&right[..len], separator);
    }
}

#[test]
fn nodes_are_split_where_the_aim_is() {
    let keys: Vec<Vec<u8>> = (0..40u8).map(|i| vec![b'k', i]).collect();
    let one = payload(1, false);
    let items: Vec<Item<'_>> = keys.iter().map(|key| Item::new(key, &one)).collect();
    let room = size(&frame(0), &items) * 4 / 5;
    let at = |aim| split(&frame(0), &items, room, aim).expect("a split").at;
    let (middle, left, right) = (at(Aim::Middle), at(Aim::Left(90)), at(Aim::Right(90)));
    assert!((19..=21).contains(&middle), "{middle}");
    assert!(left > 24 && right < 16 && left + right == 40, "{left} {right}");
    assert_eq!(split(&frame(0), &items, 100, Aim::Middle), None, "no half fits");
    // Whoever lacks the others' prefix makes long keys of those that are with it.
    let mut longer: Vec<Vec<u8>> = (0..30u8).map(|i| [&[b'p'; 400][..], &[i]].concat()).collect();
    longer.push(b"q".to_vec());
    let items: Vec<Item<'_>> = longer.iter().map(|key| Item::new(key, &one)).collect();
    let found = split(&frame(0), &items, 1300, Aim::Middle).expect("a split").at;
    assert!(found >= 28, "{found}");
}

#[test]
fn foreign_bytes_are_a_node_only_with_all_places_inside() {
    let good = node_of(0, &[b"key one", b"key two"]);
    assert!(NodeView::parse(&good, Unit::Small).is_some());
    assert!(
        NodeView::parse(&good, Unit::Kib).is_none() && NodeView::parse(&good[..128], Unit::Small).is_none()
    );
    // Shape: class, count, heap, prefix; fences; a slot's place, suffix and head.
    let slot = node::SLOTS;
    for (at, byte) in [
        (node::SHAPE + 1, 1),
        (node::SHAPE + 2, 200),
        (node::SHAPE + 5, 1),
        (node::SHAPE + 4, 40),
        (node::SHAPE + 7, 1),
        (node::FENCES + 2, 9),
        (slot, 3),
        (slot + 3, 1),
        (slot + 7, 0),
    ] {
        let mut bytes = good.clone();
        assert_ne!(bytes[at], byte);
        bytes[at] = byte;
        assert!(NodeView::parse(&bytes, Unit::Small).is_none(), "byte {at}");
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Put(Vec<u8>, bool),
    Remove(usize),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(0u8..3, 1..8),
        proptest::collection::vec(0u8..3, 1..5).prop_map(|tail| [&[7; 20][..], &tail].concat()),
    ]
}

/// The bytes with these lines as they are in others.
fn with_lines_of(mut bytes: Vec<u8>, lines: Lines, of: &[u8]) -> Vec<u8> {
    lines.ranges().for_each(|line| bytes[line.clone()].copy_from_slice(&of[line]));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// A node against a map, with changes in place where they fit and anew where not. In place, other lines
    /// than those that are named stay as they are.
    #[test]
    fn a_node_is_a_map(edits in proptest::collection::vec(prop_oneof![
        4 => (key(), any::<bool>()).prop_map(|(key, expires)| Edit::Put(key, expires)),
        1 => (0usize..20).prop_map(Edit::Remove),
    ], 1..80)) {
        let mut bytes = node_of(1, &[]);
        let mut map = BTreeMap::new();
        for (csn, edit) in (1..).zip(edits) {
            match edit {
                Edit::Put(key, expires) => {
                    let new = payload(csn, expires);
                    let (found, before) = (NodeView::of(&bytes).position(&key), bytes.clone());
                    prop_assert_eq!(found.is_ok(), map.contains_key(&key));
                    let done = match found {
                        Ok(i) => edit::replace(&mut bytes, i, &new),
                        Err(i) => edit::insert(&mut bytes, i, &key, &new),
                    };
                    if let Some(lines) = done {
                        prop_assert_eq!(with_lines_of(before, lines, &bytes), bytes.clone());
                    } else {
                        let view = NodeView::of(&before);
                        let mut all = items(&view, |_, i| Ok(i) != found);
                        all.insert(found.unwrap_or_else(|at| at), Item::new(&key, &new));
                        if size(&frame(1), &all) > bytes.len() {
                            continue;
                        }
                        encode(&mut bytes, &frame(1), &all);
                        prop_assert_eq!(NodeView::of(&bytes).used(), size(&frame(1), &all));
                    }
                    map.insert(key, new);
                }
                Edit::Remove(i) if i < map.len() => {
                    let key = map.keys().nth(i).expect("a key").clone();
                    map.remove(&key);
                    let before = bytes.clone();
                    let lines = edit::remove(&mut bytes, i);
                    prop_assert_eq!(with_lines_of(before, lines, &bytes), bytes.clone());
                }
                Edit::Remove(_) => {}
            }
            prop_assert_eq!(keys_of(&bytes), map.keys().cloned().collect::<Vec<_>>());
            let view = NodeView::of(&bytes);
            for (i, own) in map.values().enumerate() {
                prop_assert_eq!(view.payload(i), own.bytes());
            }
        }
    }

    /// Whatever bytes say, a look at them ends and stays inside.
    #[test]
    fn foreign_bytes_are_looked_at_without_harm(
        level in 0u8..3,
        flips in proptest::collection::vec((0usize..256, any::<u8>()), 0..6),
        key in key(),
    ) {
        let mut bytes = node_of(0, &[b"\x07a", b"\x07abcd", b"\x07b"]);
        bytes[node::SHAPE] = level;
        for (at, byte) in flips {
            bytes[at] = byte;
        }
        if let Some(view) = NodeView::parse(&bytes, Unit::Small) {
            let _ = (view.position(&key), view.child_of(&key), view.child_below(&key), view.used());
            let _ = (view.covers(&key), view.right(), view.mark(), view.child(0));
            for i in 0..view.count() {
                let _ = (view.key(i).len(), view.record(i), view.child(i + 1));
            }
        }
    }
}
