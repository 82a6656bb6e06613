//! Schedules: workers that write the same keys, a collector and a one-sided reader, with every step in an
//! order that shuttle chooses.

use std::collections::BTreeMap;

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{ReplicaId, Term};
use longarm_memory::{OwnedWords, Words};

use super::*;
use crate::sync::{Counter, Mutex, SCHEDULED, pause};

/// Sparse memory in which every word access is a step, and so is every line of a copy.
struct Steps {
    bytes: u64,
    words: std::sync::Mutex<BTreeMap<u64, u64>>,
}

impl Steps {
    fn new(segments: u64) -> Steps {
        Steps { bytes: segments * SEGMENT_BYTES, words: Default::default() }
    }

    /// The words are locked only between two steps, so no task ever waits for them.
    fn with<R>(&self, f: impl FnOnce(&mut BTreeMap<u64, u64>) -> R) -> R {
        f(&mut self.words.try_lock().expect("no step inside a step"))
    }
}

impl Words for Steps {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn load(&self, at: u64) -> u64 {
        pause();
        self.with(|words| words.get(&at).copied().unwrap_or(0))
    }
    fn copy_out(&self, at: u64, into: &mut [u8]) {
        // The first line and the last are steps of their own: they hold the words that differ in these tests.
        let last = into.len().saturating_sub(LINE as usize) / 8 * 8;
        let parts = [0, last.min(LINE as usize), last, into.len()];
        for part in parts.windows(2) {
            pause();
            let (from, to) = (at + part[0] as u64, at + part[1] as u64);
            into[part[0]..part[1]].fill(0);
            self.with(|words| {
                for (word, value) in words.range(from..to) {
                    let start = (word - at) as usize;
                    let end = (start + 8).min(part[1]);
                    into[start..end].copy_from_slice(&value.to_le_bytes()[..end - start]);
                }
            });
        }
    }
}

impl OwnedWords for Steps {
    fn store(&self, at: u64, word: u64) {
        pause();
        self.with(|words| if word == 0 { words.remove(&at) } else { words.insert(at, word) });
    }
    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64> {
        pause();
        self.with(|words| {
            let found = words.get(&at).copied().unwrap_or(0);
            if found != expected {
                return Err(found);
            }
            words.insert(at, new);
            Ok(())
        })
    }
    fn fetch_add(&self, at: u64, more: u64) -> u64 {
        pause();
        self.with(|words| {
            let word = words.entry(at).or_default();
            *word = word.wrapping_add(more);
            word.wrapping_sub(more)
        })
    }
    fn copy_in(&self, at: u64, bytes: &[u8]) {
        pause();
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let offset = at + i as u64 * 8;
            self.with(|words| {
                let mut word = words.get(&offset).copied().unwrap_or(0).to_le_bytes();
                word[..chunk.len()].copy_from_slice(chunk);
                match u64::from_le_bytes(word) {
                    0 => words.remove(&offset),
                    word => words.insert(offset, word),
                };
            });
        }
        pause();
    }
    fn discard(&self, at: u64, len: u64) {
        pause();
        self.with(|words| words.retain(|word, _| !(at..at + len).contains(word)));
    }
}

const KEYS: usize = 2;
/// Two rooms a segment, so that segments fill, die and come back within a few writes.
const VALUE: usize = 400_000;

/// A server's index, as the store sees it: a slot a key under a lock, and a counter of versions.
struct World {
    store: Arc<Store<Steps>>,
    slots: [Mutex<Option<Slot>>; KEYS],
    csn: Counter,
    clock: Counter,
}

fn value(csn: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE];
    value[..8].copy_from_slice(&csn.to_le_bytes());
    value[VALUE - 8..].copy_from_slice(&csn.to_le_bytes());
    value
}

fn write(world: &World, stream: u16, rounds: usize) {
    let mut writer = world.store.writer(stream);
    for round in 0..rounds {
        let key = (round + stream as usize) % KEYS;
        let Ok(mut draft) = writer.draft_streamed(&[key as u8], VALUE, EntryMeta::PUT) else { continue };
        let mut slot = world.slots[key].lock();
        let csn = Csn(world.csn.add(1));
        writer.fill(&mut draft, 0, &value(csn.0)).expect("fits");
        let place = writer.finish(draft, csn);
        if let Some((old, its)) = *slot {
            assert!(world.store.supersede(old, its), "a slot is replaced once");
        }
        *slot = Some((place, csn));
    }
    writer.seal_all();
}

fn collect(world: &World, stream: u16, rounds: usize) {
    let mut writer = world.store.writer(stream);
    let mut collector = Collector::new(world.store.clone());
    let mut bytes = Vec::new();
    for _ in 0..rounds {
        let now = Nanos(world.clock.get());
        let (place, csn) = match collector.next_work(now, 90) {
            Work::Move { place, csn } => (place, csn),
            Work::Release { segment, .. } => {
                // Other tasks may run while followers are asked.
                pause();
                world.store.released(segment);
                continue;
            }
            Work::Review { .. } | Work::Again | Work::Idle(_) => continue,
        };
        let Ok(entry) = world.store.read(place, csn, &mut bytes) else {
            continue;
        };
        let key = entry.key[0] as usize;
        let Ok(draft) = writer.draft_move(&entry) else { continue };
        let copy = writer.finish(draft, csn);
        let mut slot = world.slots[key].lock();
        if *slot == Some((place, csn)) {
            *slot = Some((copy, csn));
            assert!(world.store.supersede(place, csn));
        } else {
            assert!(world.store.supersede(copy, csn));
        }
    }
}

/// A client with a location cache: one READ of the cached place answers if it verifies, has the cached
/// version, and is not superseded. Time stands still while it reads, as the quarantine promises.
fn read(world: &World, rounds: usize) {
    let mut bytes = Vec::new();
    for round in 0..rounds {
        let key = round % KEYS;
        let Some((place, csn)) = *world.slots[key].lock() else { continue };
        // Other tasks may run for any time, then the READ begins.
        pause();
        let current = world.slots[key].lock().expect("a key stays").1;
        bytes.resize(place.len as usize, 0);
        world.store.memory().copy_out(place.offset, &mut bytes);
        let Ok(entry) = object::read(&bytes, place.offset, world.store.sums()) else { continue };
        assert_eq!(entry.value, value(entry.csn.0), "whole");
        if entry.csn == csn && !entry.superseded {
            assert_eq!(entry.key, [key as u8]);
            assert!(csn >= current, "a version was accepted that was replaced before the READ began");
        }
    }
}

fn scenario(ask_release: bool) {
    let budget = Arc::new(Budget::new(u64::MAX));
    let options =
        StoreOptions { reserve: 1, streams: 3, quarantine: Nanos(2), ask_release, ..StoreOptions::default() };
    let store = Arc::new(Store::create(Steps::new(9), budget, options, sums()).expect("fits"));
    let world = Arc::new(World {
        store,
        slots: Default::default(),
        csn: Counter::default(),
        clock: Counter::default(),
    });
    let run = |f: fn(&World)| {
        let world = world.clone();
        shuttle::thread::spawn(move || f(&world))
    };
    let tasks = [
        run(|world| write(world, 0, 6)),
        run(|world| write(world, 1, 6)),
        run(|world| collect(world, 2, 25)),
        run(|world| read(world, 6)),
        run(|world| {
            for _ in 0..20 {
                world.clock.add(1);
            }
        }),
    ];
    for task in tasks {
        task.join().expect("no task fails");
    }
    let report = world.store.check();
    assert!(report.is_sound(), "{:#?}", report.problems);
    let live = world.slots.iter().filter(|slot| slot.lock().is_some()).count();
    assert_eq!(report.total.live_entries as usize, live);
    // With all keys gone every segment dies exactly once and comes back.
    for slot in &world.slots {
        if let Some((place, csn)) = slot.lock().take() {
            assert!(world.store.supersede(place, csn));
        }
    }
    world.store.writer(2).seal_all();
    let mut collector = Collector::new(world.store.clone());
    for i in 0..40 {
        if let Work::Release { segment, .. } = collector.next_work(Nanos(1_000 + i), 0) {
            world.store.released(segment);
        }
    }
    assert_eq!(world.store.counters().free, 8);
}

/// The last entry dies while its writer seals the segment: one of the two reports the death, and the table
/// says in the end what the ledger says.
fn death_while_sealing() {
    let options = StoreOptions { reserve: 1, ..StoreOptions::default() };
    let budget = Arc::new(Budget::new(u64::MAX));
    let store = Arc::new(Store::create(Steps::new(4), budget, options, sums()).expect("fits"));
    let mut writer = store.writer(0);
    let draft = writer.draft(b"key", b"value", EntryMeta::PUT).expect("room");
    let place = writer.finish(draft, Csn(1));
    let sealing = shuttle::thread::spawn(move || writer.seal_all());
    let dying = {
        let store = store.clone();
        shuttle::thread::spawn(move || {
            assert!(store.supersede(place, Csn(1)));
            for _ in 0..3 {
                Collector::new(store.clone()).next_work(Nanos(0), 0);
            }
        })
    };
    sealing.join().expect("no task fails");
    dying.join().expect("no task fails");
    let report = store.check();
    assert!(report.is_sound(), "{:#?}", report.problems);
    Collector::new(store.clone()).next_work(Nanos(1), 0);
    assert_eq!(store.counters().quarantined, 1);
    assert!(store.check().is_sound());
}

/// Two threads replay an adopted arena while a collector buries what dies: no segment dies before the end of
/// its replay, each key keeps its newest entry, and nothing is counted twice.
fn replaying() {
    let budget = || Arc::new(Budget::new(u64::MAX));
    let options = StoreOptions { reserve: 1, quarantine: Nanos(1), ..StoreOptions::default() };
    let memory = Arc::new(Steps::new(7));
    let store = Arc::new(Store::create(memory.clone(), budget(), options, sums()).expect("fits"));
    let mut writer = store.writer(0);
    for csn in 1..=7u64 {
        let key = [csn as u8 % KEYS as u8];
        let draft = writer.draft(&key, &value(csn), EntryMeta::PUT).expect("room");
        writer.finish(draft, Csn(csn));
    }
    drop(writer);
    let options = StoreOptions { term: Term::new(1, ReplicaId(1)), ..options };
    let store = Arc::new(Store::adopt(memory, budget(), options, sums()).expect("an arena"));
    assert_eq!(store.adopted().len(), 4);
    let newest: Arc<[Mutex<Option<Slot>>; KEYS]> = Arc::default();
    let replay = |odd: usize| {
        let (store, newest) = (store.clone(), newest.clone());
        shuttle::thread::spawn(move || {
            for &segment in store.adopted().iter().skip(odd).step_by(2) {
                store.replay(segment, &mut Scratch::default(), &mut |place: EntryRef, entry: &Entry<'_>| {
                    let mut slot = newest[entry.key[0] as usize].lock();
                    let this = (place, entry.csn);
                    let lost = match *slot {
                        Some(other) if other.1 > this.1 => Some(this),
                        _ => slot.replace(this),
                    };
                    if let Some((place, csn)) = lost {
                        assert!(store.supersede(place, csn));
                    }
                });
            }
        })
    };
    let collecting = {
        let store = store.clone();
        shuttle::thread::spawn(move || {
            let mut collector = Collector::new(store);
            for now in 0..6 {
                collector.next_work(Nanos(now), 0);
            }
        })
    };
    for task in [replay(0), replay(1), collecting] {
        task.join().expect("no task fails");
    }
    let report = store.check();
    assert!(report.is_sound(), "{:#?}", report.problems);
    assert_eq!(report.total.live_entries as usize, KEYS);
    let csns = newest.each_ref().map(|slot| slot.lock().expect("every key is there").1);
    assert_eq!(csns, [Csn(6), Csn(7)]);
    for slot in newest.iter() {
        let (place, csn) = slot.lock().expect("every key is there");
        assert!(store.supersede(place, csn));
    }
    let mut collector = Collector::new(store.clone());
    for i in 0..10 {
        collector.next_work(Nanos(1_000 + i), 0);
    }
    assert_eq!(store.counters().free, 6);
}

#[test]
fn an_adopted_arena_is_replayed_in_any_order() {
    SCHEDULED.set(true);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    let random = shuttle::scheduler::RandomScheduler::new(150);
    shuttle::Runner::new(random, config).run(replaying);
    SCHEDULED.set(false);
}

#[test]
fn a_segment_dies_once_whoever_comes_last() {
    SCHEDULED.set(true);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    let random = shuttle::scheduler::RandomScheduler::new(400);
    shuttle::Runner::new(random, config).run(death_while_sealing);
    SCHEDULED.set(false);
}

#[test]
fn workers_collector_and_reader_in_any_order() {
    SCHEDULED.set(true);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    let random = shuttle::scheduler::RandomScheduler::new(150);
    shuttle::Runner::new(random, config.clone()).run(|| scenario(false));
    let pct = shuttle::scheduler::PctScheduler::new(3, 150);
    shuttle::Runner::new(pct, config.clone()).run(|| scenario(false));
    let random = shuttle::scheduler::RandomScheduler::new(75);
    shuttle::Runner::new(random, config).run(|| scenario(true));
    SCHEDULED.set(false);
}
