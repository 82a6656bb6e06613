//! The tree against a map: entries of several streams in whatever order these come, steps of many entries,
//! sweeps, ranges; a check of every node after each step.

use std::collections::{BTreeMap, VecDeque};

use longarm_memory::{Backing, Mapped, Region, RegionOptions};
use proptest::prelude::*;

use super::*;

const STREAMS: usize = 3;

#[derive(Clone, Debug)]
enum Action {
    Put(u16, bool),
    Delete(u16),
    /// Collection copies a key's item, and may free the original.
    Move(u16, bool),
    /// The tree takes so many entries of each stream, in one step: in their order, or in that of keys.
    Step([u8; STREAMS]),
    Sweep(u8),
    Look(u16, u16),
}

/// Keys that a test draws from.
#[derive(Clone, Copy, Debug)]
enum Names {
    Random,
    LongPrefix,
    Ascending,
    Descending,
    Longest,
    Mixed,
}

impl Names {
    fn of(self, i: u16) -> Vec<u8> {
        let spread = |i: u16| longarm_base::random::mix64(u64::from(i)).to_le_bytes();
        match self {
            Names::Random => [&spread(i)[..], &spread(i ^ 0x5555)].concat(),
            Names::LongPrefix => [&b"tenant/0000000000000000000042/user/"[..], &spread(i)[..3]].concat(),
            Names::Ascending => format!("key-{i:08}").into_bytes(),
            Names::Descending => format!("key-{:08}", u16::MAX - i).into_bytes(),
            Names::Longest => {
                [&[b'x'; 249][..], format!("{:07}", u32::from(i) * 7919 % 65_537).as_bytes()].concat()
            }
            Names::Mixed => match i % 4 {
                0 => spread(i)[..1 + usize::from(i % 7)].to_vec(),
                1 => Names::Longest.of(i),
                _ => Names::LongPrefix.of(i),
            },
        }
    }
}

fn actions(keys: u16) -> impl Strategy<Value = Vec<Action>> {
    let key = 0..keys;
    let action = prop_oneof![
        12 => (key.clone(), any::<bool>()).prop_map(|(k, e)| Action::Put(k, e)),
        4 => key.clone().prop_map(Action::Delete),
        3 => (key.clone(), any::<bool>()).prop_map(|(k, free)| Action::Move(k, free)),
        4 => proptest::array::uniform3(0u8..30).prop_map(Action::Step),
        1 => (1u8..20).prop_map(Action::Sweep),
        1 => (key.clone(), key).prop_map(|(a, b)| Action::Look(a, b)),
    ];
    proptest::collection::vec(action, 1..500)
}

/// An entry on its way.
#[derive(Clone, Debug)]
struct Sent {
    key: Vec<u8>,
    kind: EntryKind,
    csn: u64,
    age: u128,
    place: EntryRef,
    expiry: UnixMillis,
}

impl Sent {
    fn entry(&self) -> TreeEntry<'_> {
        TreeEntry {
            key: &self.key,
            kind: self.kind,
            csn: Csn(self.csn),
            age: self.age,
            entry: self.place,
            expiry: self.expiry,
        }
    }
}

/// A leader that writes and collects, and what the tree was given of that.
struct Leader {
    book: Arc<Book>,
    csn: u64,
    line: u64,
    /// The newest of each key.
    now: BTreeMap<Vec<u8>, Sent>,
    streams: [VecDeque<Sent>; STREAMS],
    given: BTreeMap<Vec<u8>, Vec<Sent>>,
}

impl Leader {
    fn send(&mut self, sent: Sent) {
        self.book.write(sent.place, Csn(sent.csn), sent.age);
        let stream = longarm_base::random::mix64(self.line) as usize % STREAMS;
        self.now.insert(sent.key.clone(), sent.clone());
        self.streams[stream].push_back(sent);
    }

    fn write(&mut self, key: Vec<u8>, kind: EntryKind, expires: bool) {
        (self.csn, self.line) = (self.csn + 1, self.line + 1);
        let expiry = UnixMillis(if expires { self.csn } else { 0 });
        self.send(Sent { key, kind, csn: self.csn, age: 0, place: place(self.line), expiry });
    }

    fn collect(&mut self, key: &[u8], free: bool) {
        let Some(old) = self.now.get(key).filter(|old| old.kind != EntryKind::Tombstone).cloned() else {
            return;
        };
        self.line += 1;
        let moved = Sent { kind: EntryKind::Move, age: old.age + 1, place: place(self.line), ..old.clone() };
        self.send(moved);
        if free {
            self.book.free(old.place);
        }
    }

    /// Takes up to so many entries of each stream.
    fn take(&mut self, counts: [u8; STREAMS]) -> Vec<Sent> {
        let mut taken = Vec::new();
        for (stream, count) in self.streams.iter_mut().zip(counts) {
            taken.extend(stream.drain(..usize::from(count).min(stream.len())));
        }
        for sent in &taken {
            self.given.entry(sent.key.clone()).or_default().push(sent.clone());
        }
        taken
    }

    /// All writes up to here were given.
    fn stable(&self) -> u64 {
        let waits = self.streams.iter().flatten().filter(|sent| sent.kind != EntryKind::Move);
        waits.map(|sent| sent.csn).min().map_or(self.csn, |csn| csn - 1)
    }

    /// What the tree must have: of each key the newest version that it was given, in its youngest copy.
    fn wanted(&self) -> BTreeMap<Vec<u8>, (u64, EntryRef, UnixMillis)> {
        let newest = |sent: &&Sent| (sent.csn, sent.age);
        let given = self.given.iter().map(|(key, all)| (key, all.iter().max_by_key(newest).expect("one")));
        given
            .filter(|(_, sent)| sent.kind != EntryKind::Tombstone)
            .map(|(key, sent)| (key.clone(), (sent.csn, sent.place, sent.expiry)))
            .collect()
    }
}

pub fn region(bytes: u64) -> Mapped {
    let options = RegionOptions { name: "tree".into(), bytes, backing: Backing::SmallPages };
    Region::create(&options).expect("memory").memory().clone()
}

fn look(bed: &mut Bed<Mapped>, leader: &Leader, a: &[u8], b: &[u8]) -> Result<(), TestCaseError> {
    let wanted = leader.wanted();
    let (low, high) = if a <= b { (a, b) } else { (b, a) };
    for (low, high) in [
        (Bound::Included(low), Bound::Included(high)),
        (Bound::Excluded(low), Bound::Unbounded),
        (Bound::Unbounded, Bound::Excluded(high)),
    ] {
        for reverse in [false, true] {
            let range = TreeRange { low, high, reverse };
            let within = wanted.iter().filter(|(key, _)| match low {
                Bound::Included(low) => key.as_slice() >= low,
                Bound::Excluded(low) => key.as_slice() > low,
                Bound::Unbounded => true,
            });
            let mut all: Vec<Shown> = within
                .filter(|(key, _)| match high {
                    Bound::Included(high) => key.as_slice() <= high,
                    Bound::Excluded(high) => key.as_slice() < high,
                    Bound::Unbounded => true,
                })
                .map(|(key, (csn, ..))| (key.clone(), *csn))
                .collect();
            if reverse {
                all.reverse();
            }
            prop_assert_eq!(&bed.range(&range), &all);
            prop_assert_eq!(&bed.read(&range).0, &all);
            let page = bed.owner.page(&range, PageLimits { items: 3, key_bytes: 40 });
            prop_assert!(page.items.len() <= 3 && (all.is_empty() || !page.items.is_empty()));
            prop_assert_eq!(page.more, page.items.len() < all.len());
            let shown: Vec<Shown> = page.items.into_iter().map(|item| (item.key, item.csn.0)).collect();
            prop_assert_eq!(&shown[..], &all[..shown.len()]);
        }
    }
    let key = |item: Option<PageItem>| item.map(|item| item.key);
    let (floor, ceiling) = (bed.owner.floor(a), bed.owner.ceiling(a));
    prop_assert_eq!(key(floor), wanted.range(..=a.to_vec()).next_back().map(|(key, _)| key.clone()));
    prop_assert_eq!(key(ceiling), wanted.range(a.to_vec()..).next().map(|(key, _)| key.clone()));
    prop_assert_eq!(key(bed.owner.get(a)).is_some(), wanted.contains_key(a));
    Ok(())
}

fn compare(bed: &mut Bed<Mapped>, leader: &Leader) -> Result<(), TestCaseError> {
    let wanted = leader.wanted();
    let mut found = BTreeMap::new();
    let report = verify(&*bed.memory, &bed.sums, |key, record| {
        if let Some(entry) = record.entry {
            found.insert(key.to_vec(), (record.csn.0, entry, record.expiry));
        }
        Ok(())
    });
    prop_assert_eq!(report.problem_count, 0, "{:#?}", report.problems);
    prop_assert!(found.keys().eq(wanted.keys()), "{:?} and {:?}", found.keys(), wanted.keys());
    for (key, (csn, place, expiry)) in wanted {
        let (have, there, until) = found[&key];
        prop_assert_eq!((have, until), (csn, expiry));
        // Where a copy was and is free, its successor is on its way: until then any of them will do.
        if bed.book.age_of(place, Csn(csn)).is_some() {
            prop_assert_eq!(there, place);
        }
    }
    bed.check();
    Ok(())
}

fn run(actions: Vec<Action>, names: Names, options: TreeOptions) -> Result<(), TestCaseError> {
    let mut bed = bed(region(4 << 20), options);
    let mut leader = Leader {
        book: bed.book.clone(),
        csn: 0,
        line: 0,
        now: BTreeMap::new(),
        streams: Default::default(),
        given: BTreeMap::new(),
    };
    let drain = std::iter::repeat_n(Action::Step([200; STREAMS]), 4);
    for action in actions.into_iter().chain(drain) {
        match action {
            Action::Put(k, expires) => leader.write(names.of(k), EntryKind::Put, expires),
            Action::Delete(k) => leader.write(names.of(k), EntryKind::Tombstone, false),
            Action::Move(k, free) => leader.collect(&names.of(k), free),
            Action::Step(counts) => {
                let mut taken = leader.take(counts);
                let mut step = bed.owner.begin();
                if counts[0].is_multiple_of(2) {
                    taken.sort_by_key(|sent| (sent.key.clone(), sent.csn, sent.age));
                    prop_assert!(step.apply_all(taken.iter().map(Sent::entry)).is_ok());
                    step.sweep(usize::from(counts[1] % 4));
                } else {
                    taken.iter().try_for_each(|sent| step.apply(&sent.entry()).map(drop)).expect("room");
                }
                step.publish(&standing(leader.stable()));
                compare(&mut bed, &leader)?;
            }
            Action::Sweep(leaves) => {
                let mut step = bed.owner.begin();
                step.sweep(usize::from(leaves));
                step.publish(&standing(leader.stable()));
                compare(&mut bed, &leader)?;
            }
            Action::Look(a, b) => look(&mut bed, &leader, &names.of(a), &names.of(b))?,
        }
    }
    let all = bed.read(&TreeRange::ALL).0;
    prop_assert_eq!(all.len() as u64, bed.owner.counts().items);
    // Two rounds: what the first one merges may be merged once more.
    for _ in 0..2 {
        bed.owner.begin().sweep(usize::MAX);
        bed.owner.begin().publish(&standing(leader.stable()));
    }
    compare(&mut bed, &leader)?;
    prop_assert_eq!(bed.owner.counts().markers, 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn random_keys(actions in actions(300)) {
        run(actions, Names::Random, SMALL)?;
    }
    #[test]
    fn keys_with_a_long_common_prefix(actions in actions(300)) {
        run(actions, Names::LongPrefix, TreeOptions { least_keys: 6, ..SMALL })?;
    }
    #[test]
    fn the_longest_keys(actions in actions(120)) {
        run(actions, Names::Longest, SMALL)?;
    }
    #[test]
    fn keys_of_all_lengths(actions in actions(200)) {
        run(actions, Names::Mixed, TreeOptions { least_keys: 4, ..SMALL })?;
    }
    #[test]
    fn keys_of_a_tree_as_it_is_used(actions in actions(400)) {
        run(actions, Names::Mixed, TreeOptions::default())?;
    }
}

/// Puts ascending or descending keys, a few a step.
fn run_in_order(names: Names, count: u16) -> Bed<Mapped> {
    let mut bed = bed(region(4 << 20), TreeOptions::default());
    let mut csn = 0;
    for chunk in (0..count).collect::<Vec<_>>().chunks(50) {
        for i in chunk {
            csn += 1;
            bed.owner.begin().apply(&put_of(&names.of(*i), csn)).expect("room");
        }
        bed.csn = csn;
        bed.publish();
        bed.check();
    }
    assert_eq!(bed.read(&TreeRange::ALL).0.len(), usize::from(count));
    bed
}

#[test]
fn keys_that_ascend_or_descend_fill_their_leaves() {
    for names in [Names::Ascending, Names::Descending] {
        let report = run_in_order(names, 5000).check();
        let full = report.used * 100 / (report.units * 1024);
        assert!(full >= 80, "{names:?}: {full} %");
    }
}
