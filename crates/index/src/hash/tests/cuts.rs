//! Every cut of every READ across every kind of change: no search, and no look at a remembered slot, accepts
//! what no atomic look would have given; and atomic looks see the key's history and nothing else.
//!
//! C1, C2, C4, C5, B1: lines of a READ in any order, each at a moment of its own.

use longarm_base::Place;
use longarm_memory::{Cut, Journal};

use super::super::layout::{GROUP_SLOTS, GROUPS_MAX};
use super::super::owner::Bound;
use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Version(Csn),
    Absent,
    Asked,
    Again,
}

use Answer::{Absent, Again, Asked, Version};

/// How clients look.
#[derive(Clone, Copy)]
struct Look {
    granularity: ReadGranularity,
    sampling: Sampling,
}

const LOOKS: [Look; 3] = [
    Look { granularity: ReadGranularity::Window, sampling: Sampling::Line },
    Look { granularity: ReadGranularity::Lines, sampling: Sampling::Line },
    Look { granularity: ReadGranularity::Lines, sampling: Sampling::Halves },
];

/// How a search can end.
pub struct Outcome {
    pub answer: Answer,
    evidence: Cut,
    /// What a client remembers of a record that it found in its slot: the table and where.
    slot: Option<(u32, Place)>,
}

/// How a READ samples a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sampling {
    /// At one moment, as a NIC does.
    Line,
    /// Its first half, and then its second one, as a processor that loads less than a line at once.
    Halves,
}

/// Every outcome of a READ of one line, or of lines.
fn cuts_of(bed: &Bed<Journal>, sampling: Sampling, place: Place, from: usize, to: usize) -> Vec<Cut> {
    let cuts = |at: u64, len: u32, from| bed.memory.cuts(at, len as usize, from, to);
    if sampling == Sampling::Line {
        return cuts(place.offset, place.len, from);
    }
    assert_eq!(place.len, 64, "a line");
    let both = |first: Cut| {
        let second = cuts(place.offset + 32, 32, from);
        second.into_iter().filter_map(move |second| {
            let joined = first.then(&second)?;
            Some(Cut { bytes: [first.bytes.clone(), second.bytes].concat(), ..joined })
        })
    };
    cuts(place.offset, 32, from).into_iter().flat_map(both).collect()
}

/// Runs a search over the memory of a window; forks wherever a READ has several outcomes.
fn explore(bed: &Bed<Journal>, key: &[u8], look: Look, from: usize, to: usize) -> Vec<Outcome> {
    let geometry = bed.published.lock().expect("published").expect("geometry");
    let (search, step) = Search::start(bed.hash(key), &geometry, look.granularity);
    let start = Cut { bytes: Vec::new(), since: from, until: to };
    let mut open = vec![(search, step, start, 0)];
    let mut answers = Vec::new();
    while let Some((mut search, step, evidence, depth)) = open.pop() {
        let mut remembered = None;
        let answer = match step {
            SearchStep::Read if depth > 8 => Again,
            SearchStep::Read => {
                let place = search.place();
                let cuts = match place.region {
                    INDEX_REGION => cuts_of(bed, look.sampling, place, evidence.since, to),
                    _ => vec![Cut { bytes: bed.heartbeat().to_vec(), ..evidence.clone() }],
                };
                for cut in cuts {
                    let Some(joined) = evidence.then(&cut) else { continue };
                    let mut fork = search.clone();
                    let next = fork.feed(key, &joined.bytes, &geometry, &bed.sums);
                    open.push((fork, next, joined, depth + 1));
                }
                continue;
            }
            SearchStep::Found => {
                let InlineItem { csn, slot, .. } = search.item();
                remembered = Some((search.table(&geometry).id, slot));
                Version(csn)
            }
            SearchStep::Entry { entry, csn } if bed.book.is_of(entry, csn, key) => Version(csn),
            SearchStep::Entry { entry, csn } if !bed.book.is_there(entry, csn) => Again,
            SearchStep::Entry { csn, .. } => {
                let next = search.not_it(csn, &geometry);
                open.push((search, next, evidence, depth + 1));
                continue;
            }
            SearchStep::Absent => Absent,
            SearchStep::Ask => Asked,
            SearchStep::Torn | SearchStep::Stale => Again,
        };
        answers.push(Outcome { answer, evidence, slot: remembered });
    }
    answers
}

/// How a search ends whose READs all happen at one moment.
pub fn atomic(bed: &Bed<Journal>, key: &[u8], granularity: ReadGranularity, moment: usize) -> Outcome {
    let look = Look { granularity, sampling: Sampling::Line };
    let mut outcomes = explore(bed, key, look, moment, moment);
    assert_eq!(outcomes.len(), 1, "one moment, one outcome");
    outcomes.pop().expect("one")
}

/// Checks every outcome of a GET of `key` over the stores that `change` makes, which returns what the key is
/// one after the other, from before it until after it.
fn check(bed: &Bed<Journal>, key: &[u8], change: impl FnOnce() -> Vec<Answer>) {
    check_in(bed, key, bed.owner.newest().discipline == Discipline::InPlace, change);
}

/// The same. `finely`: there are more outcomes than stores, as where all of them are to slots or headers that
/// the search looks at in place. Else there are at least as many as answers.
fn check_in(bed: &Bed<Journal>, key: &[u8], finely: bool, change: impl FnOnce() -> Vec<Answer>) {
    let from = bed.memory.now();
    let history = change();
    let to = bed.memory.now();
    for look in LOOKS {
        let (mut truth, mut slots) = (Vec::new(), Vec::new());
        for moment in from..=to {
            let Outcome { answer, slot, .. } = atomic(bed, key, look.granularity, moment);
            truth.push(answer);
            slots.extend(slot.filter(|slot| !slots.contains(slot)));
        }
        check_history(&truth, &history);
        let outcomes = explore(bed, key, look, from, to);
        let least = if finely { to - from + 1 } else { history.len() };
        assert!(outcomes.len() >= least, "the change is seen in parts: {}", outcomes.len());
        // The server can always be asked.
        let accepts = |outcome: &Outcome| !matches!(outcome.answer, Asked | Again);
        let accepted: Vec<_> = outcomes.into_iter().filter(accepts).collect();
        assert!(!accepted.is_empty());
        for Outcome { answer, evidence, .. } in accepted {
            check_allowed(answer, &evidence, &truth, from);
        }
        for (table, slot) in slots {
            for cut in bed.memory.cuts(slot.offset, 64, from, to) {
                let bytes = cut.bytes.first_chunk().expect("64 bytes");
                if let Some(item) = Search::check_slot(table, slot, key, bytes, &bed.sums) {
                    check_allowed(Version(item.csn), &cut, &truth, from);
                }
            }
        }
    }
}

/// What was accepted, an atomic look in the same interval would have given.
fn check_allowed(answer: Answer, evidence: &Cut, truth: &[Answer], from: usize) {
    let (lo, hi) = evidence.interval();
    let allowed = &truth[lo - from..=hi - from];
    assert!(allowed.contains(&answer), "accepted {answer:?} between {lo} and {hi}: {allowed:?}");
}

/// Looks one after the other go through the history: they begin and end with it, and do not go back.
fn check_history(truth: &[Answer], history: &[Answer]) {
    let ends = |of: &[Answer]| (of.first().copied(), of.last().copied());
    assert_eq!(ends(truth), ends(history), "{truth:?}");
    let mut left = history;
    for seen in truth.iter().filter(|seen| **seen != Again) {
        let at = left.iter().position(|now| now == seen);
        left = &left[at.unwrap_or_else(|| panic!("{seen:?} in {truth:?}, of {history:?}"))..];
    }
}

/// A key whose fingerprint and pair are those of `like`, in the first table.
pub fn twin(bed: &Bed<Journal>, like: &[u8]) -> Vec<u8> {
    let table = *bed.owner.geometry().live().next().expect("table");
    let (hash, home) = (bed.hash(like), table.home(bed.hash(like)));
    (0u32..)
        .map(|i| format!("twin{i}").into_bytes())
        .find(|key| {
            let other = bed.hash(key);
            other.fingerprint() == hash.fingerprint() && table.home(other) == home
        })
        .expect("one in a few thousand")
}

fn each_kind(test: impl Fn(&Bed<Journal>)) {
    for (slots, discipline) in KINDS {
        let bed = journal_bed(slots, discipline);
        bed.put(b"bystander", b"1");
        test(&bed);
        bed.check();
    }
}

#[test]
fn insert() {
    each_kind(|bed| check(bed, b"k", || vec![Absent, Version(bed.put(b"k", b"one"))]));
}

#[test]
fn replace_twice() {
    each_kind(|bed| {
        let one = bed.put(b"k", b"one");
        check(bed, b"k", || [one, bed.put(b"k", b"two"), bed.put(b"k", b"three")].map(Version).to_vec());
    });
}

#[test]
fn remove_and_insert_again() {
    each_kind(|bed| {
        let one = bed.put(b"k", b"one");
        check(bed, b"k", || {
            bed.remove(b"k");
            vec![Version(one), Absent, Version(bed.put(b"k", b"two"))]
        });
    });
}

/// The slot is reused for another key with the same fingerprint during the READ (C1, L14).
#[test]
fn slot_reused_by_a_twin_and_taken_back() {
    each_kind(|bed| {
        let twin = twin(bed, b"k");
        let one = bed.put(b"k", b"one");
        check(bed, b"k", || {
            bed.remove(b"k");
            bed.put(&twin, b"other");
            vec![Version(one), Absent]
        });
        check(bed, b"k", || {
            bed.remove(&twin);
            vec![Absent, Version(bed.put(b"k", b"two"))]
        });
    });
}

/// Out of place the key is replaced into the slot of a twin that goes: a READ may have the slot from before
/// that and the header from after it, and shows the key nowhere (C1).
#[test]
fn replaced_into_the_slot_of_a_twin() {
    each_kind(|bed| {
        let twin = twin(bed, b"k");
        bed.put(&twin, b"other");
        let one = bed.put(b"k", b"one");
        check(bed, b"k", || {
            bed.remove(&twin);
            vec![Version(one), Version(bed.put(b"k", b"two"))]
        });
    });
}

/// Out of place the key is replaced, and its old slot is another key's: a processor may load the indicator
/// from before that and the fingerprints from after it, and then the header alone shows no candidate.
#[test]
fn slot_left_to_another_key() {
    each_kind(|bed| {
        let home = bed.owner.newest().home(bed.hash(b"k"));
        let other = bed.keys_at(|of| of == home, 3).pop().expect("three");
        let one = bed.put(b"k", b"one");
        check_in(bed, b"k", false, || {
            let two = bed.put(b"k", b"two");
            bed.put(&other, b"other");
            vec![Version(one), Version(two)]
        });
    });
}

/// Two updates in a row reuse the slot of two updates ago (C1, even and odd buckets).
#[test]
fn out_of_place_slots_come_back() {
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        let bed = journal_bed(slots, Discipline::OutOfPlace);
        for key in [&b"a"[..], b"b", b"c", b"d"] {
            let zero = bed.put(key, b"0");
            check(&bed, key, || [zero, bed.put(key, b"1"), bed.put(key, b"2")].map(Version).to_vec());
        }
    }
}

/// Fills a pair until it adds a group: the new group's slots are seen rightly (C4).
#[test]
fn added_group() {
    for (slots, discipline) in KINDS {
        let bed = journal_bed(slots, discipline);
        let table = *bed.owner.geometry().live().next().expect("table");
        let crowd: Vec<Vec<u8>> = (0u32..)
            .map(|i| format!("crowd{i}").into_bytes())
            .filter(|key| table.home(bed.hash(key)) == (0, true))
            .take(table.shape.bucket + table.shape.shared + 1)
            .collect();
        for key in &crowd[..crowd.len() - 1] {
            bed.put(key, b"x");
        }
        let last = &crowd[crowd.len() - 1];
        check(&bed, last, || vec![Absent, Version(bed.put(last, b"y"))]);
        assert_eq!(bed.check().extended, 1);
    }
}

/// The slots of a group come back, and another pair takes them (C4).
#[test]
fn added_group_of_another_pair() {
    for (slots, discipline) in KINDS {
        let bed = journal_bed(slots, discipline);
        let table = *bed.owner.geometry().live().next().expect("table");
        let crowd = |home| {
            let names = (0u32..).map(|i| format!("crowd{i}").into_bytes());
            let belongs = names.filter(|key| table.home(bed.hash(key)) == home);
            belongs.take(table.shape.bucket + table.shape.shared + 1).collect::<Vec<_>>()
        };
        let (ours, theirs) = (crowd((0, true)), crowd((1, false)));
        for key in ours.iter().chain(&theirs[1..]) {
            bed.put(key, b"x");
        }
        let last = &ours[ours.len() - 1];
        let one = one_of(&bed, last);
        check(&bed, last, || {
            bed.remove(last);
            bed.put(&theirs[0], b"y");
            vec![Version(one), Absent, Version(bed.put(last, b"z"))]
        });
    }
}

/// A record of an added group moves back into its pair, where it may be replaced and go.
#[test]
fn move_within_the_pair() {
    for (slots, discipline) in KINDS {
        let bed = journal_bed(slots, discipline);
        let (table, twin) = (bed.owner.newest(), twin(&bed, b"k"));
        let home = table.home(bed.hash(b"k"));
        let names = (0u32..).map(|i| format!("crowd{i}").into_bytes());
        let crowd: Vec<_> = names
            .filter(|key| table.home(bed.hash(key)) == home)
            .take(table.shape.bucket + table.shape.shared - 1)
            .collect();
        bed.put(&twin, b"x");
        crowd.iter().for_each(|key| _ = bed.put(key, b"x"));
        let one = bed.put(b"k", b"one");
        assert_eq!(bed.check().extended, 1);
        check(&bed, b"k", || {
            // Whose slot it gets: by the fingerprint they are one.
            bed.remove(&twin);
            assert_eq!(bed.owner.compact_some(), 1);
            let two = bed.put(b"k", b"two");
            bed.remove(b"k");
            vec![Version(one), Version(two), Asked]
        });
        assert_eq!(bed.check().extended, 0);
    }
}

/// An entry is moved in the arena, whose pair has a free slot for that, or none.
#[test]
fn moved_entry() {
    each_kind(|bed| {
        let shape = bed.owner.newest().shape;
        let one = bed.put(b"k", &[1; 100]);
        let relocated = || {
            bed.relocate(b"k");
            vec![Version(one), Asked, Version(one)]
        };
        check_in(bed, b"k", false, relocated);
        for key in bed.neighbours(shape.bucket + shape.shared + GROUPS_MAX * GROUP_SLOTS) {
            assert!(bed.try_put(&key, b"x").is_ok() || bed.owner.is_tight(bed.hash(&key)));
        }
        check_in(bed, b"k", false, relocated);
    });
}

/// A pair moves where its records have no slots any more.
#[test]
fn move_beside_the_table() {
    for (slots, discipline) in KINDS {
        let bed = journal_bed(slots, discipline);
        let (table, shape) = (bed.owner.newest(), PairShape::of(slots));
        let keys = |pair, count| {
            let names = (0u32..).map(|i| format!("key{i}").into_bytes());
            names.filter(|key| table.home(bed.hash(key)).0 == pair).take(count).collect::<Vec<_>>()
        };
        // Three pairs become one, which two of them fill.
        let (keys, others, last) = (keys(0, 26), keys(2, shape.slots_max() - 26), &keys(1, 1)[0]);
        keys.iter().chain(&others).for_each(|key| _ = bed.put(key, b"one"));
        let one = bed.put(last, b"one");
        bed.owner.add_table(5, table.id, Bound::Budget).expect("memory");
        for first in [&keys[0], &others[0]] {
            bed.owner.make_room(bed.hash(first)).expect("moves the pair");
        }
        check(&bed, last, || {
            bed.owner.make_room(bed.hash(last)).expect("moves the pair");
            bed.put(last, b"two");
            bed.remove(last);
            vec![Version(one), Asked]
        });
        assert_eq!(bed.check().spilled, 1);
    }
}

fn one_of(bed: &Bed<Journal>, key: &[u8]) -> Csn {
    bed.owner.read().lock(bed.hash(key)).find(key).expect("it is there").record().csn()
}

/// A pair moves to the next table, and the key is replaced there (C5, I17).
#[test]
fn move_and_replace() {
    each_kind(|bed| {
        let one = bed.put(b"k", b"one");
        bed.owner.grow().expect("memory");
        check(bed, b"k", || {
            bed.owner.make_room(bed.hash(b"k")).expect("moves the pair");
            vec![Version(one), Version(bed.put(b"k", b"two"))]
        });
        assert!(bed.check().moved > 0);
    });
}

/// A miss stays a miss while the pair of the missing key moves, and a late insert in the next table is seen.
#[test]
fn move_and_insert() {
    each_kind(|bed| {
        let twin = twin(bed, b"k");
        bed.put(&twin, b"one");
        bed.owner.grow().expect("memory");
        check(bed, b"k", || {
            bed.owner.make_room(bed.hash(b"k")).expect("moves the pair");
            vec![Absent, Version(bed.put(b"k", b"new"))]
        });
    });
}
