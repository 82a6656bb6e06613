//! More keys than a pair takes: they are refused, stand beside the table if they must, and keep nobody else
//! from anything.

use std::sync::atomic::Ordering;

use longarm_memory::{Backing, Mapped, Region, RegionOptions};

use super::super::compact::COMPACT_PAIRS;
use super::super::owner::Bound;
use super::super::owner::NoRoom;
use super::*;

/// So many keys that stay in one pair of any table of fewer than `1 << bits` pairs.
pub fn crowd<M: OwnedWords>(bed: &Bed<M>, bits: u32, keys: usize) -> Vec<Vec<u8>> {
    let top = |key: &[u8]| bed.hash(key).0 >> (64 - bits);
    let wanted = top(b"crowd");
    let names = (0u64..).map(|i| format!("crowd{i}").into_bytes());
    names.filter(|key| top(key) == wanted).take(keys).collect()
}

/// What an insert comes to that makes room where there is some to be had.
fn insert<M: OwnedWords>(bed: &Bed<M>, key: &[u8]) -> Result<(), NoRoom> {
    loop {
        let hash = bed.hash(key);
        let csn = bed.next_csn();
        let (expiry, value) = (UnixMillis::NEVER, &b"value"[..]);
        let done =
            bed.owner.read().lock(hash).insert(&Record::Inline { csn, key, value, expiry, entry: None });
        let Err(_) = done else { return Ok(()) };
        bed.owner.make_room(hash)?;
    }
}

fn mapped(bytes: u64) -> Mapped {
    let options = RegionOptions { name: "index".into(), bytes, backing: Backing::Memory };
    Region::create(&options).expect("memfd").memory().clone()
}

#[test]
fn keys_that_growth_would_not_part_are_refused_and_do_not_make_it_grow() {
    for (slots, discipline) in [KINDS[0], KINDS[1]] {
        let bed = bed(Journal::new(4 << 20), slots, discipline, 100);
        let before = bed.owner.geometry();
        let crowd = crowd(&bed, 12, 40);
        let fits = crowd.iter().take_while(|key| bed.try_put(key, b"v").is_ok()).count();
        let shape = PairShape::of(slots);
        assert_eq!(fits, shape.bucket + shape.shared + 16, "as many as a pair takes");
        for key in &crowd[fits..] {
            assert_eq!(bed.try_put(key, b"v"), Err(NoRoom::Pair));
        }
        assert_eq!(bed.owner.geometry(), before);
        // Whoever comes next is none the worse for it, and those that are there may change and go.
        let others = (0..40).filter(|i| bed.try_put(format!("other{i}").as_bytes(), b"v").is_ok()).count();
        assert!(others >= 35, "but for those of the very same pair: {others}");
        bed.put(&crowd[0], b"w");
        assert!(bed.remove(&crowd[1]) && bed.try_put(&crowd[fits], b"v").is_ok());
        assert_eq!(bed.check().spilled, 0);
    }
}

#[test]
fn only_a_pair_that_takes_no_more_is_tight() {
    for (slots, discipline) in [KINDS[0], KINDS[1]] {
        let bed = bed(Journal::new(4 << 20), slots, discipline, 100);
        let (crowd, other) = (crowd(&bed, 12, 40), bed.hash(b"other"));
        let is_tight = || bed.owner.is_tight(bed.hash(&crowd[0]));
        // Relaxed: this thread counted.
        let whole = || bed.owner.state.read().expect("index state").live[0].whole.load(Ordering::Relaxed);
        let fits = crowd.iter().take_while(|key| !is_tight() && bed.try_put(key, b"v").is_ok()).count();
        assert!(fits > PairShape::of(slots).bucket, "it got added groups: {fits} keys");
        assert!(is_tight() && !bed.owner.is_tight(other) && whole() == 1);
        assert!(crowd[..fits].iter().all(|key| bed.remove(key)));
        assert!(!is_tight() && whole() == 0, "the groups went back");
    }
}

/// In a group such keys may be on their way to the followers already, or stand in the arena of an earlier
/// leader: they must find their place.
#[test]
fn what_was_accepted_stands_beside_the_table_and_moves_with_its_pair() {
    for (slots, discipline) in KINDS {
        let bed = bed(Journal::new(4 << 20), slots, discipline, 1);
        let crowd = crowd(&bed, 12, 60);
        let mut versions: Vec<_> = crowd.iter().map(|key| bed.put(key, b"one")).collect();
        assert!(bed.owner.spilled() >= 30 && bed.check().spilled == 1);
        // It grows, with what stands beside it.
        for i in 0..2_000u32 {
            bed.put(&i.to_le_bytes(), b"other");
        }
        while bed.owner.move_some(10) == Moved::More {}
        assert!(bed.owner.geometry().epoch > 2);
        for (i, key) in crowd.iter().enumerate() {
            if i % 3 == 0 {
                versions[i] = bed.put(key, b"two");
            }
            for granularity in [ReadGranularity::Window, ReadGranularity::Lines] {
                assert_eq!(bed.get(key, granularity).0, Some(versions[i]), "key {i}");
            }
        }
        let table = *bed.owner.geometry().live().last().expect("table");
        let (pair, _) = table.home(bed.hash(&crowd[0]));
        let all = bed.owner.read().lock_nth(0, pair).expect("there is one table").all();
        assert!(versions.iter().all(|csn| all.iter().any(|found| found.record().csn() == *csn)));
        assert_eq!(bed.get(b"nobody", ReadGranularity::Lines).0, None);
        assert!(crowd.iter().all(|key| bed.remove(key)));
        bed.check();
        assert_eq!(bed.owner.items(), 2_000);
    }
}

/// A follower's arena is overwritten by its leader, while the follower keeps its standby index: what a record
/// names may be gone as soon as it was found.
#[test]
fn what_stands_beside_the_table_changes_and_goes_without_its_entry() {
    for (slots, discipline) in KINDS {
        let bed = bed(Journal::new(4 << 20), slots, discipline, 1);
        let crowd = crowd(&bed, 12, 60);
        // Too long to stand inline.
        for key in &crowd {
            bed.put(key, &[1; 100]);
        }
        let beside = bed.owner.spilled();
        let forget = || std::mem::take(&mut *bed.book.entries.lock().expect("book"));
        for key in &crowd {
            let index = bed.owner.read();
            let mut pair = index.lock(bed.hash(key));
            let found = pair.find(key).expect("it was put");
            let known = forget();
            if discipline == Discipline::InPlace {
                let (csn, hash, expiry) = (bed.next_csn(), bed.hash(key), UnixMillis::NEVER);
                let entry = EntryRef { offset: csn.0 * 64, len: 64 };
                pair.replace(&found, &Record::Entry { csn, entry, hash, expiry }).expect("room");
                assert!(pair.all().iter().any(|found| found.record().csn() == csn));
            }
            drop(pair);
            *bed.book.entries.lock().expect("book") = known;
        }
        assert_eq!((bed.owner.spilled(), bed.owner.items()), (beside, 60));
        forget();
        crowd.iter().for_each(|key| bed.owner.read().lock(bed.hash(key)).remove_gone(|_| true));
        assert_eq!((bed.owner.spilled(), bed.owner.items()), (0, 0));
    }
}

/// Two full pairs of one table can be one pair of the next, whose pairs begin elsewhere.
#[test]
fn a_move_always_finds_room() {
    let bed = bed(Journal::new(4 << 20), SlotKind::Inline64, Discipline::InPlace, 1);
    let table = bed.owner.newest();
    let keys: Vec<_> = (0u32..)
        .map(|i| i.to_le_bytes())
        .filter(|key| table.home(bed.hash(key)).0 < 2)
        .filter(|key| bed.try_put(key, b"v").is_ok())
        .take(40)
        .collect();
    bed.owner.add_table(table.pairs / 2, table.id, Bound::Budget).expect("memory");
    while bed.owner.move_some(5) == Moved::More {}
    assert_eq!(bed.owner.geometry().live().count(), 1);
    assert!(bed.owner.spilled() > 0);
    assert!(keys.iter().all(|key| bed.get(key, ReadGranularity::Window).0.is_some()));
    bed.check();
}

/// What stands beside a table belongs to a pair by its hash, and that pair has not moved yet.
#[test]
fn what_stands_beside_an_older_table_is_no_item_of_the_next() {
    for (slots, discipline) in KINDS {
        let bed = bed(Journal::new(4 << 20), slots, discipline, 1);
        let crowd = crowd(&bed, 12, 60);
        crowd.iter().for_each(|key| _ = bed.put(key, b"v"));
        while bed.owner.move_some(100) == Moved::More {}
        let (table, beside) = (bed.owner.newest(), bed.owner.spilled());
        bed.owner.add_table(5, table.id, Bound::Budget).expect("memory");
        let (next, hash) = (bed.owner.newest(), bed.hash(&crowd[0]));
        // Of another pair now, and of the same one in the next table.
        let names = (0u32..).map(|i| format!("other{i}").into_bytes());
        let is_near =
            |near: Hash| table.home(near).0 != table.home(hash).0 && next.home(near) == next.home(hash);
        let other = names.take(100_000).find(|key| is_near(bed.hash(key))).expect("a key");
        bed.owner.make_room(bed.hash(&other)).expect("moves the pair");
        let csn = bed.next_csn();
        let entry = EntryRef { offset: csn.0 * 64, len: 64 };
        bed.book.entries.lock().expect("book").insert(entry.offset, (csn, other.clone()));
        let (hash, expiry) = (bed.hash(&other), UnixMillis::NEVER);
        bed.owner.read().lock(hash).spill(&other, &Record::Entry { csn, entry, hash, expiry });
        assert_eq!(bed.owner.spilled(), beside + 1);
        let all = |at, pair| bed.owner.read().lock_nth(at, pair).expect("it has not moved").all();
        let here = all(1, next.home(hash).0);
        assert_eq!(here.iter().map(|found| found.record().csn()).collect::<Vec<_>>(), [csn]);
        assert_eq!(all(0, table.home(bed.hash(&crowd[0])).0).len(), crowd.len());
    }
}

/// Where the table cannot grow, what deletes give back is there for other keys.
#[test]
fn deletes_make_room_where_the_table_cannot_grow() {
    let bed = bed(mapped(1 << 20), SlotKind::Inline64, Discipline::InPlace, 6_000);
    let slots = bed.owner.newest().pairs * PairShape::INLINE.base_slots() as u64;
    let key = |i: u64| i.to_le_bytes();
    let mut next = 0;
    let mut fill = || {
        while insert(&bed, &key(next)).is_ok() {
            next += 1;
        }
        next += 1;
        bed.check().items
    };
    let full = fill();
    assert!(full * 10 > slots * 7, "{full} in {slots} slots");
    for round in 0..10u64 {
        let last = bed.next_csn().0;
        (0..last).filter(|i| (i + round) % 2 == 0).for_each(|i| _ = bed.remove(&key(i)));
        assert!(bed.check().items * 3 < full * 2);
        let again = fill();
        assert!(again * 10 > full * 8, "round {round}: {again}, {full} at first, in {slots} slots");
    }
}

/// The same where what was there first goes: the younger keys stand in added groups, and stay.
#[test]
fn deletes_of_the_oldest_make_room_where_the_table_cannot_grow() {
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        let bed = bed(mapped(1 << 20), slots, Discipline::InPlace, 6_000);
        let key = |i: u64| i.to_le_bytes();
        let fill =
            |from: u64| (from..).find(|i| bed.try_put(&key(*i), b"v").is_err()).expect("it is full at last");
        let (mut first, mut next) = (0, fill(0));
        for round in 0..10 {
            let gone = (next - first) / 2;
            (first..first + gone).for_each(|i| assert!(bed.remove(&key(i))));
            first += gone;
            // The key that was refused comes first.
            let again = fill(next) - next;
            assert!(again * 10 > gone * 8, "round {round}: {again} of {gone}: {:?}", bed.check());
            next += again;
            let seen = |i: u64| bed.get(&key(i), ReadGranularity::Window).0.is_some();
            assert!((first..next).all(seen) && !seen(next));
        }
    }
}

/// In a table that is full for good, as a cache is at its limit, most writes find no room at first.
#[test]
fn whoever_finds_no_room_looks_at_no_pair_a_second_time() {
    let bed = bed(mapped(1 << 20), SlotKind::Inline64, Discipline::InPlace, 6_000);
    let pairs = bed.owner.newest().pairs;
    let refused = (0..100_000u64).filter(|i| bed.try_put(&i.to_le_bytes(), b"v").is_err()).count();
    let live = bed.owner.state.read().expect("index state").live.last().expect("a table").clone();
    // Relaxed: this thread counted.
    let seen = live.compacted.load(Ordering::Relaxed);
    assert!(
        refused > 50_000 && (pairs..pairs + COMPACT_PAIRS).contains(&seen),
        "{refused} refused, {seen} of {pairs} seen"
    );
}
