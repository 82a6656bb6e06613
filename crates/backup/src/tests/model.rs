//! A backup has what the leader held at its version, whatever happens between its steps.

use proptest::prelude::*;

use super::leader::{Act, Backup, Leader, back_up, newest};
use crate::manifest::UseName;

/// Two of these fill more than half of a segment.
const LONG: usize = 300 << 10;

fn put(key: u8, len: usize) -> Act {
    Act::Put { key, len, ttl_ms: 0 }
}

/// A leader with some segments in use, of which some are dead.
fn filled() -> Leader {
    let mut leader = Leader::new();
    (0..6).for_each(|key| leader.act(put(key, LONG)));
    leader.act(Act::Delete { key: 0 });
    leader
}

/// The backup has exactly what the leader held.
fn check(leader: &Leader, backup: &Backup, case: &dyn std::fmt::Debug) {
    let held = leader.at(backup.start.csn);
    let found = newest(&backup.frames);
    let brief = |items: &std::collections::BTreeMap<u8, super::leader::Item>| {
        items.iter().map(|(key, item)| (*key, item.csn.0)).collect::<Vec<_>>()
    };
    assert_eq!(brief(&found), brief(&held), "{case:?}");
    assert!(found == held, "a value or an expiry differs: {case:?}");
}

/// Three bursts, at any three calls of the backup: keys are deleted, what is dead is collected and freed if
/// it may be, and its memory is used again.
#[test]
fn whatever_happens_between_its_steps_a_backup_is_what_was_held_at_its_version() {
    let calls = {
        let mut leader = filled();
        back_up(&mut leader, None).expect("nothing happens");
        leader.calls
    };
    assert!((8..60).contains(&calls), "{calls} calls");
    let deletes: Vec<Act> = (1..4).map(|key| Act::Delete { key }).collect();
    let collects = vec![Act::Empty, Act::Wait, Act::Empty, Act::Wait, Act::Collect];
    let refills: Vec<Act> = (3..9).map(|key| put(key, LONG)).chain([Act::Collect]).collect();
    let mut freed = 0;
    for first in 0..calls {
        for second in first..calls {
            for third in second..calls {
                let mut leader = filled();
                leader.script.resize(third + 1, Vec::new());
                leader.script[first].extend(&deletes);
                leader.script[second].extend(&collects);
                leader.script[third].extend(&refills);
                let before = leader.freed;
                let backup = back_up(&mut leader, None).expect("a backup");
                check(&leader, &backup, &(first, second, third));
                freed += leader.freed - before;
            }
        }
    }
    assert!(freed > 0, "no segment was freed in any of the runs");
}

/// What was only written later is not in it, though it stands in a segment that was copied.
#[test]
fn what_is_above_its_version_is_left_out() {
    let mut leader = Leader::new();
    leader.act(put(1, 40));
    // At the call behind the one that tells the version.
    leader.script = [vec![], vec![put(1, 50), put(2, 40), Act::Delete { key: 1 }]].into();
    let backup = back_up(&mut leader, None).expect("a backup");
    check(&leader, &backup, &"later writes");
    assert_eq!(newest(&backup.frames).len(), 1);
    assert!(backup.contents.iter().all(|it| !it.whole), "such a segment is taken again the next time");
}

/// A segment that the leader waits for is copied before others.
#[test]
fn what_is_waited_for_is_copied_first() {
    let mut leader = Leader::new();
    (0..12).for_each(|key| leader.act(put(key, LONG)));
    // All of the third segment.
    let deletes = (6..9).map(|key| Act::Delete { key });
    let dies = deletes.chain([Act::Collect, Act::Wait, Act::Collect, Act::Wait, Act::Collect]).collect();
    leader.script.resize(4, Vec::new());
    leader.script.push_back(dies);
    let backup = back_up(&mut leader, None).expect("a backup");
    check(&leader, &backup, &"order");
    let order: Vec<u32> = backup.frames.iter().map(|frame| frame.segment).collect();
    assert!(!order.is_sorted(), "they were copied in the order of segments: {order:?}");
}

fn act() -> impl Strategy<Value = Act> {
    let len = prop_oneof![3 => 0usize..2000, 2 => Just(LONG), 1 => 600_000usize..2_500_000];
    let ttl = prop_oneof![3 => Just(0u64), 1 => 1u64..1_000_000];
    prop_oneof![
        6 => (0u8..12, len, ttl).prop_map(|(key, len, ttl_ms)| Act::Put { key, len, ttl_ms }),
        3 => (0u8..12).prop_map(|key| Act::Delete { key }),
        2 => Just(Act::Collect),
        1 => Just(Act::Empty),
        2 => Just(Act::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_backup_is_what_was_held_at_its_version(
        before in proptest::collection::vec(act(), 0..60),
        during in proptest::collection::vec(proptest::collection::vec(act(), 0..4), 0..40),
    ) {
        let mut leader = Leader::new();
        before.iter().for_each(|act| leader.act(*act));
        leader.script = during.into();
        let backup = back_up(&mut leader, None).expect("a backup");
        check(&leader, &backup, &"drawn");
    }

    /// A backup that rests on others has with them what was held at its version, whatever was copied anew.
    #[test]
    fn backups_that_rest_on_each_other_are_what_was_held(
        rounds in proptest::collection::vec(
            (proptest::collection::vec(act(), 0..30), proptest::collection::vec(act(), 0..20)), 2..5),
    ) {
        let mut leader = Leader::new();
        let mut older = Vec::<Backup>::new();
        for (before, during) in rounds {
            before.iter().for_each(|act| leader.act(*act));
            leader.script = during.into_iter().map(|act| vec![act]).collect();
            let since = older.last().map(Backup::manifest);
            let backup = back_up(&mut leader, since.as_ref()).expect("a backup");
            let has = |name: UseName, of: &Backup| {
                of.frames.iter().find(|frame| {
                    let (segment, claim) = (frame.segment, frame.line.claim);
                    (segment, claim, frame.line.term.bits()) == (name.segment, name.claim, name.term)
                }).cloned()
            };
            let elsewhere = backup.contents.iter().filter(|it| !it.here);
            let rest = elsewhere.filter_map(|it| older.iter().rev().find_map(|of| has(it.name, of)));
            let frames = backup.frames.iter().cloned().chain(rest).collect();
            check(&leader, &Backup { frames, ..backup.clone() }, &"with older ones");
            older.push(backup);
        }
    }
}
