//! Cache lines that an operation makes persistent, beside table I of the paper (continuity hashing V.B).

use longarm_memory::{Counted, PersistentWrites};

use super::super::owner::Bound;
use super::*;

const SLOTS: [SlotKind; 2] = [SlotKind::Inline64, SlotKind::Pointer16];

fn counted(slots: SlotKind) -> Bed<Counted<Journal>> {
    bed(Counted::new(Journal::new(128 << 10)), slots, Discipline::OutOfPlace, 1)
}

/// Each line is fenced before the next store that rests on it.
fn lines(bed: &Bed<Counted<Journal>>) -> u64 {
    let PersistentWrites { lines, fences } = bed.memory.take();
    assert_eq!(lines, fences, "a fence behind each line");
    lines
}

/// "Continuity 2 2 1; Level 2 - 2.01, 2 - 5, 1; P-FaRM-KV 5 5 5".
#[test]
fn an_insertion_and_an_update_take_two_persistent_writes_and_a_deletion_one() {
    for slots in SLOTS {
        let bed = counted(slots);
        lines(&bed);
        bed.put(b"k", b"one");
        let insertion = lines(&bed);
        bed.put(b"k", b"two");
        let update = lines(&bed);
        bed.remove(b"k");
        let deletion = lines(&bed);
        assert_eq!([insertion, update, deletion], [2, 2, 1]);
    }
}

/// What the paper does not count: one more when a pair gets an added group, or gives one back.
#[test]
fn a_group_that_comes_or_goes_takes_one_more() {
    for slots in SLOTS {
        let bed = counted(slots);
        let table = bed.owner.newest();
        let crowd = bed.keys_at(|home| home == (0, false), table.shape.bucket + table.shape.shared + 1);
        let (last, most) = crowd.split_last().expect("some");
        most.iter().for_each(|key| _ = bed.put(key, b"v"));
        lines(&bed);
        bed.put(last, b"v");
        assert_eq!(lines(&bed), 3);
        bed.remove(last);
        assert_eq!(lines(&bed), 2);
    }
}

/// An item that moves to a larger table takes an insertion there; all items of its pair are deleted here by
/// one write, where the paper has one each (III.C, log-free resizing).
#[test]
fn a_move_takes_two_an_item_and_one_a_pair() {
    for slots in SLOTS {
        let bed = counted(slots);
        let table = bed.owner.newest();
        let crowd = bed.keys_at(|(pair, _)| pair == 0, 6);
        crowd.iter().for_each(|key| _ = bed.put(key, b"v"));
        bed.owner.add_table(64, table.id, Bound::Budget).expect("memory");
        lines(&bed);
        bed.owner.make_room(bed.hash(&crowd[0])).expect("moves");
        assert_eq!(lines(&bed), 6 * 2 + 1);
        assert_eq!(bed.check().items, 6);
    }
}
