//! Many lives in one persistent memory, each of which ends with the power, at any store: what was
//! acknowledged is there in the next life, and so is nothing else (Continuity hashing III.C).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use longarm_base::random::SplitMix64;
use longarm_base::{Csn, Nanos, UnixMillis};
use longarm_index::control::Control;
use longarm_index::hash::{Discipline, Entries, Moved, Record, Reopened, SlotKind, verify};
use longarm_memory::{Budget, Cached, Part, PowerLost};
use longarm_store::{Collector, Work};
use longarm_wire::{Request, RequestKind, Status};

use crate::engine::Engine;
use crate::options::{EngineOptions, Eviction};
use crate::outcome::Short;
use crate::persistent::layout;
use crate::persistent::root::RootError;
use crate::persistent::{PersistentMemory, ReopenEngineError};
use crate::reclaim::{Cursor, Relocated};
use crate::session::Sessions;
use crate::testing::{named, options, sums};
use crate::timestamps::Timestamps;

const INDEX: u64 = 1 << 20;
const ARENA: u64 = 14 << 20;
const LIMIT: u64 = 16 << 20;
/// The first word of the root, which follows the control page.
const ROOT: usize = (layout::BYTES / 8) as usize;
const KEYS: u64 = 400;
/// What a maintenance thread does that evicts.
const EVICTS: u64 = 6;
/// A value that takes more than a segment.
const LARGE: usize = 1_100_000;

type Memory = Part<Cached>;

/// The memory of all lives, as the last loss of power left it.
struct Machine {
    words: Vec<u64>,
    slots: SlotKind,
    /// Milliseconds that have passed.
    ms: u64,
    /// What was acknowledged, by key: value, version, expiry.
    items: BTreeMap<Vec<u8>, Item>,
    /// The highest version that anybody was told.
    told: Csn,
    /// Items that the index has room for at first.
    expected: u64,
    /// Whether items are evicted.
    evicts: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Item {
    value: Vec<u8>,
    csn: Csn,
    expiry: UnixMillis,
}

/// An engine in its life.
struct Life {
    memory: Arc<Cached>,
    engine: Engine<Memory>,
    collector: Collector<Memory>,
    expired: Cursor,
    evicted: Cursor,
}

/// A life that did not begin: why not, if it was not for the power.
type NotBegun = (Arc<Cached>, Option<ReopenEngineError>);

/// A write: of a key, a value or none, with a time to live.
type Write = (Vec<u8>, Option<Vec<u8>>, u64);

impl Machine {
    fn new(slots: SlotKind) -> Machine {
        let bytes = 2 * layout::BYTES + INDEX + ARENA;
        let (words, items) = (vec![0; (bytes / 8) as usize], BTreeMap::new());
        Machine { words, slots, ms: 1_000_000, items, told: Csn::NONE, expected: 20, evicts: false }
    }

    fn times(&self) -> Timestamps {
        Timestamps { now: Nanos(self.ms * 1_000_000), unix: UnixMillis(self.ms) }
    }

    /// Begins a life, which may end already while it begins.
    fn begin(&self, until: Option<u64>) -> Result<(Life, Option<Reopened>), NotBegun> {
        let memory = Arc::new(Cached::of(self.words.clone()));
        until.into_iter().for_each(|stores| memory.lose_power_after(stores));
        let mut at = 0;
        let mut part = |bytes| {
            at += bytes;
            Part::new(&memory, at - bytes, bytes)
        };
        let control = part(layout::BYTES);
        let parts = PersistentMemory { root: part(layout::BYTES), index: part(INDEX), arena: part(ARENA) };
        let discipline = Discipline::OutOfPlace;
        let eviction = if self.evicts { Eviction::Lru } else { Eviction::None };
        let options = EngineOptions {
            discipline,
            expected_items: self.expected,
            ..options(self.slots, eviction, None)
        };
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let control = Control::create(control, 1, sums());
            Engine::persistent(parts, control, sums(), Arc::new(Budget::new(LIMIT)), options)
        }));
        match begun {
            Ok(Ok((engine, found))) => {
                let collector = Collector::new(engine.store.clone());
                let [expired, evicted] = [Cursor::default(), Cursor::default()];
                Ok((Life { memory, engine, collector, expired, evicted }, found))
            }
            Ok(Err(error)) => Err((memory, Some(error))),
            Err(lost) => {
                assert!(lost.is::<PowerLost>());
                Err((memory, None))
            }
        }
    }

    /// One life of so many steps, or until the power goes.
    fn live(&mut self, random: &mut SplitMix64, seen: &mut Seen) {
        let most = [300, 5_000, 20_000, 60_000][random.below(4) as usize];
        let until = random.below(most);
        let (memory, under_way) = match self.begin(Some(until)) {
            Err((memory, error)) => {
                assert!(error.is_none(), "{error:?}");
                (memory, None)
            }
            Ok((mut life, found)) => {
                found.into_iter().for_each(|found| seen.add(&found));
                // Tables grow seldom: where one does, the power often goes meanwhile.
                if random.once_in(3) {
                    life.memory.lose_power_after(random.below(4_000));
                    let grows = || {
                        _ = life.engine.index.grow();
                        while life.engine.index.move_some(5) == Moved::More {}
                    };
                    _ = catch_unwind(AssertUnwindSafe(grows));
                }
                let under_way = if life.memory.is_lost() { None } else { self.steps(&mut life, random) };
                (life.memory, under_way)
            }
        };
        assert!(memory.is_lost());
        self.words = memory.left_by(random);
        if self.words[ROOT] == 0 {
            // Its files are made anew.
            self.words.fill(0);
        }
        self.judge(under_way, seen);
    }

    /// Writes until the power goes; returns the write that was under way.
    fn steps(&mut self, life: &mut Life, random: &mut SplitMix64) -> Option<Write> {
        loop {
            self.ms += random.below(3);
            let times = self.times();
            let write = self.draw(random);
            let (key, value, ttl_ms) = &write;
            let kind = if value.is_some() { RequestKind::Put } else { RequestKind::Delete };
            let value = value.as_deref().unwrap_or_default();
            let request = Request { key, value, ttl_ms: *ttl_ms, ..Request::new(kind, 0) };
            let written = catch_unwind(AssertUnwindSafe(|| {
                let context = &mut life.engine.worker_context(0);
                life.engine.write(context, times, &request, None)
            }));
            let Ok(outcome) = written else { return Some(write) };
            if let Ok(outcome) = outcome {
                self.told = self.told.max(outcome.csn);
                match (outcome.status, kind) {
                    (Status::Ok, RequestKind::Put) => {
                        let expiry =
                            if *ttl_ms == 0 { UnixMillis::NEVER } else { UnixMillis(self.ms + ttl_ms) };
                        self.items
                            .insert(key.clone(), Item { value: value.into(), csn: outcome.csn, expiry });
                    }
                    (Status::Ok | Status::NotFound, _) => _ = self.items.remove(key),
                    other => panic!("{other:?}"),
                }
            }
            let what = random.below(if self.evicts { 7 } else { 6 });
            let kept = catch_unwind(AssertUnwindSafe(|| {
                life.keep(times, what);
                let missed = self.items.keys().filter(|key| what == EVICTS && !life.has(key));
                missed.cloned().collect::<Vec<_>>()
            }));
            // What readers miss now does not come back.
            match kept {
                Ok(missed) => missed.iter().for_each(|key| _ = self.items.remove(key)),
                Err(_) => return None,
            }
        }
    }

    fn draw(&self, random: &mut SplitMix64) -> Write {
        let key = format!("key number {}", random.below(KEYS)).into_bytes();
        let len = match random.below(200) {
            0 => LARGE,
            1..15 => 5_000,
            15..90 => 100,
            _ => random.below(40) as usize,
        };
        let value = (!random.once_in(4)).then(|| vec![random.draw() as u8; len]);
        let ttl = if random.once_in(5) { 1 + random.below(500) } else { 0 };
        (key, value, ttl)
    }

    /// What the next life finds.
    fn judge(&mut self, under_way: Option<Write>, seen: &mut Seen) {
        let (mut life, found) = match self.begin(None) {
            Ok(begun) => begun,
            Err((_, error)) => panic!("{error:?}"),
        };
        seen.lives += 1;
        found.into_iter().for_each(|found| seen.add(&found));
        let times = self.times();
        let items: BTreeMap<_, _> = (0..KEYS)
            .map(|key| format!("key number {key}").into_bytes())
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|key| Some((key.clone(), life.item(&key, times)?)))
            .collect();
        let is_live = |item: &Item| !item.expiry.expired(times.unix);
        for key in (0..KEYS).map(|key| format!("key number {key}").into_bytes()) {
            let before = self.items.get(&key).filter(|item| is_live(item));
            let now = items.get(&key);
            if now.is_none() && self.evicts {
                continue;
            }
            match under_way.as_ref().filter(|(of, ..)| *of == key) {
                None => assert_eq!(now, before, "{}", String::from_utf8_lossy(&key)),
                Some((_, None, _)) => assert!(now.is_none() || now == before),
                Some((_, Some(value), _)) => {
                    assert!(
                        now == before || now.is_some_and(|now| now.value == *value && now.csn > self.told)
                    );
                }
            }
        }
        self.items = items;
        self.told = self.items.values().map(|item| item.csn).max().max(Some(self.told)).expect("one");
        life.check();
        // All of it can go, and then nothing is left.
        if seen.lives.is_multiple_of(16) {
            life.empty(times);
        }
        let csn = life.engine.next_csn();
        assert!(csn > self.told, "{csn:?} after {:?}", self.told);
    }
}

impl Life {
    fn item(&self, key: &[u8], times: Timestamps) -> Option<Item> {
        let context = &mut self.engine.worker_context(0);
        let request = Request { key, ..Request::new(RequestKind::Get, 0) };
        let outcome = self.engine.get(context, times, &request).expect("nobody else writes");
        let value = context.bytes[context.value.clone()].to_vec();
        let index = self.engine.index.read();
        let found = index.lock(self.engine.hash(key)).find(key)?;
        let current = self.engine.current(&found, times);
        assert_eq!(outcome.status == Status::Ok, !current.gone, "{outcome:?}");
        (!current.gone).then_some(Item { value, csn: current.csn, expiry: current.expiry })
    }

    fn has(&self, key: &[u8]) -> bool {
        self.engine.index.read().lock(self.engine.hash(key)).find(key).is_some()
    }

    /// What a maintenance thread does.
    fn keep(&mut self, times: Timestamps, what: u64) {
        let engine = &self.engine;
        match what {
            0 => {
                let context = &mut engine.worker_context(1);
                engine.expire_some(context, &mut self.expired, 8, times);
            }
            1 => _ = engine.index.move_some(1),
            2 => _ = engine.index.reclaim(times.now, Nanos::from_millis(20)),
            3 if engine.index.should_grow() => _ = engine.index.grow(),
            EVICTS => _ = engine.evict_some(&mut self.evicted, 2),
            _ => _ = self.collect(times, 20),
        }
    }

    /// Collects, so many pieces of work; `false` if there was nothing to do.
    fn collect(&mut self, times: Timestamps, pieces: u64) -> bool {
        let sessions = Sessions::new(8, Nanos(1));
        for _ in 0..pieces {
            match self.collector.next_work(times.now, 90) {
                Work::Move { place, csn } => {
                    let context = &mut self.engine.worker_context(1);
                    self.engine.relocate(context, times, place, csn, &sessions);
                }
                Work::Idle(_) => return false,
                _ => {}
            }
        }
        true
    }

    /// The tables are whole, and the store counts what they name.
    fn check(&self) {
        let Engine { index, store, arena, .. } = &self.engine;
        let geometry = index.geometry();
        let hash = |record: &Record<'_>| match *record {
            Record::Inline { key, .. } => Ok(index.hasher().hash(key)),
            Record::Entry { csn, entry, .. } => {
                arena.hash_of(entry, csn, index.hasher()).ok_or_else(|| format!("{entry:?} is not there"))
            }
        };
        let report = verify(index.memory(), &geometry, &sums(), 0, hash);
        assert_eq!(report.problem_count, 0, "{:?}", report.problems);
        assert_eq!(report.items, index.items());
        let entries = std::sync::Mutex::new(0);
        index
            .each_record(|record| {
                if matches!(record, Record::Entry { .. }) {
                    *entries.lock().expect("a count") += 1;
                }
                Ok::<_, ()>(())
            })
            .expect("shown");
        assert_eq!(store.counters().entries, entries.into_inner().expect("a count"));
    }

    /// Deletes everything; no segment stays in use.
    fn empty(&mut self, times: Timestamps) {
        for key in (0..KEYS).map(|key| format!("key number {key}").into_bytes()) {
            let context = &mut self.engine.worker_context(0);
            let request = Request { key: &key, ..Request::new(RequestKind::Delete, 0) };
            self.engine.write(context, times, &request, None).expect("deletes need no room");
        }
        // What looks alive is moved in vain, into segments that are sealed then.
        for second in 1..4 {
            (0..2).for_each(|stream| self.engine.worker_context(stream).writer.seal_all());
            let later = Timestamps { now: times.now + Nanos::from_millis(second * 1_000), ..times };
            while self.collect(later, 10) {}
        }
        let counters = self.engine.store.counters();
        assert_eq!((counters.entries, counters.used_bytes), (0, 0), "{counters:?}");
    }
}

/// Of a pair in which no slot is free a moved entry has none for a moment.
#[test]
fn an_entry_that_moves_in_a_full_pair_outlives_a_loss_of_power_at_every_store() {
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        let mut machine = Machine { expected: 2_000, ..Machine::new(slots) };
        let (life, _) = machine.begin(None).map_err(|_| ()).expect("laid out");
        let home = |key: &str| life.engine.index.newest().home(life.engine.hash(key.as_bytes()));
        let names = (0..).map(|i| format!("key {i}"));
        let mut filled = Vec::new();
        for key in names.filter(|key| home(key) == home("key 0")) {
            let value = key.repeat(20);
            let request =
                Request { key: key.as_bytes(), value: value.as_bytes(), ..Request::new(RequestKind::Put, 0) };
            match life.engine.write(&mut life.engine.worker_context(0), machine.times(), &request, None) {
                Ok(_) => filled.push(key),
                Err(short) => {
                    assert_eq!(short, Short::Crowded);
                    break;
                }
            }
        }
        machine.words = life.memory.left_by(&mut SplitMix64::new(1));
        let key = filled[0].as_bytes();
        let before = life.item(key, machine.times()).expect("it is there");
        drop(life);
        let (mut hidden, mut stores) = (0, 0);
        loop {
            let (life, _) = machine.begin(None).map_err(|_| ()).expect("as it was");
            let (context, sessions) = (&mut life.engine.worker_context(1), Sessions::new(8, Nanos(1)));
            let mut relocate = |key: &[u8]| {
                let (place, csn) = named(&life.engine, key);
                life.engine.relocate(context, machine.times(), place, csn, &sessions)
            };
            // It has a segment claimed, which takes thousands of stores.
            assert_eq!(relocate(filled[1].as_bytes()), Relocated::Done);
            life.memory.lose_power_after(stores);
            let moved = catch_unwind(AssertUnwindSafe(|| relocate(key)));
            if let Ok(moved) = moved {
                assert_eq!(moved, Relocated::Done);
                break;
            }
            for seed in 0..4 {
                let words = life.memory.left_by(&mut SplitMix64::new(seed));
                let next = Machine { words, expected: machine.expected, ..Machine::new(slots) };
                let (life, found) = next.begin(None).map_err(|(_, error)| error).expect("it goes on");
                hidden += usize::from(!found.expect("of a life before").beside.is_empty());
                assert_eq!(
                    life.item(key, machine.times()).as_ref(),
                    Some(&before),
                    "{stores} stores, {seed}"
                );
                life.check();
            }
            stores += 1;
        }
        assert!(hidden > 0 && filled.len() > 20, "{hidden} of {stores}, {}", filled.len());
    }
}

/// What was put right, over all lives.
#[derive(Debug, Default)]
struct Seen {
    lives: u64,
    unlocked: u64,
    shown: u64,
    twice: u64,
    left: u64,
}

impl Seen {
    fn add(&mut self, found: &Reopened) {
        self.unlocked += found.unlocked;
        self.shown += found.shown;
        self.twice += found.twice;
        self.left += found.left;
    }
}

/// So many lives in one memory.
fn lives(slots: SlotKind, seed: u64, count: u64, seen: &mut Seen) {
    let mut machine = Machine { evicts: seed % 2 == 1, ..Machine::new(slots) };
    let mut random = SplitMix64::new(seed);
    (0..count).for_each(|_| machine.live(&mut random, seen));
}

/// `LONGARM_LIVES` says in how many memories; a test run has a few.
#[test]
fn what_was_acknowledged_is_there_after_any_loss_of_power() {
    let seeds = std::env::var("LONGARM_LIVES").map_or(4, |seeds| seeds.parse().expect("a number"));
    for slots in [SlotKind::Inline64, SlotKind::Pointer16] {
        let mut seen = Seen::default();
        (0..seeds).for_each(|seed| lives(slots, seed, 20, &mut seen));
        let least = seen.unlocked.min(seen.shown).min(seen.twice).min(seen.left);
        assert!(least > 0, "{seen:?}");
    }
}

#[test]
fn memory_of_another_kind_or_size_and_what_is_damaged_is_refused() {
    let mut machine = Machine::new(SlotKind::Inline64);
    let (life, _) = machine.begin(None).map_err(|_| ()).expect("laid out");
    machine.words = life.memory.left_by(&mut SplitMix64::new(1));
    let refused = |machine: &Machine| match machine.begin(None) {
        Err((_, Some(error))) => error,
        _ => panic!("it is not refused"),
    };
    machine.slots = SlotKind::Pointer16;
    let error = refused(&machine).to_string();
    assert!(error.contains("slot bytes 64") && error.contains("has 16"), "{error}");
    machine.slots = SlotKind::Inline64;
    for record in layout::at::GEOMETRY {
        machine.words[ROOT + (record / 8) as usize] ^= 1;
    }
    assert!(matches!(refused(&machine), ReopenEngineError::Root(RootError::Geometry)));
    machine.words[ROOT] ^= 1;
    assert!(refused(&machine).to_string().contains("no root of a server's memory"));
}
