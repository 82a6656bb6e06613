//! Entries that wait to go into the tree.

use super::*;

/// While nobody scans, what is taken waits for more, and no page is made without it.
#[test]
fn entries_wait_for_others_while_nobody_scans_but_not_for_long() {
    let mut world = World::new();
    world.be_ready();
    world.put(0, 1);
    let step = world.step();
    assert!(matches!(world.try_look(false), Ok(1)));
    assert_eq!((world.step(), world.following.lag()), (step, 1));
    assert!(!world.following.is_still(Nanos::from_millis(world.drawn)), "it is to look again");
    let conflicts = world.following.conflicts(&mut world.arena, Nanos(0)).expect("all is here");
    assert!(conflicts.any(|key| key == name(1)) && !conflicts.any(|key| key == name(2)));
    let looks = (0..).find(|_| matches!(world.try_look(false), Ok(0)) && world.step() > step);
    assert!(looks.is_some_and(|looks| looks > 50 && looks < 150), "{looks:?} milliseconds");
    world.put(0, 2);
    assert!(matches!(world.try_look(false), Ok(1)));
    world.advance();
    assert_eq!(world.following.lag(), 0, "a request waits for none");
    assert!(world.tree.as_mut().expect("a tree").get(&name(2)).is_some());
}
