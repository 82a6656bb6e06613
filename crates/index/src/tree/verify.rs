//! A full check of a tree from its bytes alone (I24), for tests, the simulator and dumps.
//!
//! It is for a tree that nobody changes meanwhile: between steps, or at the end of a run.

use longarm_memory::{SumKey, Words};

use super::header::Header;
use super::layout::{Pointer, header_places, seed};
use super::node::{NodeView, SplitKey};
use super::record::LeafRecord;
use longarm_base::limits::TREE_STREAMS_MAX;

/// Problems described in full; further ones are only counted.
const PROBLEMS_SHOWN: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct TreeReport {
    /// Nodes of each level, leaves first.
    pub levels: Vec<u64>,
    /// Units that the nodes take.
    pub units: u64,
    /// Bytes of the nodes that are in use.
    pub used: u64,
    /// Items.
    pub items: u64,
    /// Markers of deleted keys.
    pub markers: u64,
    /// Broken invariants, the first of them in words.
    pub problems: Vec<String>,
    /// Number of broken invariants.
    pub problem_count: u64,
}

impl TreeReport {
    /// Notes a broken invariant: counted, and kept in words if there are few.
    pub fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_SHOWN {
            self.problems.push(text);
        }
    }

    /// Nodes of all levels.
    pub fn nodes(&self) -> u64 {
        self.levels.iter().sum()
    }
}

/// A node to be looked at, and the keys that it must cover.
struct Due {
    pointer: Pointer,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// Reads the newer header that verifies.
pub fn newest_header(words: &(impl Words + ?Sized), sums: &SumKey) -> Option<Header> {
    let copies = header_places(TREE_STREAMS_MAX).map(|place| {
        let mut bytes = vec![0; place.len as usize];
        words.copy_out(place.offset, &mut bytes);
        bytes
    });
    Header::newest([&copies[0], &copies[1]], sums)
}

/// Checks every node: checksum, place, generation, level, step, fences that meet exactly, keys in order and
/// within them, right neighbours, no place twice, and the counts of the header, so that nothing is lost.
/// `place` sees every key and its record, and may say what is wrong with them.
pub fn verify(
    words: &(impl Words + ?Sized),
    sums: &SumKey,
    mut place: impl FnMut(&[u8], &LeafRecord) -> Result<(), String>,
) -> TreeReport {
    let mut report = TreeReport::default();
    let Some(header) = newest_header(words, sums) else {
        report.problem("no header verifies".into());
        return report;
    };
    let mut check = Check { words, sums, header: &header, report: &mut report, seen: Vec::new() };
    let mut level = vec![Due { pointer: header.root, low: Vec::new(), high: None }];
    check.report.levels = vec![0; usize::from(header.root.level) + 1];
    while !level.is_empty() {
        level = check.level(level, &mut place);
    }
    check.places();
    let found = [report.items, report.markers, report.nodes(), report.units];
    let said = [header.items, header.markers, header.nodes, header.units];
    if found != said {
        report.problem(format!("items, markers, nodes, units: {found:?}, the header says {said:?}"));
    }
    report
}

struct Check<'c, W: Words + ?Sized> {
    words: &'c W,
    sums: &'c SumKey,
    header: &'c Header,
    report: &'c mut TreeReport,
    seen: Vec<Pointer>,
}

impl<W: Words + ?Sized> Check<'_, W> {
    /// Looks at the nodes of a level from left to right; those of the next.
    fn level(
        &mut self,
        nodes: Vec<Due>,
        place: &mut impl FnMut(&[u8], &LeafRecord) -> Result<(), String>,
    ) -> Vec<Due> {
        let mut below = Vec::new();
        let mut bytes = Vec::new();
        for (i, due) in nodes.iter().enumerate() {
            let pointer = due.pointer;
            if let Err(why) = self.copy(pointer, &mut bytes) {
                self.report.problem(format!("{pointer:?}: {why}"));
                continue;
            }
            let view = NodeView::of(&bytes);
            self.seen.push(pointer);
            self.report.levels[usize::from(pointer.level)] += 1;
            self.report.units += pointer.units();
            self.report.used += view.used() as u64;
            let right = nodes.get(i + 1).map(|next| next.pointer);
            let mut problems = Vec::new();
            if view.right() != right {
                problems.push(format!("its right neighbour is {right:?}, not {:?}", view.right()));
            }
            if view.low() != due.low || view.high() != due.high.as_deref() {
                problems.push(format!("it covers {:?}, not {:?}", [Some(view.low()), view.high()], due.low));
            }
            problems.extend(order(&view));
            if view.level() == 0 {
                self.leaf(&view, place, &mut problems);
            } else {
                children(&view, due, &mut below, &mut problems);
            }
            for why in problems {
                self.report.problem(format!("{pointer:?}: {why}"));
            }
        }
        below
    }

    /// Copies a node out, if it is the one that the pointer means.
    fn copy(&self, pointer: Pointer, bytes: &mut Vec<u8>) -> Result<(), String> {
        let unit = self.header.unit;
        let place = pointer.place(unit, self.words.bytes()).ok_or("it is not within the region")?;
        bytes.resize(place.len as usize, 0);
        self.words.copy_out(place.offset, bytes);
        let view = NodeView::parse(bytes, unit).ok_or("its places are not within it")?;
        let sum = self.sums.sum(seed(self.header.incarnation, place.offset), &bytes[8..]);
        let mark = view.mark();
        if view.checksum() != sum {
            return Err("it does not verify".into());
        }
        if mark.generation != pointer.generation || mark.step > self.header.step {
            return Err(format!("it has {mark:?} at step {}", self.header.step));
        }
        if view.level() != pointer.level || view.class() != pointer.class {
            return Err(format!("it is {:?}", view.shape()));
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        view: &NodeView<'_>,
        place: &mut impl FnMut(&[u8], &LeafRecord) -> Result<(), String>,
        problems: &mut Vec<String>,
    ) {
        let mut key = Vec::new();
        for i in 0..view.count() {
            key.clear();
            view.key(i).append_to(&mut key);
            let Some(record) = view.record(i) else {
                problems.push(format!("slot {i} has no record"));
                continue;
            };
            let count = if record.is_marker() { &mut self.report.markers } else { &mut self.report.items };
            *count += 1;
            if let Err(why) = place(&key, &record) {
                problems.push(format!("slot {i}: {why}"));
            }
        }
    }

    /// No two nodes have a unit in common, and none has one that was never handed out.
    fn places(&mut self) {
        let mut seen = std::mem::take(&mut self.seen);
        seen.sort_by_key(|pointer| pointer.unit);
        let end = |pointer: &Pointer| pointer.unit + pointer.units();
        for pair in seen.windows(2).filter(|pair| end(&pair[0]) > pair[1].unit) {
            self.report.problem(format!("{:?} and {:?} are at one place", pair[0], pair[1]));
        }
        if let Some(last) = seen.last().filter(|last| end(last) > self.header.top) {
            self.report.problem(format!("{last:?} is behind unit {}, the first unused", self.header.top));
        }
    }
}

/// Keys ascend, and are within the fences.
fn order(view: &NodeView<'_>) -> Vec<String> {
    let ascends = |i: &usize| view.key(i - 1).order(&view.key(*i)).is_lt();
    let mut problems: Vec<String> =
        (1..view.count()).filter(|i| !ascends(i)).map(|i| format!("slot {i} is out of order")).collect();
    if view.count() > 0 {
        let (first, last) = (view.key(0), view.key(view.count() - 1));
        // A separator is above the low fence: the first child has what is between.
        let low = first.order(&SplitKey::whole(view.low()));
        if low.is_lt() || (view.level() > 0 && low.is_eq()) || first.is_empty() {
            problems.push("its first key is below its low fence".into());
        }
        if view.high().is_some_and(|high| last.order(&SplitKey::whole(high)).is_ge()) {
            problems.push("its last key is not below its high fence".into());
        }
    }
    problems
}

/// The children of an inner node, with the keys that they must cover.
fn children(view: &NodeView<'_>, due: &Due, below: &mut Vec<Due>, problems: &mut Vec<String>) {
    let fence = |i: usize| {
        let mut key = Vec::new();
        view.key(i).append_to(&mut key);
        key
    };
    for i in 0..=view.count() {
        let low = if i == 0 { due.low.clone() } else { fence(i - 1) };
        let high = if i == view.count() { due.high.clone() } else { Some(fence(i)) };
        match view.child(i) {
            Some(pointer) if pointer.level + 1 == view.level() => below.push(Due { pointer, low, high }),
            child => problems.push(format!("child {i} is {child:?}")),
        }
    }
}
