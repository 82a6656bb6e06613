//! A leader writes, deletes, collects and frees, and a scribe keeps its arena in a file. Then the power is
//! lost within a batch: the file is adopted as a follower's memory is, and has all that a batch said to be
//! there. Nothing that was deleted comes back, also if its segment was used again in the meantime (L10, on a
//! disk).

use std::collections::BTreeMap;
use std::sync::Arc;

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Csn, EntryRef, Nanos, ReplicaId, Term};
use longarm_disk::layout::file_bytes;
use longarm_disk::{ArenaDisk, Mark, Scribe, SectorMedium, Shape};
use longarm_memory::{Backing, Budget, Mapped, OwnedWords, Region, RegionOptions, SumKey};
use longarm_store::segment::layout::{line_at, segment_at, segment_of};
use longarm_store::segment::{claim_number, freed_line, replica_line, run_length};
use longarm_store::{Collector, Entry, EntryMeta, Scratch, Store, StoreOptions, Work, Writer, format};
use proptest::prelude::*;

const SEGMENTS: u32 = 12;
const SHAPE: Shape = Shape { group: 1, segments: SEGMENTS, table: 1 };
const LENGTHS: [usize; 6] = [0, 100, 40_000, 300_000, 600_000, 900_000];

fn sums() -> SumKey {
    SumKey::new(0x5EED)
}

fn memory() -> Mapped {
    let bytes = u64::from(SEGMENTS) * SEGMENT_BYTES;
    let options = RegionOptions { name: "arena".into(), bytes, backing: Backing::Private };
    Region::create(&options).expect("memory").memory().clone()
}

fn options(counter: u32) -> StoreOptions {
    let term = Term::new(counter, ReplicaId(0));
    StoreOptions { streams: 2, pool: 2, term, ask_release: true, ..StoreOptions::default() }
}

/// The newest entry of a key: its place and version, and the value, or none for a tombstone.
type Item = (EntryRef, Csn, Option<Vec<u8>>);
/// What a key was of some version.
type Version = (Csn, Option<Vec<u8>>);

#[derive(Clone, Debug)]
enum Op {
    Put {
        key: u8,
        len: usize,
        stream: usize,
    },
    Delete {
        key: u8,
        stream: usize,
    },
    DropTombstones,
    Collect(u32),
    Advance(u64),
    /// Whatever can go goes.
    Tidy,
    Batch,
}

fn op() -> impl Strategy<Value = Op> {
    let len = (0..LENGTHS.len(), 0usize..64).prop_map(|(i, more)| LENGTHS[i] + more);
    prop_oneof![
        10 => (0u8..8, len, 0usize..2).prop_map(|(key, len, stream)| Op::Put { key, len, stream }),
        5 => (0u8..8, 0usize..2).prop_map(|(key, stream)| Op::Delete { key, stream }),
        2 => Just(Op::DropTombstones),
        3 => (0u32..100).prop_map(Op::Collect),
        3 => (10u64..60).prop_map(Op::Advance),
        3 => Just(Op::Tidy),
        3 => Just(Op::Batch),
    ]
}

struct Leader {
    store: Arc<Store<Mapped>>,
    writers: [Writer<Mapped>; 2],
    collector: Collector<Mapped>,
    index: BTreeMap<u8, Item>,
    /// By key: all that it ever was.
    history: BTreeMap<u8, Vec<Version>>,
    scribe: Scribe<SectorMedium>,
    medium: SectorMedium,
    /// By segment: the claim whose line was named.
    claims: Vec<u64>,
    csn: u64,
    /// A batch said that all up to this version is there.
    said: u64,
    now: Nanos,
}

impl Leader {
    fn new(medium: SectorMedium) -> Leader {
        let budget = Arc::new(Budget::new(u64::MAX));
        let store = Arc::new(Store::create(memory(), budget, options(1), sums()).expect("fits"));
        let disk = ArenaDisk::create(medium.clone(), SHAPE, 1).expect("made");
        let (term, first) = (Term::new(1, ReplicaId(0)), Mark { written: vec![0; 2], ..Mark::default() });
        Leader {
            writers: [store.writer(0), store.writer(1)],
            collector: Collector::new(store.clone()),
            store,
            index: BTreeMap::new(),
            history: BTreeMap::new(),
            scribe: Scribe::begin(disk, term, false, first).expect("begun"),
            medium,
            claims: vec![0; SEGMENTS as usize],
            csn: 0,
            said: 0,
            now: Nanos(0),
        }
    }

    /// Tells the scribe of an entry, and of the claim of its segment.
    fn name(&mut self, stream: usize, place: EntryRef) {
        let (memory, segment) = (self.store.memory(), segment_of(place.offset));
        let claim = claim_number(memory, segment);
        if self.claims[segment as usize] != claim {
            self.claims[segment as usize] = claim;
            for segment in segment..segment + run_length(memory, segment) {
                let line = replica_line(memory, &sums(), segment).expect("nobody changes it");
                self.scribe.name_line(segment, &line);
            }
        }
        self.scribe.name_entry(stream, place.offset, place.len.into());
    }

    fn batch(&mut self) -> bool {
        let memory = self.store.memory();
        let copy = |at, into: &mut [u8]| {
            longarm_memory::Words::copy_out(memory, at, into);
            true
        };
        let written = self.scribe.batch(true, copy).is_ok();
        if written {
            self.said = self.csn;
        }
        written
    }

    fn write(&mut self, key: u8, value: Option<Vec<u8>>, stream: usize) {
        let meta = if value.is_some() { EntryMeta::PUT } else { EntryMeta::TOMBSTONE };
        let bytes = value.as_deref().unwrap_or_default();
        let Ok(draft) = self.writers[stream].draft(&[b'k', key], bytes, meta) else { return };
        self.csn += 1;
        let csn = Csn(self.csn);
        let place = self.writers[stream].finish(draft, csn);
        self.name(stream, place);
        self.history.entry(key).or_default().push((csn, value.clone()));
        if let Some((old, version, _)) = self.index.insert(key, (place, csn, value)) {
            assert!(self.store.supersede(old, version));
        }
        self.store.set_stable(csn);
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Put { key, len, stream } => {
                let value = (0..len).map(|i| (i as u64 * 31 + self.csn) as u8).collect();
                self.write(key, Some(value), stream);
            }
            Op::Delete { key, stream } if self.index.get(&key).is_some_and(|item| item.2.is_some()) => {
                self.write(key, None, stream);
            }
            Op::Delete { .. } => {}
            Op::DropTombstones => {
                let store = &self.store;
                self.index.retain(|_, (place, csn, value)| {
                    let goes = value.is_none() && store.tombstone_may_go(*place, *csn);
                    !(goes && store.supersede(*place, *csn))
                });
            }
            Op::Collect(threshold) => self.collect(threshold),
            Op::Advance(ms) => self.now = self.now + Nanos::from_millis(ms),
            Op::Tidy => {
                for op in [Op::Collect(100), Op::Advance(60), Op::Collect(100), Op::DropTombstones] {
                    self.run(op);
                }
            }
            Op::Batch => assert!(self.batch()),
        }
    }

    fn collect(&mut self, threshold: u32) {
        let mut bytes = Vec::new();
        loop {
            match self.collector.next_work(self.now, threshold) {
                Work::Idle(_) => return,
                Work::Again => {}
                Work::Review { place, csn } => panic!("{csn:?} at {place:?} is an item"),
                Work::Release { segment, .. } => {
                    // The disk lets go first, and has all that made the segment needless.
                    let memory = self.store.memory();
                    for segment in segment..segment + run_length(memory, segment) {
                        let line = freed_line(memory, &sums(), segment, self.store.stable());
                        self.scribe.name_line(segment, &line);
                    }
                    assert!(self.batch());
                    self.store.released(segment);
                }
                Work::Move { place, csn } => {
                    let store = self.store.clone();
                    let entry = store.read(place, csn, &mut bytes).expect("a live entry verifies");
                    let Ok(draft) = self.writers[0].draft_move(&entry) else {
                        self.collector.starved(self.now);
                        return;
                    };
                    let copy = self.writers[0].finish(draft, csn);
                    self.name(0, copy);
                    let item = self.index.get_mut(&entry.key[1]).expect("only live entries are moved");
                    assert_eq!(item.0, place);
                    item.0 = copy;
                    assert!(store.supersede(place, csn));
                }
            }
        }
    }

    /// Adopts what a loss of power left: of each key what was said to be there, or something newer.
    fn check(&self, image: &[u8]) {
        let opened = ArenaDisk::open(SectorMedium::of(image.to_vec()), SHAPE);
        let (disk, _) = opened.unwrap_or_else(|error| panic!("{error}"));
        let memory = memory();
        format(&memory, &sums()).expect("fresh");
        let mut bytes = vec![0; SEGMENT_BYTES as usize];
        for segment in 1..SEGMENTS {
            memory.copy_in(line_at(segment), &disk.line(segment));
            disk.read(segment_at(segment), &mut bytes).expect("read");
            memory.copy_in(segment_at(segment), &bytes);
        }
        let budget = Arc::new(Budget::new(u64::MAX));
        let store = Store::adopt(memory, budget, options(2), sums()).expect("adopted");
        let (mut newest, mut scratch) = (BTreeMap::<u8, Version>::new(), Scratch::default());
        for &segment in store.adopted() {
            store.replay(segment, &mut scratch, &mut |_: EntryRef, entry: &Entry<'_>| {
                let found = (entry.csn, entry.kind.is_value().then(|| entry.value.to_vec()));
                let known = newest.entry(entry.key[1]).or_insert_with(|| found.clone());
                if known.0 < found.0 {
                    *known = found;
                }
            });
        }
        for (key, history) in &self.history {
            let said = history.iter().rfind(|(csn, _)| csn.0 <= self.said);
            let found = newest.get(key);
            match (found, said) {
                (Some(found), _) => {
                    assert!(history.contains(found), "key {key}: {:?} was never written", found.0);
                    let least = said.map_or(Csn::NONE, |said| said.0);
                    // A tombstone that was dropped leaves nothing, so what it deleted must be gone, too.
                    assert!(
                        found.0 >= least,
                        "key {key}: {:?} is back, {least:?} was said to be there",
                        found.0
                    );
                }
                (None, Some((csn, Some(_)))) => panic!("key {key} is lost: {csn:?} was said to be there"),
                (None, Some((_, None)) | None) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_file_is_adopted_after_a_loss_of_power_and_nothing_deleted_comes_back(
        ops in proptest::collection::vec(op(), 1..250),
        left in 0u32..20,
        is_memory in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let sectors = SectorMedium::new(file_bytes(SEGMENTS.into(), 1));
        let mut leader = Leader::new(if is_memory { sectors.in_lines() } else { sectors });
        ops.into_iter().for_each(|op| leader.run(op));
        leader.medium.fail_after(left);
        leader.batch();
        leader.medium.images().visit(4, 4, seed, |image| leader.check(image));
    }
}
