//! The owner's private copies of nodes, and the order in which their changes become visible.
//!
//! A step changes plain bytes here, and stores the words that changed. A reader under the header of the step
//! before accepts no leaf that the step has touched, so the order is not what keeps answers right. It keeps
//! readers going: at every moment what a pointer names is there.
//! (1) Of a level the right nodes come before the left, so that a node comes after those that it names, new
//!     ones included; leaves come before inner nodes. A leaf that names the same neighbour as before may come
//!     at any moment: it is stored when the step is done with it, while the processor has its lines at hand.
//! (2) Within a node: words that changed, then the mark, then the checksum.
//! (3) Leaves that are no longer part of the tree get their next generation after all that, and before the
//!     header: under a header that does not have them nobody accepts them. Inner nodes, which nobody trusts,
//!     get it after the header, so that the header's root is always there. (Where a root that moved led to a
//!     leaf that moved in the same step, and where a leaf is the root, the way is there with the header
//!     only.)

use std::collections::VecDeque;

use longarm_base::Mutant;
use longarm_base::limits::LINE;
use longarm_memory::{OwnedWords, SumKey};

use super::layout::{CLASSES, Mark, Pointer, Unit, node, seed};
use super::lines::Lines;
use super::node::NodeView;

/// No private copy.
const ABSENT: u32 = u32::MAX;

/// A private copy.
struct Copy {
    pointer: Pointer,
    bytes: Box<[u8]>,
    /// It may have changes that are not in the region, and is in the list of those.
    dirty: bool,
    /// Lines with such changes.
    lines: Lines,
    /// It may name other nodes than the region has there.
    linked: bool,
}

/// Which private copy a node has, as long as no other is loaded or dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At(u32);

/// Private copies of nodes.
pub(super) struct Cache<M> {
    memory: M,
    sums: SumKey,
    unit: Unit,
    pub incarnation: u64,
    /// By unit: which copy a node has that begins there.
    by_unit: Vec<u32>,
    copies: Vec<Option<Copy>>,
    vacant: Vec<u32>,
    /// Copies with changes.
    dirty: Vec<u32>,
    /// Nodes that are no longer part of the tree, with the generation that they get.
    gone: Vec<(Pointer, u32)>,
    /// Copies in the order in which they were made: of leaves, and of inner nodes.
    made: [VecDeque<u32>; 2],
    /// How many of each may stay when a step is over.
    keep: [usize; 2],
    /// Buffers to use again, by class.
    spare: [Vec<Box<[u8]>>; CLASSES as usize],
}

impl<M: OwnedWords> Cache<M> {
    pub fn new(memory: M, sums: SumKey, unit: Unit, incarnation: u64, keep: [usize; 2]) -> Cache<M> {
        Cache {
            memory,
            sums,
            unit,
            incarnation,
            by_unit: Vec::new(),
            copies: Vec::new(),
            vacant: Vec::new(),
            dirty: Vec::new(),
            gone: Vec::new(),
            made: Default::default(),
            keep,
            spare: Default::default(),
        }
    }

    pub fn memory(&self) -> &M {
        &self.memory
    }

    pub fn sums(&self) -> &SumKey {
        &self.sums
    }

    /// Nodes with changes.
    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }

    fn slot(&mut self, unit: u64) -> &mut u32 {
        let at = unit as usize;
        if self.by_unit.len() <= at {
            self.by_unit.resize(at + 1, ABSENT);
        }
        &mut self.by_unit[at]
    }

    fn copy(&self, At(at): At) -> &Copy {
        self.copies[at as usize].as_ref().expect("a copy that was made")
    }

    fn is_of(&self, at: u32, pointer: Pointer) -> bool {
        self.copies[at as usize].as_ref().is_some_and(|copy| copy.pointer == pointer)
    }

    fn buffer(&mut self, class: u8) -> Box<[u8]> {
        let spare = self.spare[usize::from(class)].pop();
        spare.unwrap_or_else(|| vec![0; self.unit.node_bytes(class)].into())
    }

    fn make(&mut self, pointer: Pointer, bytes: Box<[u8]>, is_new: bool) -> At {
        let lines = if is_new { Lines::of(0..bytes.len()) } else { Lines::NONE };
        let copy = Some(Copy { pointer, bytes, dirty: is_new, lines, linked: is_new });
        let at = match self.vacant.pop() {
            Some(at) => {
                self.copies[at as usize] = copy;
                at
            }
            None => {
                self.copies.push(copy);
                self.copies.len() as u32 - 1
            }
        };
        *self.slot(pointer.unit) = at;
        self.made[usize::from(pointer.level > 0)].push_back(at);
        if is_new {
            self.dirty.push(at);
        }
        At(at)
    }

    /// Copies a node, unless it is copied already.
    #[inline]
    pub fn load(&mut self, pointer: Pointer) -> At {
        match self.made_of(pointer) {
            Some(at) => {
                debug_assert!(self.is_of(at, pointer), "{pointer:?} is not the node that is there");
                At(at)
            }
            None => self.copy_out(pointer),
        }
    }

    fn copy_out(&mut self, pointer: Pointer) -> At {
        let mut bytes = self.buffer(pointer.class);
        self.memory.copy_out(pointer.at(self.unit), &mut bytes);
        self.check(pointer, &bytes);
        self.make(pointer, bytes, false)
    }

    /// A node of ours that is not what its pointer says is a broken invariant.
    fn check(&self, pointer: Pointer, bytes: &[u8]) {
        let view = NodeView::of(bytes);
        let sound = view.mark().generation == pointer.generation && view.level() == pointer.level;
        assert!(sound, "{pointer:?} is not the node that is there: {:?}", view.mark());
        debug_assert_eq!(view.checksum(), self.sums.sum(self.seed(pointer), &bytes[8..]), "{pointer:?}");
    }

    fn seed(&self, pointer: Pointer) -> u64 {
        seed(self.incarnation, pointer.at(self.unit))
    }

    /// A new node, all zero.
    pub fn fresh(&mut self, pointer: Pointer) -> At {
        let mut bytes = self.buffer(pointer.class);
        bytes.fill(0);
        self.make(pointer, bytes, true)
    }

    pub fn view(&self, at: At) -> NodeView<'_> {
        NodeView::of(&self.copy(at).bytes)
    }

    /// A copy, which is about to have changes or has them.
    fn touched(&mut self, At(at): At) -> &mut Copy {
        let copy = self.copies[at as usize].as_mut().expect("a copy that was made");
        if !copy.dirty {
            copy.dirty = true;
            self.dirty.push(at);
        }
        copy
    }

    /// The bytes, to write anew, or so that they name other nodes.
    pub fn change(&mut self, at: At) -> &mut [u8] {
        let copy = self.touched(at);
        (copy.lines, copy.linked) = (Lines::of(0..copy.bytes.len()), true);
        &mut copy.bytes
    }

    /// Changes some lines; a leaf names the same neighbour as before. `false` if nothing has changed.
    pub fn edit(&mut self, at: At, edit: impl FnOnce(&mut [u8]) -> Option<Lines>) -> bool {
        let copy = self.copies[at.0 as usize].as_mut().expect("a copy that was made");
        let Some(lines) = edit(&mut copy.bytes) else { return false };
        self.touched(at).lines |= lines;
        true
    }

    /// The step is done with a leaf for now: it is stored, if it may come at any moment, see (1).
    pub fn leave(&mut self, leaf: Pointer, step: u64) {
        let Some(at) = self.made_of(leaf) else { return };
        let copy = self.copies[at as usize].as_mut().expect("a copy that was made");
        if !copy.linked {
            if std::mem::take(&mut copy.dirty) {
                let place = self.dirty.iter().rposition(|other| *other == at).expect("the list has it");
                self.dirty.swap_remove(place);
                self.store(at, step);
            }
            self.drop_copy(at);
        }
    }

    /// Stores the changes of a copy.
    fn store(&mut self, at: u32, step: u64) {
        let copy = self.copies[at as usize].as_mut().expect("a copy that was made");
        let pointer = copy.pointer;
        let mark = Mark { generation: pointer.generation, step };
        let at = pointer.at(self.unit);
        let written = Written { at, mark, seed: seed(self.incarnation, at) };
        write(&self.memory, &self.sums, &mut copy.bytes, copy.lines, written);
        (copy.dirty, copy.lines, copy.linked) = (false, Lines::NONE, false);
    }

    /// Which copy a node has, if it has one.
    #[inline]
    fn made_of(&self, pointer: Pointer) -> Option<u32> {
        self.by_unit.get(pointer.unit as usize).copied().filter(|at| *at != ABSENT)
    }

    /// Asks for a node's lines, which are wanted soon.
    pub fn prefetch(&self, pointer: Pointer) {
        let from = pointer.at(self.unit);
        let lines = (from..from + pointer.bytes(self.unit) as u64).step_by(LINE as usize);
        lines.for_each(|line| self.memory.prefetch(line));
    }

    /// The node is not part of the tree any more; its place will have this generation.
    pub fn forget(&mut self, pointer: Pointer, generation: u32) {
        if let Some(at) = self.made_of(pointer) {
            self.drop_copy(at);
        }
        self.gone.push((pointer, generation));
    }

    /// The same of a root that has a single child: it is stored once more, so that whoever comes from the
    /// header before finds that child, and nothing that was merged into it.
    pub fn retire(&mut self, root: Pointer, generation: u32) {
        self.gone.push((root, generation));
    }

    fn drop_copy(&mut self, at: u32) {
        let Some(copy) = self.copies[at as usize].take() else { return };
        *self.slot(copy.pointer.unit) = ABSENT;
        if copy.dirty {
            self.dirty.retain(|other| *other != at);
        }
        // Most that are dropped are among the oldest, or the youngest.
        let made = &mut self.made[usize::from(copy.pointer.level > 0)];
        let is_oldest = made.front() == Some(&at);
        let place = if is_oldest { Some(0) } else { made.iter().rposition(|other| *other == at) };
        made.remove(place.expect("a copy that was made"));
        self.vacant.push(at);
        self.spare[usize::from(copy.pointer.class)].push(copy.bytes);
    }

    /// Looks at a node through its copy, or through `scratch` without making one.
    pub fn look<'s>(&'s self, pointer: Pointer, scratch: &'s mut Vec<u8>) -> NodeView<'s> {
        match self.made_of(pointer) {
            Some(at) => {
                debug_assert!(self.is_of(at, pointer));
                self.view(At(at))
            }
            None => {
                scratch.resize(pointer.bytes(self.unit), 0);
                self.memory.copy_out(pointer.at(self.unit), scratch);
                self.check(pointer, scratch);
                NodeView::of(scratch)
            }
        }
    }

    /// Stores all changes as those of a step, in the order that (1) and (2) say. What the tree does not have
    /// any more stays as it is.
    pub fn flush(&mut self, step: u64) {
        let mut dirty = std::mem::take(&mut self.dirty);
        {
            let copy = |at: &u32| self.copies[*at as usize].as_ref().expect("a copy that was made");
            dirty.sort_unstable_by(|a, b| {
                let (a, b) = (copy(a), copy(b));
                let lows = || NodeView::of(&b.bytes).low().cmp(NodeView::of(&a.bytes).low());
                a.pointer.level.cmp(&b.pointer.level).then_with(lows)
            });
        }
        if Mutant::LeftFirst.is_on() {
            dirty.reverse();
        }
        for at in &dirty {
            self.store(*at, step);
        }
        dirty.clear();
        self.dirty = dirty;
    }

    /// Writes a node that has no copy here and that no pointer names yet.
    pub fn write_through(&self, pointer: Pointer, bytes: &mut [u8], step: u64) {
        let mark = Mark { generation: pointer.generation, step };
        let written = Written { at: pointer.at(self.unit), mark, seed: self.seed(pointer) };
        let lines = Lines::of(0..bytes.len());
        write(&self.memory, &self.sums, bytes, lines, written);
    }

    /// Leaves that are gone say so, see (3).
    pub fn bury_leaves(&mut self, step: u64) {
        self.bury(step, |pointer| pointer.level == 0);
    }

    /// So do all nodes.
    pub fn bury_all(&mut self, step: u64) {
        self.bury(step, |_| true);
    }

    fn bury(&mut self, step: u64, which: impl Fn(Pointer) -> bool) {
        let mut bytes = Vec::new();
        for (pointer, generation) in std::mem::take(&mut self.gone) {
            if !which(pointer) {
                self.gone.push((pointer, generation));
                continue;
            }
            if let Some(copy) = self.made_of(pointer) {
                self.drop_copy(copy);
            }
            let at = pointer.at(self.unit);
            bytes.resize(pointer.bytes(self.unit), 0);
            self.memory.copy_out(at, &mut bytes);
            let mark = Mark { generation, step };
            let written = Written { at, mark, seed: self.seed(pointer) };
            write(&self.memory, &self.sums, &mut bytes, Lines::NONE, written);
        }
    }

    /// Drops copies beyond what may stay. No copy may have changes.
    pub fn shrink(&mut self) {
        debug_assert!(self.dirty.is_empty());
        for (which, keep) in self.keep.into_iter().enumerate() {
            while self.made[which].len() > keep {
                let at = self.made[which][0];
                self.drop_copy(at);
            }
        }
    }

    /// Drops all copies, with their changes.
    pub fn clear(&mut self) {
        (self.by_unit, self.copies) = (Vec::new(), Vec::new());
        self.vacant.clear();
        self.dirty.clear();
        self.gone.clear();
        self.made = Default::default();
    }
}

/// Where a node is written, and as what.
struct Written {
    at: u64,
    mark: Mark,
    seed: u64,
}

/// Stores the words of these lines that are not there yet, then the node's mark, then its checksum.
fn write(memory: &impl OwnedWords, sums: &SumKey, bytes: &mut [u8], lines: Lines, written: Written) {
    let Written { at, mark, seed } = written;
    bytes[node::MARK..node::MARK + 8].copy_from_slice(&mark.pack().to_le_bytes());
    let sum = sums.sum(seed, &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    for line in lines.ranges() {
        let from = line.start.max(node::SHAPE);
        let words = bytes[from..line.end].chunks_exact(8);
        let mut place = at + from as u64;
        for word in words.map(|word| u64::from_le_bytes(word.try_into().expect("a word"))) {
            if memory.load(place) != word {
                memory.store(place, word);
            }
            place += 8;
        }
    }
    memory.store(at + node::MARK as u64, mark.pack());
    memory.store(at, sum);
}
