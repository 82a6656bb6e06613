//! Every cut of every READ across a whole write. Index and arena are parts of one journal, so the order of
//! stores between them shows. Two readers one after the other, each by the index or by a remembered place,
//! never see the key go back (`docs/decisions`, decision 5).

use std::sync::{Arc, Mutex};

use longarm_base::{Csn, EntryRef, Nanos, Place, ReplicaId, Term};
use longarm_index::hash::{Discipline, Geometry, InlineItem, ReadGranularity, Search, SearchStep, SlotKind};
use longarm_memory::{Cut, Journal, JournalPart};
use longarm_store::object;
use longarm_wire::{ARENA_REGION, Request, RequestKind};

use crate::engine::Engine;
use crate::options::{EngineOptions, Eviction};
use crate::reclaim::Relocated;
use crate::session::Sessions;
use crate::testing::{TIMES, apply, build, execute, named, options, sums};
use crate::worker_context::WorkerContext;

const KEY: &[u8] = b"key";
const CONTROL: u64 = 4096;
const LIMIT: u64 = 16 << 20;
const ARENA: u64 = LIMIT + (1 << 20);

/// A reader's answer about the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Version(Csn),
    Absent,
}

use Answer::{Absent, Version};

/// The place at which a client remembers a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Located {
    Slot(u32, Place),
    Entry(EntryRef, Csn),
}

/// An accepted answer, and when the reader can have looked.
#[derive(Debug)]
struct Seen {
    answer: Answer,
    evidence: Cut,
    located: Option<Located>,
}

/// The READ of an entry.
fn whole(entry: EntryRef) -> Place {
    Place::new(ARENA_REGION, entry.offset, entry.len)
}

/// An engine whose regions (control page, index, arena) are parts of one journal.
struct Bed {
    journal: Arc<Journal>,
    regions: [JournalPart; 3],
    engine: Engine<JournalPart>,
    contexts: Mutex<Vec<WorkerContext<JournalPart>>>,
}

impl Bed {
    /// The bed of a server without followers, or of the leader of a group.
    fn new(slots: SlotKind, discipline: Discipline, term: Option<Term>) -> Bed {
        let journal = Arc::new(Journal::new(CONTROL + LIMIT + ARENA));
        let starts = [(0, CONTROL), (CONTROL, LIMIT), (CONTROL + LIMIT, ARENA)];
        let regions = starts.map(|(start, bytes)| JournalPart::new(&journal, start, bytes));
        if term.is_some() {
            longarm_store::format(&regions[2], &sums()).expect("an arena");
        }
        let options =
            EngineOptions { discipline, ..options(slots, Eviction::None, term.map(|term| (term, 0))) };
        let engine = build(regions.clone(), LIMIT, options);
        let contexts = Mutex::new((0..2).map(|stream| engine.worker_context(stream)).collect());
        Bed { journal, regions, engine, contexts }
    }

    fn write(&self, request: &Request<'_>) -> Csn {
        let context = &mut self.contexts.lock().expect("contexts")[0];
        let outcome = execute(&self.engine, context, TIMES, request).expect("there is room");
        assert_ne!(outcome.csn, Csn::NONE, "{request:?}: {outcome:?}");
        outcome.csn
    }

    fn put(&self, value: &[u8]) -> Csn {
        self.write(&Request { key: KEY, value, ..Request::new(RequestKind::Put, 0) })
    }

    /// Every outcome of this READ in the window.
    fn cuts(&self, place: Place, from: usize, to: usize) -> Vec<Cut> {
        let part = &self.regions[place.region.0 as usize - 1];
        part.cuts(place.offset, place.len as usize, from, to)
    }

    /// Every end of a search whose READs are within the window, except searches that begin again.
    fn search(&self, granularity: ReadGranularity, from: usize, to: usize) -> Vec<Seen> {
        let geometry: Geometry = self.engine.index.geometry();
        let (search, step) = Search::start(self.engine.hash(KEY), &geometry, granularity);
        let start = Cut { bytes: Vec::new(), since: from, until: to };
        let mut open = vec![(search, step, start, 0)];
        let mut seen = Vec::new();
        while let Some((search, step, evidence, depth)) = open.pop() {
            match step {
                SearchStep::Read if depth > 8 => {}
                SearchStep::Read => {
                    for cut in self.cuts(search.place(), evidence.since, to) {
                        let Some(joined) = evidence.then(&cut) else { continue };
                        let mut fork = search.clone();
                        let next = fork.feed(KEY, &joined.bytes, &geometry, &sums());
                        open.push((fork, next, joined, depth + 1));
                    }
                }
                SearchStep::Found => {
                    let InlineItem { csn, slot, .. } = search.item();
                    let located = Some(Located::Slot(search.table(&geometry).id, slot));
                    seen.push(Seen { answer: Version(csn), evidence, located });
                }
                SearchStep::Entry { entry, csn } => {
                    for cut in self.cuts(whole(entry), evidence.since, to) {
                        let Some(joined) = evidence.then(&cut) else { continue };
                        match object::read(&joined.bytes, entry.offset, &sums()) {
                            Ok(found) if found.csn == csn && found.key == KEY => {
                                let located = Some(Located::Entry(entry, csn));
                                seen.push(Seen { answer: Version(csn), evidence: joined, located });
                            }
                            Ok(found) if found.csn == csn => panic!("no other key has this hash"),
                            _ => {}
                        }
                    }
                }
                SearchStep::Absent => seen.push(Seen { answer: Absent, evidence, located: None }),
                SearchStep::Ask | SearchStep::Torn | SearchStep::Stale => {}
            }
        }
        seen
    }

    /// What a reader accepts in the window if it looks at the remembered place of the key.
    fn look_at(&self, located: Located, from: usize, to: usize) -> Vec<Seen> {
        let place = match located {
            Located::Slot(_, place) => place,
            Located::Entry(entry, _) => whole(entry),
        };
        let accepted = |evidence: &Cut| match located {
            Located::Slot(table, place) => {
                let bytes = evidence.bytes.first_chunk().expect("64 bytes");
                Search::check_slot(table, place, KEY, bytes, &sums()).map(|item| item.csn)
            }
            Located::Entry(entry, csn) => {
                let found = object::read(&evidence.bytes, entry.offset, &sums()).ok()?;
                (found.csn == csn && found.key == KEY && !found.superseded).then_some(csn)
            }
        };
        let cuts = self.cuts(place, from, to).into_iter();
        cuts.filter_map(|evidence| {
            accepted(&evidence).map(|csn| Seen { answer: Version(csn), evidence, located: Some(located) })
        })
        .collect()
    }

    /// Checks the stores of `change`, which returns the key's answers one after the other from before it
    /// until after it: of two readers one after the other, however they look, the second sees nothing older.
    fn check(&self, change: impl FnOnce() -> Vec<Answer>) {
        let from = self.journal.now();
        let history = change();
        let to = self.journal.now();
        let looks = [ReadGranularity::Window, ReadGranularity::Lines];
        let found: Vec<Seen> =
            looks.iter().flat_map(|granularity| self.search(*granularity, from, to)).collect();
        let mut places: Vec<Located> = Vec::new();
        for place in found.iter().filter_map(|seen| seen.located) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let remembered: Vec<Seen> = places.iter().flat_map(|place| self.look_at(*place, from, to)).collect();
        let age = |seen: &Seen| {
            let age = history.iter().position(|answer| *answer == seen.answer);
            age.unwrap_or_else(|| panic!("{:?} is not of {history:?}", seen.answer))
        };
        for (i, answer) in history.iter().enumerate() {
            assert!(found.iter().any(|seen| age(seen) == i), "nobody finds {answer:?} of {history:?}");
        }
        // A remembered place came from the index, so the first reader is one that searched.
        for first in &found {
            for second in found.iter().chain(&remembered) {
                // The first reader can be done once its last sample is taken; the second begins with its
                // first one.
                let in_turn = first.evidence.since <= second.evidence.until;
                let goes_back = in_turn && age(first) > age(second);
                assert!(!goes_back, "within {from}..={to} {first:?} was seen, and then {second:?}");
            }
        }
        self.check_ends(&history, from, to);
    }

    /// Checks that a reader before all stores sees the first answer, and a reader after them the last.
    fn check_ends(&self, history: &[Answer], from: usize, to: usize) {
        for (times, answer) in [(from, history.first()), (to, history.last())] {
            let seen = self.search(ReadGranularity::Window, times, times);
            assert_eq!(seen.iter().map(|seen| &seen.answer).collect::<Vec<_>>(), Vec::from_iter(answer));
        }
    }
}

/// Runs a test for each kind of slot, on a server of its own, in place and out of place, and as the leader of
/// a group.
fn each(test: impl Fn(&Bed)) {
    let leads = Some(Term::new(1, ReplicaId(0)));
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        test(&Bed::new(slots, Discipline::InPlace, None));
        test(&Bed::new(slots, Discipline::OutOfPlace, None));
        test(&Bed::new(slots, Discipline::InPlace, leads));
    }
}

/// Values that fit a slot of 64 bytes, and values that do not; the longer ones have two lines and more.
const VALUES: [&[u8]; 3] = [&[b'a'; 5], &[b'b'; 40], &[b'c'; 150]];

/// `Mutant::LateSupersede` breaks this for entries: a reader that finds the new entry by the index would be
/// followed by a reader that still takes the old entry, which it remembers, for the key's value.
#[test]
fn a_put_is_seen_once_and_for_all() {
    each(|bed| {
        bed.check(|| vec![Absent, Version(bed.put(VALUES[0]))]);
        let mut last = bed.put(VALUES[0]);
        for (before, after) in VALUES.iter().flat_map(|v| VALUES.iter().map(move |w| (v, w))) {
            last = bed.put(before).max(last);
            bed.check(|| vec![Version(last), Version(bed.put(after))]);
        }
    });
}

#[test]
fn a_delete_is_seen_once_and_for_all() {
    let delete = Request { key: KEY, ..Request::new(RequestKind::Delete, 0) };
    each(|bed| {
        for value in VALUES {
            let put = bed.put(value);
            bed.check(|| {
                bed.write(&delete);
                vec![Version(put), Absent]
            });
            bed.check(|| vec![Absent, Version(bed.put(value))]);
        }
    });
}

#[test]
fn an_increment_and_a_touch_are_seen_once_and_for_all() {
    let increment = Request { key: KEY, argument: 7, ..Request::new(RequestKind::Increment, 0) };
    let touch = Request { key: KEY, ttl_ms: 60_000, ..Request::new(RequestKind::Touch, 0) };
    each(|bed| {
        let put = bed.put(b"35");
        bed.check(|| vec![Version(put), Version(bed.write(&increment))]);
        let put = bed.put(VALUES[2]);
        bed.check(|| vec![Version(put), Version(bed.write(&touch))]);
    });
}

/// Of two writes of a group the later one may be applied first. The earlier one was the key's value just
/// before it, and no reader sees it.
#[test]
fn a_write_that_comes_late_is_seen_by_nobody() {
    let term = Term::new(1, ReplicaId(0));
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        let bed = Bed::new(slots, Discipline::InPlace, Some(term));
        for value in VALUES {
            let before = bed.put(value);
            let put = Request { key: KEY, value, ..Request::new(RequestKind::Put, 0) };
            let mut contexts = bed.contexts.lock().expect("contexts");
            let [late, soon] = &mut contexts[..] else { panic!("two contexts") };
            bed.check(|| {
                let older = bed.engine.write(late, TIMES, &put, None).expect("there is room").csn;
                let newer = bed.engine.write(soon, TIMES, &put, None).expect("there is room").csn;
                assert!(before < older && older < newer);
                apply(&bed.engine, soon, TIMES);
                apply(&bed.engine, late, TIMES);
                vec![Version(before), Version(newer)]
            });
        }
    }
}

/// A version that is moved to another place stays what it is.
#[test]
fn a_move_is_seen_by_nobody() {
    let check = |bed: &Bed, value: &[u8]| {
        let csn = bed.put(value);
        let (place, _) = named(&bed.engine, KEY);
        let context = &mut bed.contexts.lock().expect("contexts")[1];
        bed.check(|| {
            let sessions = Sessions::new(8, Nanos(1));
            let moved = bed.engine.relocate(context, TIMES, place, csn, &sessions);
            assert_eq!(moved, Relocated::Done);
            if context.stream.is_some() {
                apply(&bed.engine, context, TIMES);
            }
            vec![Version(csn)]
        });
    };
    let leads = Some(Term::new(1, ReplicaId(0)));
    let bed = Bed::new(SlotKind::Inline64, Discipline::InPlace, leads);
    VALUES.iter().for_each(|value| check(&bed, value));
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        check(&Bed::new(slots, Discipline::OutOfPlace, None), VALUES[2]);
    }
}
