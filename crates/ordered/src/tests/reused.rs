//! Places that the tree names, and that were used for something else since.

use longarm_index::tree::{EntryKind, TreeEntry};
use longarm_store::object::layout as words;

use super::*;

/// Found by the simulator: a value was written where an entry had been, and its bytes looked like the words
/// of an entry of that version, younger than any. The tree kept the place, whatever copies of the entry came.
#[test]
fn a_value_that_looks_like_a_younger_entry_is_none() {
    let mut world = World::new();
    world.be_ready();
    world.put(0, 1);
    world.advance();
    let place = world.place(1);
    let of =
        |world: &mut World| world.tree.as_mut().expect("a tree").get(&name(1)).expect("an item").entry.offset;
    assert_eq!(of(&mut world), place.offset);
    let csn = world.visible(&name(1)).expect("an item");
    // All but the words that tell version and age.
    for at in (0..u64::from(place.len)).step_by(8).filter(|at| *at != words::VERSION) {
        world.entries.store(place.offset + at, u64::MAX >> 1);
    }
    let copy = EntryRef { offset: place.offset + 4096, len: place.len };
    let key = name(1);
    let moved =
        TreeEntry { key: &key, kind: EntryKind::Move, csn, age: 1, entry: copy, expiry: UnixMillis::NEVER };
    assert!(world.tree.as_mut().expect("a tree").begin().apply(&moved).expect("room"));
    assert_eq!(of(&mut world), copy.offset);
}
