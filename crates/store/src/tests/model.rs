//! The store against its twin, a map of live entries, through any order of writes, drafts, deletes,
//! collection and time.

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::limits::LINE;
use proptest::prelude::*;

use super::*;
use crate::segment::layout::segment_of;
use crate::segment::{Line, SegmentState};

const LENGTHS: [usize; 12] =
    [0, 3, 40, 100, 700, 3_000, 40_000, 200_000, 300_000, 600_000, 1_100_000, 2_200_000];

#[derive(Clone, Debug)]
enum Op {
    Put { key: u8, len: usize, writer: usize },
    Draft { key: u8, len: usize, writer: usize },
    Finish(usize),
    Abandon(usize),
    Delete(u8),
    Seal(usize),
    SealOld(usize),
    Empty(bool),
    Review,
    Collect(u32),
    Advance(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let len = (0..LENGTHS.len(), 0usize..64).prop_map(|(i, more)| LENGTHS[i] + more);
    prop_oneof![
        6 => (0u8..24, len.clone(), 0usize..2).prop_map(|(key, len, writer)| Op::Put { key, len, writer }),
        2 => (0u8..24, len, 0usize..2).prop_map(|(key, len, writer)| Op::Draft { key, len, writer }),
        2 => any::<usize>().prop_map(Op::Finish),
        1 => any::<usize>().prop_map(Op::Abandon),
        3 => (0u8..24).prop_map(Op::Delete),
        1 => (0usize..2).prop_map(Op::Seal),
        1 => (0usize..2).prop_map(Op::SealOld),
        1 => any::<bool>().prop_map(Op::Empty),
        1 => Just(Op::Review),
        2 => (0u32..100).prop_map(Op::Collect),
        2 => (0u64..40).prop_map(Op::Advance),
    ]
}

/// A draft that is not finished yet.
struct Pending {
    key: u8,
    draft: Draft,
    value: Vec<u8>,
    writer: usize,
}

struct Twin {
    store: Arc<Store<Mapped>>,
    budget: Arc<Budget>,
    writers: [Writer<Mapped>; 2],
    collector: Collector<Mapped>,
    live: BTreeMap<u8, (Slot, Vec<u8>)>,
    drafts: Vec<Pending>,
    csn: u64,
    finished: [u64; 2],
    now: Nanos,
}

impl Twin {
    fn new() -> Twin {
        let budget = Arc::new(Budget::new(14 * SEGMENT_BYTES));
        let options = StoreOptions { streams: 2, pool: 2, ..StoreOptions::default() };
        let store = Arc::new(Store::create(memory(16), budget.clone(), options, sums()).expect("fits"));
        Twin {
            writers: [store.writer(0), store.writer(1)],
            collector: Collector::new(store.clone()),
            store,
            budget,
            live: BTreeMap::new(),
            drafts: Vec::new(),
            csn: 0,
            finished: [0; 2],
            now: Nanos(0),
        }
    }

    fn draft(&mut self, key: u8, len: usize, writer: usize) -> Option<Pending> {
        let value: Vec<u8> = (0..len).map(|i| (i as u64 * 31 + self.csn) as u8).collect();
        match self.writers[writer].draft(&[b'k', key], &value, EntryMeta::PUT) {
            Ok(draft) => Some(Pending { key, draft, value, writer }),
            Err(DraftError::Full(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn finish(&mut self, pending: Pending) {
        let Pending { key, draft, value, writer } = pending;
        self.csn += 1;
        self.finished[writer] += 1;
        let csn = Csn(self.csn);
        let place = self.writers[writer].finish(draft, csn);
        if let Some((old, _)) = self.live.get(&key) {
            assert!(self.store.supersede(old.0, old.1));
        }
        self.live.insert(key, ((place, csn), value));
        self.store.set_stable(csn);
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Put { key, len, writer } => {
                if let Some(draft) = self.draft(key, len, writer) {
                    self.finish(draft);
                }
            }
            Op::Draft { key, len, writer } => {
                let draft = self.draft(key, len, writer);
                self.drafts.extend(draft);
            }
            Op::Finish(pick) if !self.drafts.is_empty() => {
                let draft = self.drafts.swap_remove(pick % self.drafts.len());
                self.finish(draft);
            }
            Op::Abandon(pick) if !self.drafts.is_empty() => {
                let Pending { draft, writer, .. } = self.drafts.swap_remove(pick % self.drafts.len());
                self.writers[writer].abandon(draft);
            }
            Op::Delete(key) => {
                if let Some((slot, _)) = self.live.remove(&key) {
                    assert!(self.store.supersede(slot.0, slot.1));
                    assert!(!self.store.supersede(slot.0, slot.1), "accounted once");
                }
            }
            Op::Seal(writer) => self.writers[writer].seal_all(),
            Op::SealOld(writer) => self.writers[writer].seal_old(),
            Op::Empty(empties) => self.collector.empty_before(empties.then_some(Csn(self.csn))),
            Op::Collect(threshold) => {
                let (live, finished) = (&mut self.live, &mut self.finished);
                collect(
                    &mut self.collector,
                    &mut self.writers[0],
                    self.now,
                    threshold,
                    &mut |key, from, to| {
                        finished[0] += 1;
                        let slot = &mut live.get_mut(&key[1]).expect("only live entries are moved").0;
                        assert_eq!(*slot, from);
                        *slot = to;
                        true
                    },
                );
            }
            Op::Review => self.collector.review(),
            Op::Advance(ms) => self.now = self.now + Nanos::from_millis(ms),
            Op::Finish(_) | Op::Abandon(_) => {}
        }
    }

    fn check(&self) {
        let mut bytes = Vec::new();
        for (key, ((place, csn), value)) in &self.live {
            let entry = self.store.read(*place, *csn, &mut bytes).expect("a live entry verifies");
            assert!(entry.key == [b'k', *key] && entry.value == value && !entry.superseded);
        }
        let report = assert_sound(&self.store);
        let counters = self.store.counters();
        assert_eq!(counters.entries as usize, self.live.len());
        assert_eq!(report.total.live_entries as usize, self.live.len());
        let units: u64 = self.live.values().map(|(slot, _)| slot.0.units() as u64 * LINE).sum();
        assert_eq!(counters.live_bytes, units);
        assert_eq!(counters.drafts as usize, self.drafts.len());
        let parts = counters.free + counters.active + counters.sealed + counters.quarantined;
        assert_eq!(parts, counters.segments);
        assert_eq!(counters.active, report.states[SegmentState::Active as usize]);
        self.check_watermarks();
        let mut positions = [BTreeSet::new(), BTreeSet::new()];
        verify_with(self.store.memory(), &sums(), &mut |_, entry| {
            assert!(positions[entry.stream as usize].insert(entry.position), "a position names one entry");
        });
        for (positions, finished) in positions.iter().zip(self.finished) {
            assert!(positions.last().is_none_or(|last| *last < finished));
        }
    }

    /// Compares the watermarks with a look at all lines.
    fn check_watermarks(&self) {
        let line = |segment| Line::read(self.store.memory(), &sums(), segment).expect("sound");
        let of = |segment| {
            if line(segment).state == SegmentState::RunBody { segment - line(segment).run } else { segment }
        };
        let items = self.live.values().map(|(slot, _)| segment_of(slot.0.offset));
        let drafts = self.drafts.iter().map(|pending| pending.draft.room.segment);
        let filled: BTreeSet<u32> = items.chain(drafts).collect();
        // The one entry of a run hides nothing, and is hidden by nothing, while it is an item.
        let counts = |segment| match line(segment).state {
            SegmentState::Free => false,
            SegmentState::RunHead | SegmentState::RunBody => !filled.contains(&of(segment)),
            _ => true,
        };
        let least =
            |aside| (1..16).filter(|&s| counts(s) && Some(of(s)) != aside).map(|s| line(s).claim_csn).min();
        for aside in 1..16 {
            assert_eq!(self.store.watermark_without(aside), least(Some(of(aside))), "without {aside}");
        }
        assert_eq!(self.store.watermark(), least(None));
    }

    /// With every key deleted, all memory comes back.
    fn drain(mut self) {
        for (slot, _) in self.live.values() {
            self.store.supersede(slot.0, slot.1);
        }
        self.live.clear();
        self.drafts.clear();
        self.collector.empty_before(None);
        for writer in &mut self.writers {
            writer.seal_all();
        }
        for _ in 0..10 {
            self.run(Op::Collect(50));
            self.now = self.now + Nanos::from_millis(50);
        }
        self.check();
        let counters = self.store.counters();
        assert_eq!((counters.free, counters.used_bytes, counters.reserve), (15, 0, 2), "{counters:?}");
        assert_eq!(self.budget.used(), 4096 + 2 * SEGMENT_BYTES);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_store_is_its_twin(ops in proptest::collection::vec(op(), 1..160)) {
        let mut twin = Twin::new();
        for (i, op) in ops.into_iter().enumerate() {
            twin.run(op);
            if i % 16 == 0 {
                twin.check();
            }
        }
        twin.check();
        twin.drain();
    }
}
