//! Every cut of every READ over every kind of flush: whatever a walk shows under a header is the tree of that
//! header's step, no key wrong and none missing; and at every moment what pointers name is there.
//!
//! B1, B2, B6: lines of a READ in any order, each at a moment of its own; nodes that were split, merged,
//! moved or that a cache names though they are gone.

use std::collections::BTreeMap;

use longarm_base::Place;
use longarm_memory::{Cut, Journal};

use super::super::layout::{NODES_AT, STEP_MAX, header_places};
use super::super::path::Target;
use super::*;

/// What a walk showed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Shown(Vec<Shown>),
    Again,
}

use Answer::{Again, Shown as All};

/// A walk as it is under way.
#[derive(Clone)]
struct Fork {
    walk: TreeWalk,
    /// The node to READ.
    next: Pointer,
    evidence: Cut,
    shown: Vec<Shown>,
    reads: usize,
}

/// What to walk over, and what a cache says.
#[derive(Clone, Copy, Default)]
struct Looks<'a> {
    /// One key, or all.
    key: Option<&'a [u8]>,
    /// Nodes that a cache names for the key, to begin with instead of the root.
    hints: &'a [Pointer],
    /// Leaves that a cache names as those that come next, READ ahead.
    guesses: &'a [Pointer],
    reverse: bool,
}

impl Looks<'_> {
    fn range(&self) -> TreeRange<'_> {
        match self.key {
            None => TreeRange { reverse: self.reverse, ..TreeRange::ALL },
            Some(key) => {
                TreeRange { low: Bound::Included(key), high: Bound::Included(key), reverse: self.reverse }
            }
        }
    }
}

type JournalBed = Bed<Journal>;

impl JournalBed {
    /// Every header that READs of its two copies within these moments can give, each with its evidence.
    fn headers(&self, from: usize, to: usize) -> Vec<(Header, Cut)> {
        let cuts = |place: Place, from| self.memory.cuts(place.offset, place.len as usize, from, to);
        let [first, second] = header_places(4);
        let mut found: Vec<(Header, Cut)> = Vec::new();
        for one in cuts(first, from) {
            for two in cuts(second, one.since) {
                let Some(evidence) = one.then(&two) else { continue };
                let Some(header) = Header::newest([&one.bytes, &two.bytes], &self.sums) else { continue };
                let known = found.iter().any(|(other, cut)| {
                    (other, cut.since, cut.until) == (&header, evidence.since, evidence.until)
                });
                if !known {
                    found.push((header, evidence));
                }
            }
        }
        found
    }

    /// Runs a walk under a header over the memory of a window; forks wherever a READ has several outcomes.
    fn explore(&self, header: &Header, looks: &Looks<'_>, evidence: &Cut, to: usize) -> Vec<Answer> {
        let sight = Sight { header, sums: &self.sums, bytes: self.memory.bytes() };
        let range = looks.range();
        let mut open = Vec::new();
        for hint in looks.hints.iter().map(|hint| Some(*hint)).chain([None]) {
            let (walk, step) = TreeWalk::start(&range, hint, &sight);
            let TreeStep::Read(next) = step else { panic!("{step:?}") };
            open.push(Fork { walk, next, evidence: evidence.clone(), shown: Vec::new(), reads: 0 });
        }
        let mut answers = Vec::new();
        while let Some(fork) = open.pop() {
            if fork.reads > 24 {
                answers.push(Again);
                continue;
            }
            let guesses = looks.guesses.iter().filter(|_| fork.next.level == 0);
            for pointer in guesses.chain([&fork.next]) {
                let (at, len) = (pointer.at(header.unit), pointer.bytes(header.unit));
                for cut in self.memory.cuts(at, len, fork.evidence.since, to) {
                    let Some(joined) = fork.evidence.then(&cut) else { continue };
                    let mut next = fork.clone();
                    next.reads += 1;
                    let step = next.walk.feed(*pointer, &cut.bytes, &sight);
                    let step = match step {
                        TreeStep::Leaf(leaf) => {
                            show(&leaf, &range, &mut next.shown);
                            next.walk.go_on(&range, &sight)
                        }
                        TreeStep::Read(pointer) => TreeStep::Read(pointer),
                        _ => {
                            answers.push(Again);
                            continue;
                        }
                    };
                    match step {
                        TreeStep::Read(pointer) => {
                            (next.next, next.evidence) = (pointer, Cut { bytes: Vec::new(), ..joined });
                            open.push(next);
                        }
                        TreeStep::End => answers.push(All(next.shown)),
                        _ => answers.push(Again),
                    }
                }
            }
        }
        answers
    }

    /// What the tree has at a step that is published.
    fn truth(&mut self, looks: &Looks<'_>) -> Vec<Shown> {
        self.range(&looks.range())
    }

    fn pointers_of(&mut self, key: &[u8]) -> Vec<Pointer> {
        let path = self.owner.find(Target::Key(key), 0);
        (0..=path.last()).map(|depth| path.node(depth)).collect()
    }
}

/// Checks every outcome of walks over the stores that `change` makes, which is one step.
fn check(bed: &mut JournalBed, looks: &Looks<'_>, change: impl FnOnce(&mut JournalBed)) {
    let window = check_steps(bed, looks, vec![Box::new(change)]);
    check_moments(bed, looks, &window);
}

type Change<'c> = Box<dyn FnOnce(&mut JournalBed) + 'c>;

/// A window, and what the tree had at each of its steps.
struct Window {
    from: usize,
    to: usize,
    truths: BTreeMap<u64, Vec<Shown>>,
}

fn check_steps(bed: &mut JournalBed, looks: &Looks<'_>, changes: Vec<Change<'_>>) -> Window {
    let from = bed.memory.now();
    let mut truths = BTreeMap::from([(bed.owner.step(), bed.truth(looks))]);
    for change in changes {
        change(bed);
        truths.insert(bed.owner.step(), bed.truth(looks));
    }
    let to = bed.memory.now();
    let headers = bed.headers(from, to);
    let mut accepted = BTreeMap::new();
    let mut torn = 0;
    for (header, evidence) in &headers {
        for answer in bed.explore(header, looks, evidence, to) {
            match answer {
                All(shown) => {
                    assert_eq!(shown, truths[&header.step], "under the header of step {}", header.step);
                    *accepted.entry(header.step).or_insert(0) += 1;
                }
                Again => torn += 1,
            }
        }
    }
    assert!(torn > 0, "the change is seen in parts");
    assert!(truths.keys().all(|step| accepted.contains_key(step)), "{accepted:?} of {:?}", truths.keys());
    bed.check();
    Window { from, to, truths }
}

/// Atomic looks that take leaves of any step find their way whenever no node is half written, and what is
/// there before and after.
fn check_moments(bed: &JournalBed, looks: &Looks<'_>, window: &Window) {
    let Window { from, to, truths } = window;
    let plain = Looks { hints: &[], guesses: &[], ..*looks };
    let units = bed.owner.counts().bytes.next_multiple_of(4096) + 4096;
    let unit = |moment: usize, at: u64| bed.memory.at(moment, NODES_AT + at, 256);
    let is_whole = |moment: usize, at: u64| {
        let now = unit(moment, at);
        now == unit(*from, at) || now == unit(*to, at)
    };
    let whole = |moment: &usize| (0..units).step_by(256).all(|at| is_whole(*moment, at));
    for moment in (*from..=*to).filter(whole) {
        let still = Cut { bytes: Vec::new(), since: moment, until: moment };
        let headers = bed.headers(moment, moment);
        assert_eq!(headers.len(), 1, "one moment, one header");
        let header = Header { step: STEP_MAX, ..headers[0].0.clone() };
        let answers = bed.explore(&header, &plain, &still, moment);
        let [All(shown)] = &answers[..] else { panic!("{answers:?} at {moment} of {from}..={to}") };
        let steady = truths.values().next().expect("a truth").iter();
        let steady = steady.filter(|(key, _)| truths.values().all(|all| all.iter().any(|(k, _)| k == key)));
        for (key, _) in steady {
            assert!(shown.iter().any(|(k, _)| k == key), "{key:?} is not to be found at {moment}");
        }
    }
}

fn name(i: u32) -> Vec<u8> {
    format!("k{i:03}").into_bytes()
}

/// A tree with these keys, one a step.
fn tree_of(keys: impl IntoIterator<Item = u32>) -> JournalBed {
    let mut bed = bed(Journal::new(NODES_AT + (64 << 10)), SMALL);
    for i in keys {
        bed.put(&[&name(i)]);
    }
    bed
}

const EVERYTHING: Looks<'static> = Looks { key: None, hints: &[], guesses: &[], reverse: false };

#[test]
fn insert_and_replace_in_a_leaf() {
    for reverse in [false, true] {
        let looks = Looks { reverse, ..EVERYTHING };
        let mut bed = tree_of([1, 3]);
        check(&mut bed, &looks, |bed| _ = bed.put(&[&name(2)]));
        check(&mut bed, &looks, |bed| _ = bed.put(&[&name(3)]));
        check(&mut bed, &looks, |bed| _ = bed.delete(&[&name(1)]));
    }
}

/// Two puts in one step are seen together, in the same leaf and in two.
#[test]
fn a_step_is_seen_as_a_whole() {
    let mut bed = tree_of((0..12).map(|i| i * 2));
    assert_eq!(bed.check().levels.len(), 2);
    check(&mut bed, &EVERYTHING, |bed| _ = bed.put(&[&name(0), &name(22)]));
    let first = bed.pointers_of(&name(0));
    assert_ne!(first.last(), bed.pointers_of(&name(22)).last(), "two leaves");
    check(&mut bed, &Looks { key: Some(&name(0)), ..EVERYTHING }, |bed| _ = bed.put(&[&name(0), &name(2)]));
}

/// Keys until this many nodes are there, each its own step; the step before the last one is left undone.
fn until_split(bed: &mut JournalBed, from: u32) -> u32 {
    let mut i = from;
    loop {
        let nodes = bed.owner.counts().nodes;
        let mut twin = tree_of(from_all(bed));
        twin.put(&[&name(i)]);
        if twin.owner.counts().nodes > nodes {
            return i;
        }
        bed.put(&[&name(i)]);
        i += 2;
    }
}

/// Numbers of the keys in the order of their versions.
fn from_all(bed: &mut JournalBed) -> Vec<u32> {
    let mut all = bed.all();
    all.sort_by_key(|(_, csn)| *csn);
    let number = |key: &[u8]| std::str::from_utf8(&key[1..]).expect("a name").parse().expect("a number");
    all.iter().map(|(key, _)| number(key)).collect()
}

#[test]
fn split_of_the_root() {
    let mut bed = tree_of([500]);
    let key = until_split(&mut bed, 0);
    assert_eq!(bed.check().levels, [1]);
    check(&mut bed, &EVERYTHING, |bed| _ = bed.put(&[&name(key)]));
    assert_eq!(bed.check().levels, [2, 1]);
}

#[test]
fn split_of_a_leaf() {
    for reverse in [false, true] {
        let mut bed = tree_of((0..16).map(|i| i * 2));
        let key = until_split(&mut bed, 1);
        let before = bed.check().levels;
        assert_eq!(before.len(), 2);
        check(&mut bed, &Looks { reverse, ..EVERYTHING }, |bed| _ = bed.put(&[&name(key)]));
        assert_eq!(bed.check().levels, [before[0] + 1, 1]);
    }
}

/// What a cached parent names as the next leaf is not the next any more.
#[test]
fn a_leaf_comes_between_two_that_a_cache_knows() {
    let mut bed = tree_of((0..16).map(|i| i * 2));
    let key = until_split(&mut bed, 1);
    let (mine, next) = (bed.pointers_of(&name(key)), bed.all());
    let leaf = *mine.last().expect("a leaf");
    let other = next.iter().map(|(key, _)| *bed.pointers_of(key).last().expect("a leaf"));
    let guesses: Vec<Pointer> = other.filter(|other| *other != leaf).collect();
    let guesses = [guesses[0]];
    check(&mut bed, &Looks { guesses: &guesses, ..EVERYTHING }, |bed| _ = bed.put(&[&name(key)]));
}

#[test]
fn split_of_an_inner_node_below_the_root() {
    let (mut bed, mut i) = (tree_of([]), 0);
    loop {
        let mut twin = tree_of(0..i);
        twin.put(&[&name(i)]);
        let (before, after) = (bed.check().levels, twin.check().levels);
        if before.len() == 3 && after.len() == 3 && after[1] > before[1] {
            break;
        }
        bed.put(&[&name(i)]);
        i += 1;
    }
    let last = name(i - 1);
    check(&mut bed, &Looks { key: Some(&last), ..EVERYTHING }, |bed| _ = bed.put(&[&name(i)]));
}

/// Two leaves with few keys each, as markers that are not needed any more are dropped by the next sweep;
/// their pointers, and a key of the second that is there.
struct Emptied {
    bed: JournalBed,
    leaves: Vec<Pointer>,
    key: Vec<u8>,
}

fn emptied(count: u32) -> Emptied {
    let mut bed = tree_of((0..count).map(|i| i * 2));
    let all = bed.all();
    let mut leaves: Vec<Pointer> =
        all.iter().map(|(key, _)| *bed.pointers_of(key).last().expect("a leaf")).collect();
    leaves.dedup();
    let key = all.last().expect("a key").0.clone();
    let gone: Vec<&[u8]> = all[1..all.len() - 1].iter().map(|(key, _)| key.as_slice()).collect();
    bed.delete(&gone);
    Emptied { bed, leaves, key }
}

/// Leaves become one, also the root's last; what a cache names is gone and must not be taken for the leaf.
#[test]
fn merge_into_the_left_neighbour() {
    for count in [12, 22] {
        let Emptied { mut bed, leaves, key } = emptied(count);
        assert!(leaves.len() >= 2);
        let looks = Looks { key: Some(&key), hints: &leaves[leaves.len() - 1..], ..EVERYTHING };
        check(&mut bed, &looks, |bed| {
            bed.csn += 1;
            let mut step = bed.owner.begin();
            assert_eq!(step.apply(&put_of(&key, bed.csn)), Ok(true));
            let swept = step.sweep(100);
            assert!(swept.merged >= leaves.len() - 1 && swept.wrapped, "{swept:?}");
            bed.publish();
        });
        assert_eq!(bed.check().levels, [1]);
    }
}

/// The place of a leaf that is gone has another one in the next step (B2).
#[test]
fn a_place_that_is_used_again() {
    let Emptied { mut bed, leaves, key } = emptied(12);
    let looks = Looks { key: Some(&key), hints: &leaves[1..2], ..EVERYTHING };
    let changes: Vec<Change<'_>> = vec![
        Box::new(|bed| {
            bed.owner.begin().sweep(100);
            bed.publish();
        }),
        Box::new(|bed| {
            let keys: Vec<_> = (100..108).map(name).collect();
            bed.put(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }),
    ];
    check_steps(&mut bed, &looks, changes);
    let units = |bed: &mut JournalBed, key: &[u8]| bed.pointers_of(key).last().expect("a leaf").unit;
    let used: Vec<u64> = (100..108).map(|i| units(&mut bed, &name(i))).collect();
    assert!(used.contains(&leaves[1].unit), "{used:?} and {:?}", leaves[1]);
}

/// A node becomes larger, and so has another place, which its parent and its left neighbour name.
#[test]
fn growth_of_a_leaf_to_a_larger_class() {
    let options = TreeOptions { least_keys: 6, ..SMALL };
    for all in [false, true] {
        let mut bed = bed(Journal::new(NODES_AT + (128 << 10)), options);
        let mut i = 0;
        while bed.owner.counts().height < 2 {
            bed.put(&[&name(i)]);
            i += 1;
        }
        let last = name(i - 1);
        let longer = |end: u8| [&last[..], &[b'z'; 230], &[end]].concat();
        bed.put(&[&longer(b'a')]);
        let leaf = bed.pointers_of(&last)[1];
        let hints = [leaf];
        let key = if all { None } else { Some(last.as_slice()) };
        check(&mut bed, &Looks { key, hints: &hints, ..EVERYTHING }, |bed| _ = bed.put(&[&longer(b'b')]));
        let grown = bed.pointers_of(&last)[1];
        assert!(grown.class > leaf.class && grown.unit != leaf.unit);
    }
}

#[test]
fn growth_of_a_root_that_is_a_leaf() {
    let options = TreeOptions { least_keys: 6, ..SMALL };
    let mut bed = bed(Journal::new(NODES_AT + (128 << 10)), options);
    (0..5).for_each(|i| _ = bed.put(&[&name(i)]));
    let before = bed.pointers_of(&name(0));
    let long = [b'z'; 150];
    let change: Change<'_> = Box::new(|bed| _ = bed.put(&[&long]));
    // The header names the old root until the very end, when that says already that it is gone.
    check_steps(&mut bed, &EVERYTHING, vec![change]);
    assert_eq!(bed.check().levels, [1]);
    assert_ne!(bed.pointers_of(&name(0)), before);
}

/// READs of the header over three steps give one that was published, and never an older one than was
/// published before.
#[test]
fn a_header_is_one_that_was_published() {
    let mut bed = tree_of([1]);
    let from = bed.memory.now();
    let mut published = vec![(bed.header(), from)];
    for i in 0..3 {
        bed.csn += 1;
        let applied = [i + 10, i * i, 7, u64::MAX - i];
        let standing = Standing { applied: &applied, ..standing(bed.csn) };
        bed.owner.begin().publish(&standing);
        published.push((bed.header(), bed.memory.now()));
    }
    for (header, evidence) in bed.headers(from, bed.memory.now()) {
        let known = published.iter().position(|(other, _)| *other == header).expect("one of them");
        let next = published.get(known + 2).map_or(usize::MAX, |(_, at)| *at);
        assert!(evidence.until < next, "{header:?} though two steps were over");
    }
}

/// While the header of a tree is erased READs give one that was published, or none. Afterwards they give
/// none, and say so, until the next step is published.
#[test]
fn a_tree_that_is_hidden_has_no_header_until_the_next_step() {
    let mut bed = tree_of([1]);
    let before = bed.header();
    bed.put(&[&name(2)]);
    let (last, from) = (bed.header(), bed.memory.now());
    bed.owner.hide();
    let hidden = bed.memory.now();
    let seen = bed.headers(from, hidden);
    assert!(seen.iter().all(|(header, _)| [&before, &last].contains(&header)), "{seen:?}");
    assert!(seen.iter().any(|(header, _)| *header == before), "the newer copy is erased first, or last");
    assert!(bed.headers(hidden, hidden).is_empty());
    let copies = header_places(4).map(|place| {
        let mut bytes = vec![0; place.len as usize];
        bed.memory.copy_out(place.offset, &mut bytes);
        bytes
    });
    assert!(Header::is_absent([&copies[0], &copies[1]]));
    bed.put(&[&name(3)]);
    let now = bed.memory.now();
    assert_eq!(bed.headers(now, now).len(), 1);
    assert_eq!(bed.header().step, last.step + 1);
}

/// What a leaf's mark alone says: as it was, or not.
#[test]
fn marks_show_what_has_changed() {
    let mut bed = tree_of((0..12).map(|i| i * 2));
    let header = bed.header();
    let last = *bed.pointers_of(&name(22)).last().expect("a leaf");
    let first = *bed.pointers_of(&name(0)).last().expect("a leaf");
    bed.put(&[&name(0)]);
    let mark = |of: Pointer| bed.memory.load(of.mark_place(header.unit).offset);
    assert!(header.still_has(last, mark(last)) && !header.still_has(first, mark(first)));
    assert!(!header.still_has(Pointer { generation: last.generation + 1, ..last }, mark(last)));
}
