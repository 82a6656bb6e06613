//! Every cut of every READ across every kind of change: no search accepts what no atomic look would have
//! given.
//!
//! VERIFY C1, C2, C4, C5, B1: lines of a READ in any order, each at a moment of its own.

use longarm_base::Nanos;
use longarm_memory::{Cut, Journal};

use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Version(Csn),
    Absent,
    Again,
}

/// Runs a search whose READs are answered by `read`; forks wherever a READ has several outcomes.
fn explore(bed: &Bed<Journal>, key: &[u8], look: Look, window: (usize, usize)) -> Vec<(Answer, Cut)> {
    let geometry = bed.published.lock().expect("published").expect("geometry");
    let (search, step) = Search::start(bed.hash(key), &geometry, look);
    let start = Cut { bytes: Vec::new(), since: window.0, until: window.1 };
    let mut open = vec![(search, step, start, 0)];
    let mut answers = Vec::new();
    while let Some((mut search, step, evidence, depth)) = open.pop() {
        let answer = match step {
            Step::Read(_) if depth > 8 => Answer::Again,
            Step::Read(place) => {
                let cuts = bed.memory.cuts(place.offset, place.len as usize, evidence.since, window.1);
                for cut in cuts {
                    let Some(joined) = evidence.then(&cut) else { continue };
                    let mut fork = search.clone();
                    let next = fork.feed(key, &joined.bytes, &geometry, &bed.sums);
                    open.push((fork, next, joined, depth + 1));
                }
                continue;
            }
            Step::Found { csn, .. } => Answer::Version(csn),
            Step::Entry { entry, csn } if bed.book.is_of(entry, csn, key) => Answer::Version(csn),
            Step::Entry { csn, .. } => {
                let next = search.not_it(csn, &geometry);
                open.push((search, next, evidence, depth + 1));
                continue;
            }
            Step::Absent => Answer::Absent,
            Step::Torn | Step::Stale => Answer::Again,
        };
        answers.push((answer, evidence));
    }
    answers
}

/// What a search gives whose READs all happen at one moment.
fn atomic(bed: &Bed<Journal>, key: &[u8], look: Look, moment: usize) -> Answer {
    let mut answers = explore(bed, key, look, (moment, moment));
    assert_eq!(answers.len(), 1, "one moment, one outcome");
    answers.pop().expect("one").0
}

/// Checks every outcome of a GET of `key` over the stores that `change` makes.
fn check(bed: &Bed<Journal>, key: &[u8], change: impl FnOnce()) {
    let from = bed.memory.now();
    change();
    let to = bed.memory.now();
    for look in [Look::Segment, Look::Lines] {
        let truth: Vec<Answer> = (from..=to).map(|m| atomic(bed, key, look, m)).collect();
        let settled = truth.first() != Some(&Answer::Again) && truth.last() != Some(&Answer::Again);
        assert!(settled, "{look:?} {truth:?}");
        let outcomes = explore(bed, key, look, (from, to));
        assert!(outcomes.len() > to - from, "the change is seen in parts: {}", outcomes.len());
        let mut accepted = 0;
        for (answer, evidence) in outcomes {
            if answer == Answer::Again {
                continue;
            }
            accepted += 1;
            let (lo, hi) = evidence.interval();
            let allowed = &truth[lo - from..=hi - from];
            assert!(
                allowed.contains(&answer),
                "{look:?} accepted {answer:?} between {lo} and {hi}: {allowed:?}"
            );
        }
        assert!(accepted > 0);
    }
}

/// A key whose fingerprint and pair are those of `like`, in the first table.
fn twin(bed: &Bed<Journal>, like: &[u8]) -> Vec<u8> {
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
    each_kind(|bed| check(bed, b"k", || _ = bed.put(b"k", b"one")));
}

#[test]
fn replace_twice() {
    each_kind(|bed| {
        bed.put(b"k", b"one");
        check(bed, b"k", || {
            bed.put(b"k", b"two");
            bed.put(b"k", b"three");
        });
    });
}

#[test]
fn remove_and_insert_again() {
    each_kind(|bed| {
        bed.put(b"k", b"one");
        check(bed, b"k", || {
            bed.remove(b"k");
            bed.put(b"k", b"two");
        });
    });
}

/// The slot is reused for another key with the same fingerprint during the READ (C1, L14).
#[test]
fn slot_reused_by_a_twin_and_taken_back() {
    each_kind(|bed| {
        let twin = twin(bed, b"k");
        bed.put(b"k", b"one");
        check(bed, b"k", || {
            bed.remove(b"k");
            bed.put(&twin, b"other");
        });
        check(bed, b"k", || {
            bed.remove(&twin);
            bed.put(b"k", b"two");
        });
    });
}

/// Two updates in a row reuse the slot of two updates ago (C1, even and odd buckets).
#[test]
fn out_of_place_slots_come_back() {
    let bed = journal_bed(SlotKind::Pointer16, Discipline::OutOfPlace);
    for key in [&b"a"[..], b"b", b"c", b"d"] {
        bed.put(key, b"0");
        check(&bed, key, || {
            bed.put(key, b"1");
            bed.put(key, b"2");
        });
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
        check(&bed, last, || _ = bed.put(last, b"y"));
        assert_eq!(bed.check().extended, 1);
    }
}

/// A pair moves to the next table, and the key is replaced there (C5, I17).
#[test]
fn move_and_replace() {
    each_kind(|bed| {
        bed.put(b"k", b"one");
        bed.owner.grow().expect("memory");
        check(bed, b"k", || {
            bed.owner.make_room(bed.hash(b"k"), Nanos(0)).expect("moves the pair");
            bed.put(b"k", b"two");
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
            bed.owner.make_room(bed.hash(b"k"), Nanos(0)).expect("moves the pair");
            bed.put(b"k", b"new");
        });
    });
}
