//! Leaders one after the other: each takes over the arena that the previous leader kept up on a follower, and
//! continues.

use std::collections::BTreeMap;

use longarm_base::{ReplicaId, Term};
use longarm_memory::{OwnedWords, Words};
use proptest::prelude::*;

use super::*;
use crate::object::layout;
use crate::segment::layout::{line_at, segment_of};
use crate::segment::{Line, SegmentState, line_bytes, write_line};

const SEGMENTS: u64 = 16;
const LENGTHS: [usize; 10] = [0, 3, 100, 700, 3_000, 40_000, 200_000, 600_000, 1_100_000, 2_200_000];

fn term(counter: u32) -> Term {
    Term::new(counter, ReplicaId(counter as u8 % 3))
}

/// A source of choices that depends on its seed only.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Replicates as a leader's one-sided WRITEs do: all lines, and every whole entry. Nothing is wiped. The
/// tail, which is outside the line's checksum, and superseded bits may arrive or not.
fn replicate(from: &Mapped, to: &Mapped, dice: &mut Dice) {
    for segment in 0..(from.bytes() / SEGMENT_BYTES) as u32 {
        let mut line = line_bytes(from, segment);
        if segment > 0 && dice.below(3) == 0 {
            line[48..56].fill(0);
        }
        to.copy_in(line_at(segment), &line);
    }
    let mut bytes = Vec::new();
    verify_with(from, &sums(), &mut |place, _| {
        bytes.resize(place.len as usize, 0);
        from.copy_out(place.offset, &mut bytes);
        if dice.below(4) == 0 {
            bytes[layout::MARK as usize] ^= layout::SUPERSEDED as u8;
        }
        to.copy_in(place.offset, &bytes);
    });
}

/// The item of a key: its newest entry, and the value, or no value for a tombstone.
type Item = (Slot, Option<Vec<u8>>);

#[derive(Clone, Debug)]
enum Op {
    Put { key: u8, len: usize, writer: usize },
    Delete { key: u8, writer: usize },
    DropTombstones,
    Draft { len: usize, writer: usize },
    Abandon,
    Seal(usize),
    Collect(u32),
    Advance(u64),
    Replicate(u64),
    Succeed(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let len = (0..LENGTHS.len(), 0usize..64).prop_map(|(i, more)| LENGTHS[i] + more);
    prop_oneof![
        10 => (0u8..20, len.clone(), 0usize..2).prop_map(|(key, len, writer)| Op::Put { key, len, writer }),
        4 => (0u8..20, 0usize..2).prop_map(|(key, writer)| Op::Delete { key, writer }),
        2 => Just(Op::DropTombstones),
        1 => (len, 0usize..2).prop_map(|(len, writer)| Op::Draft { len, writer }),
        1 => Just(Op::Abandon),
        1 => (0usize..2).prop_map(Op::Seal),
        3 => (0u32..100).prop_map(Op::Collect),
        3 => (10u64..60).prop_map(Op::Advance),
        1 => any::<u64>().prop_map(Op::Replicate),
        1 => any::<u64>().prop_map(Op::Succeed),
    ]
}

/// A leader and its follower.
struct World {
    store: Arc<Store<Mapped>>,
    budget: Arc<Budget>,
    writers: [Writer<Mapped>; 2],
    collector: Collector<Mapped>,
    follower: Mapped,
    index: BTreeMap<u8, Item>,
    drafts: Vec<(usize, Draft)>,
    csn: u64,
    now: Nanos,
}

fn options(counter: u32) -> StoreOptions {
    StoreOptions { streams: 2, pool: 2, term: term(counter), ask_release: true, ..StoreOptions::default() }
}

impl World {
    fn new() -> World {
        let budget = Arc::new(Budget::new(14 * SEGMENT_BYTES));
        let store = Store::create(memory(SEGMENTS), budget.clone(), options(1), sums()).expect("fits");
        let follower = memory(SEGMENTS);
        format(&follower, &sums()).expect("fresh");
        World::of(store, budget, follower, BTreeMap::new(), 0)
    }

    fn of(
        store: Store<Mapped>,
        budget: Arc<Budget>,
        follower: Mapped,
        index: BTreeMap<u8, Item>,
        csn: u64,
    ) -> World {
        let store = Arc::new(store);
        World {
            writers: [store.writer(0), store.writer(1)],
            collector: Collector::new(store.clone()),
            store,
            budget,
            follower,
            index,
            drafts: Vec::new(),
            csn,
            now: Nanos(0),
        }
    }

    fn write(&mut self, key: u8, value: Option<Vec<u8>>, writer: usize) {
        let meta = if value.is_some() { EntryMeta::PUT } else { EntryMeta::TOMBSTONE };
        let bytes = value.as_deref().unwrap_or_default();
        let Ok(draft) = self.writers[writer].draft(&[b'k', key], bytes, meta) else { return };
        self.csn += 1;
        let place = self.writers[writer].finish(draft, Csn(self.csn));
        if let Some((old, _)) = self.index.insert(key, ((place, Csn(self.csn)), value)) {
            assert!(self.store.supersede(old.0, old.1));
        }
        self.store.set_stable(Csn(self.csn));
    }

    fn run(mut self, op: Op) -> World {
        match op {
            Op::Put { key, len, writer } => {
                let value = (0..len).map(|i| (i as u64 * 31 + self.csn) as u8).collect();
                self.write(key, Some(value), writer);
            }
            Op::Delete { key, writer } if self.index.get(&key).is_some_and(|item| item.1.is_some()) => {
                self.write(key, None, writer);
            }
            Op::Delete { .. } => {}
            Op::DropTombstones => {
                let store = &self.store;
                self.index.retain(|_, ((place, csn), value)| {
                    let goes = value.is_none() && store.tombstone_may_go(*place, *csn);
                    !(goes && store.supersede(*place, *csn))
                });
            }
            Op::Draft { len, writer } => {
                let draft = self.writers[writer].draft(b"draft", &vec![1; len], EntryMeta::PUT);
                self.drafts.extend(draft.map(|draft| (writer, draft)));
            }
            Op::Abandon => {
                for (writer, draft) in self.drafts.drain(..) {
                    self.writers[writer].abandon(draft);
                }
            }
            Op::Seal(writer) => self.writers[writer].seal_all(),
            Op::Collect(threshold) => {
                let index = &mut self.index;
                let mut switch = |key: &[u8], from, to| {
                    let slot = &mut index.get_mut(&key[1]).expect("only live entries are moved").0;
                    *slot == from && std::mem::replace(slot, to) == from
                };
                let (collector, writer) = (&mut self.collector, &mut self.writers[0]);
                collect(collector, writer, self.now, threshold, &mut switch);
            }
            Op::Advance(ms) => self.now = self.now + Nanos::from_millis(ms),
            Op::Replicate(seed) => replicate(self.store.memory(), &self.follower, &mut Dice(seed)),
            Op::Succeed(seed) => {
                let next = self.store.options.term.counter() + 1;
                return self.succeed(next, &mut Dice(seed));
            }
        }
        self
    }

    /// The follower takes over; the old leader's memory, as it is, becomes its follower.
    fn succeed(self, counter: u32, dice: &mut Dice) -> World {
        self.check();
        replicate(self.store.memory(), &self.follower, dice);
        let budget = Arc::new(Budget::new(14 * SEGMENT_BYTES));
        let store = Store::adopt(self.follower.clone(), budget.clone(), options(counter), sums());
        let store = store.expect("the same budget");
        assert!(store.stable() <= Csn(self.csn));
        let mut order = store.adopted().to_vec();
        for i in (1..order.len()).rev() {
            order.swap(i, dice.below(i as u64 + 1) as usize);
        }
        let mut index: BTreeMap<u8, Item> = BTreeMap::new();
        let mut scratch = Scratch::default();
        for segment in order {
            store.replay(segment, &mut scratch, &mut |place: EntryRef, entry: &Entry<'_>| {
                assert!(!entry.superseded && entry.term < term(counter));
                let item = ((place, entry.csn), entry.kind.is_value().then(|| entry.value.to_vec()));
                let lost = match index.get(&entry.key[1]) {
                    Some(other) if other.0.1 >= entry.csn => item.0,
                    _ => match index.insert(entry.key[1], item) {
                        Some(other) => other.0,
                        None => return,
                    },
                };
                assert!(store.supersede(lost.0, lost.1));
            });
        }
        // The same keys have the same values of the same versions; a tombstone that was dropped may be back.
        for (key, ((_, csn), value)) in &index {
            match self.index.get(key) {
                Some(known) => assert_eq!((csn, value), (&known.0.1, &known.1), "key {key}"),
                None => assert_eq!(value, &None, "key {key} came back"),
            }
        }
        assert!(self.index.keys().all(|key| index.contains_key(key)), "a key was lost");
        let next = World::of(store, budget, self.store.memory().clone(), index, self.csn);
        next.check();
        next
    }

    fn check(&self) {
        let mut bytes = Vec::new();
        for (key, ((place, csn), value)) in &self.index {
            let entry = self.store.read(*place, *csn, &mut bytes).expect("a live entry verifies");
            assert!(entry.key == [b'k', *key] && !entry.superseded);
            assert_eq!(entry.kind.is_value().then_some(entry.value), value.as_deref());
        }
        let report = assert_sound(&self.store);
        assert_eq!(report.total.live_entries as usize, self.index.len());
        let counters = self.store.counters();
        assert_eq!(counters.drafts as usize, self.drafts.len());
        let parts = counters.free + counters.active + counters.sealed + counters.quarantined;
        assert_eq!(parts, counters.segments);
        let charged = 4096 + counters.used_bytes + counters.reserve as u64 * SEGMENT_BYTES;
        assert_eq!(self.budget.used(), charged, "{counters:?}");
        assert!(counters.reserve <= 2);
    }

    /// With everything deleted, all memory comes back.
    fn drain(mut self) {
        self = self.run(Op::Abandon);
        for (slot, _) in self.index.values() {
            assert!(self.store.supersede(slot.0, slot.1));
        }
        self.index.clear();
        self.writers.iter_mut().for_each(|writer| writer.seal_all());
        for _ in 0..3 {
            self = self.run(Op::Collect(50)).run(Op::Advance(50));
        }
        self.check();
        let counters = self.store.counters();
        assert_eq!((counters.free, counters.used_bytes, counters.reserve), (15, 0, 2), "{counters:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn one_leader_after_the_other_has_the_same_items(
        ops in proptest::collection::vec(op(), 1..160), seed in any::<u64>(),
    ) {
        let mut world = World::new();
        for op in ops {
            world = world.run(op);
        }
        world.run(Op::Succeed(seed)).run(Op::Collect(90)).drain();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    /// Lines that verify one by one and fit together by chance, if at all: the arena is sound once it was
    /// replayed, whatever the lines said.
    #[test]
    fn any_table_can_be_taken_over(
        lines in proptest::collection::vec((0u64..6, 1u32..4, 1u32..4, 0u64..3, any::<bool>()), 8),
        torn in proptest::collection::vec(0u64..8 * 8, 0..3),
    ) {
        let arena = memory(9);
        format(&arena, &sums()).expect("fresh");
        for (i, (state, generation, run, claim, shared)) in lines.into_iter().enumerate() {
            let state = SegmentState::from_bits(state).expect("a state");
            let shared = match state {
                SegmentState::Active | SegmentState::Sealed => true,
                SegmentState::RunHead | SegmentState::RunBody => false,
                SegmentState::Free | SegmentState::Quarantined => shared,
            };
            let (stride, run) = if shared { (128 << 8, 1) } else { (0, run) };
            let (claim_csn, term) = (Csn(claim), term(1));
            let line = Line { state, generation, term, stride, run, claim_csn, claim, ..Line::FREE };
            write_line(&arena, &sums(), i as u32 + 1, &line);
        }
        for word in torn {
            let at = line_at(1) + word * 8;
            arena.store(at, arena.load(at) ^ 0x0100_0001);
        }
        let store = Arc::new(adopt(&arena, 2).expect("an arena"));
        prop_assert!(keys(&store).is_empty());
        assert_sound(&store);
        // No entry is alive, so all memory comes back.
        let mut collector = Collector::new(store.clone());
        for i in 0..5 {
            collector.next_work(Nanos::from_millis(60 * i), 0);
        }
        assert_sound(&store);
        prop_assert_eq!((store.counters().free, store.counters().reserve), (8, 2));
    }
}

/// An arena with two rooms that share a segment, a run of four segments, and segments in quarantine and free.
fn some_arena() -> (Mapped, [EntryRef; 3]) {
    let store = store(SEGMENTS, StoreOptions { term: term(1), ..StoreOptions::default() });
    let mut writer = store.writer(0);
    let free = put(&mut writer, 1, b"free", &vec![1; 600_000]).expect("room");
    store.supersede(free.0, free.1);
    let mut collector = Collector::new(store.clone());
    collector.next_work(Nanos(0), 0);
    collector.next_work(Nanos::from_millis(50), 0);
    let places = [
        put(&mut writer, 2, b"first", b"value").expect("room").0,
        put(&mut writer, 3, b"large", &vec![3; 3 << 20]).expect("room").0,
        put(&mut writer, 4, b"going", &[4; 3_000]).expect("room").0,
    ];
    writer.seal_all();
    store.supersede(places[2], Csn(4));
    collector.next_work(Nanos(0), 0);
    let memory = memory(SEGMENTS);
    format(&memory, &sums()).expect("fresh");
    replicate(store.memory(), &memory, &mut Dice(1));
    (memory, places)
}

fn adopt(memory: &Mapped, counter: u32) -> Result<Store<Mapped>, CreateStoreError> {
    let options = StoreOptions { term: term(counter), ..StoreOptions::default() };
    Store::adopt(memory.clone(), Arc::new(Budget::new(u64::MAX)), options, sums())
}

/// Replays all segments and returns the keys.
fn keys(store: &Store<Mapped>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for &segment in store.adopted() {
        store.replay(segment, &mut Scratch::default(), &mut |_: EntryRef, entry: &Entry<'_>| {
            keys.push(entry.key.to_vec())
        });
    }
    keys.sort();
    keys
}

#[test]
fn what_no_leader_can_take_over_is_refused_with_a_reason() {
    assert!(matches!(adopt(&memory(SEGMENTS), 2), Err(CreateStoreError::Arena(_))));
    let (arena, _) = some_arena();
    let early = adopt(&arena, 1).unwrap_err();
    assert!(matches!(early, CreateStoreError::Term { .. }), "{early}");
    let options = StoreOptions { term: term(2), ..StoreOptions::default() };
    // Segments in use are there, and without the reserve none of them might ever be freed.
    let budget = Arc::new(Budget::new(5 * SEGMENT_BYTES));
    let tight = Store::adopt(arena, budget.clone(), options, sums()).expect("six segments are in use");
    assert_eq!((tight.counters().reserve, budget.used()), (2, 4096 + 8 * SEGMENT_BYTES));
    let reserve = StoreOptions { reserve: 15, ..options };
    let fresh = memory(SEGMENTS);
    format(&fresh, &sums()).expect("fresh");
    assert_eq!(format(&fresh, &sums()), Err(CreateStoreError::NotEmpty));
    let budget = Arc::new(Budget::new(u64::MAX));
    assert!(matches!(Store::adopt(fresh, budget, reserve, sums()), Err(CreateStoreError::Size { .. })));
    assert!(matches!(format(&memory(1), &sums()), Err(CreateStoreError::Size { least: 2, .. })));
}

#[test]
fn a_store_that_was_created_has_adopted_nothing_and_one_over_a_fresh_arena_neither() {
    assert!(store(SEGMENTS, StoreOptions::default()).adopted().is_empty());
    let fresh = memory(SEGMENTS);
    format(&fresh, &sums()).expect("fresh");
    let store = Arc::new(adopt(&fresh, 1).expect("an arena"));
    assert!(store.adopted().is_empty());
    put(&mut store.writer(0), 1, b"key", b"value").expect("room");
    assert_eq!(assert_sound(&store).total.live_entries, 1);
}

#[test]
fn numbers_go_on_where_the_last_leader_stopped() {
    let (arena, places) = some_arena();
    let before: Vec<Line> =
        (1..SEGMENTS as u32).map(|s| Line::read(&arena, &sums(), s).expect("sound")).collect();
    let claims = before.iter().map(|line| line.claim).max().expect("some");
    let store = Arc::new(adopt(&arena, 2).expect("an arena"));
    assert_eq!(keys(&store), [&b"first"[..], b"going", b"large"]);
    assert_sound(&store);
    let mut writer = store.writer(0);
    for i in 0.. {
        let Ok((place, csn)) = put(&mut writer, 10 + i, b"key", &[5; 400_000]) else { break };
        let line = Line::read(&arena, &sums(), segment_of(place.offset)).expect("sound");
        let old = before[segment_of(place.offset) as usize - 1];
        assert_eq!((line.term, line.generation), (term(2), old.generation + 1));
        assert!(line.claim > claims && line.claim <= claims + 1 + i, "{line:?}");
        let mut bytes = Vec::new();
        assert_eq!(store.read(place, csn, &mut bytes).expect("whole").term, term(2));
    }
    let old = store.read(places[0], Csn(2), &mut Vec::new()).map(|entry| (entry.term, entry.generation));
    let line = before[segment_of(places[0].offset) as usize - 1];
    assert_eq!(old, Ok((line.term, line.generation)), "what was there keeps its term");
    assert_sound(&store);
}

/// A claim, a seal or a release that landed half leaves a line that does not verify. Its segment is free; a
/// run with such a line is free as a whole.
#[test]
fn lines_that_landed_half_are_free() {
    let (sound, places) = some_arena();
    let [first, large, going] = places.map(|place| segment_of(place.offset));
    let all = [&b"first"[..], b"going", b"large"];
    for segment in 1..SEGMENTS as u32 {
        let state = Line::read(&sound, &sums(), segment).expect("sound").state;
        for word in 0..6u64 {
            let (arena, _) = some_arena();
            let at = line_at(segment) + word * 8;
            arena.store(at, arena.load(at) ^ 0x0100_0001);
            let store = Arc::new(adopt(&arena, 2).expect("an arena"));
            let gone = match segment {
                s if s == first => Some(b"first"),
                s if s == going => Some(b"going"),
                s if s >= large && s < large + 4 => Some(b"large"),
                _ => None,
            };
            assert_eq!(gone.is_none(), state == SegmentState::Free, "{state:?}");
            let left: Vec<&[u8]> =
                all.into_iter().filter(|key| gone.is_none_or(|gone| key != gone)).collect();
            assert_eq!(keys(&store), left, "word {word} of segment {segment}");
            let free = 9 + if gone == Some(b"large") { 4 } else { u32::from(gone.is_some()) };
            assert_eq!(store.counters().free, free, "word {word} of segment {segment}");
            assert_sound(&store);
            // No entry of the lost use shows when the segment is used again.
            let mut writer = store.writer(0);
            while put(&mut writer, 9, b"key", b"value of the same class").is_ok() {
                if store.counters().free <= 3 {
                    break;
                }
                writer.seal_all();
            }
            assert_sound(&store);
        }
    }
}

#[test]
#[should_panic(expected = "is replayed once")]
fn replaying_twice_is_a_crash() {
    let (arena, _) = some_arena();
    let store = adopt(&arena, 2).expect("an arena");
    keys(&store);
    keys(&store);
}

/// A room that another use filled, or whose entry landed half, is void after the replay, also beyond the last
/// entry.
#[test]
fn what_is_no_entry_of_this_use_is_voided() {
    let (arena, places) = some_arena();
    let first = places[0];
    let mut bytes = vec![0; first.len as usize];
    arena.copy_out(first.offset, &mut bytes);
    // The rooms behind it hold the entry of another term, the entry of another place, and half of an entry.
    let mark = layout::mark_word(term(1), 1);
    for (room, mark, sum) in
        [(1, layout::mark_word(term(0), 1), 5), (2, mark, arena.load(first.offset)), (7, mark, 1)]
    {
        let at = first.offset + room * 64;
        arena.copy_in(at, &bytes);
        arena.store(at + layout::MARK, mark);
        arena.store(at, sum);
    }
    // An entry of one stream in a segment that another stream has claimed.
    let going = segment_of(places[2].offset);
    let line = Line::read(&arena, &sums(), going).expect("sound");
    write_line(&arena, &sums(), going, &Line { stream: 1, ..line });
    let store = Arc::new(adopt(&arena, 2).expect("an arena"));
    assert_eq!(keys(&store), [&b"first"[..], b"large"]);
    for room in 1..8 {
        assert_eq!(arena.load(first.offset + room * 64), 0);
    }
    let line = Line::read(&arena, &sums(), segment_of(first.offset)).expect("sound");
    assert_eq!((line.state, line.tail), (SegmentState::Sealed, 64));
    assert_sound(&store);
}

/// Several threads replay at once, and none of them knows in which order the versions of a key come.
#[test]
fn segments_are_replayed_by_several_threads() {
    let store = store(64, StoreOptions { term: term(1), streams: 4, ..StoreOptions::default() });
    for stream in 0..4 {
        let mut writer = store.writer(stream);
        for i in 0..800 {
            let csn = i * 4 + stream as u64 + 1;
            let value = vec![csn as u8; [50, 900, 4_000][i as usize % 3]];
            put(&mut writer, csn, &[csn as u8 % 50], &value).expect("room");
        }
    }
    let arena = memory(64);
    replicate(store.memory(), &arena, &mut Dice(2));
    let store = adopt(&arena, 2).expect("an arena");
    let newest = std::sync::Mutex::new(BTreeMap::<u8, Slot>::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut scratch = Scratch::default();
                // Relaxed: a counter; the thread that draws a number does its part.
                while let Some(&segment) =
                    store.adopted().get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    store.replay(segment, &mut scratch, &mut |place: EntryRef, entry: &Entry<'_>| {
                        let mut newest = newest.lock().expect("no thread fails");
                        let slot = newest.entry(entry.key[0]).or_insert((place, entry.csn));
                        let lost = match slot.1.cmp(&entry.csn) {
                            std::cmp::Ordering::Less => std::mem::replace(slot, (place, entry.csn)),
                            std::cmp::Ordering::Equal => return,
                            std::cmp::Ordering::Greater => (place, entry.csn),
                        };
                        assert!(store.supersede(lost.0, lost.1));
                    });
                }
            });
        }
    });
    let newest = newest.into_inner().expect("no thread failed");
    let csns: Vec<u64> = newest.values().map(|slot| slot.1.0).collect();
    assert!(newest.len() == 50 && csns.iter().all(|csn| *csn > 3_100), "{csns:?}");
    assert_eq!(assert_sound(&store).total.live_entries, 50);
}
