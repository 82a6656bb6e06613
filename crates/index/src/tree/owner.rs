//! The owner's side of an ordered tree: steps of changes, each published as a whole.
//!
//! Writes: one owner, alone. Reads: anyone (`reader.rs`), and the owner itself between changes (`walk.rs`).
//! (1) What a step changes, it changes in private copies (`cache.rs`); their words are stored in an order
//!     that keeps each pointer's target there, and the header last. So what a header says, root and
//!     positions, is in the region when the header is.
//! (2) A node's mark names the step that changed it last. Who has the header of a step takes no leaf that a
//!     later step has changed: all leaves that it takes are of one state of the tree.
//! (3) A place is used again from the next step on, under its next generation.
//! (4) Nothing of an entry is done by halves: without room it is refused, and the tree is as before it.

use std::collections::VecDeque;

use longarm_base::limits::TREE_STREAMS_MAX;
use longarm_base::{Csn, Mutant, Term};
use longarm_memory::{OwnedWords, SumKey};

use super::cache::Cache;
use super::edit;
use super::encode::{Frame, encode};
use super::header::Header;
use super::huge::Populated;
use super::layout::{BLOCK_UNITS, NODES_AT, Pointer, Unit};
use super::node::{NodeView, SplitKey};
use super::path::{Path, Target};
use super::places::Places;
use super::record::LeafRecord;
use super::rules::{Ages, TreeEntry, Verdict, judge};
use super::way::Way;

/// Changed nodes beyond which a step stores what it has: it bounds the private copies of a long step.
const DIRTY_MAX: usize = 4096;

/// Entries of a step of which the leaves are asked for before they are looked at.
const AHEAD: usize = 8;

/// How to make a tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Bytes of the smallest node.
    pub unit: Unit,
    /// Bytes of the region to use at most, both copies of the header included.
    pub bytes_max: u64,
    /// A node that had fewer keys than this after a split becomes larger instead, as far as it goes.
    pub least_keys: usize,
    /// Private copies of leaves that stay from step to step.
    pub leaves_kept: usize,
    /// The same of inner nodes: all of them, in most trees.
    pub inner_kept: usize,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions {
            unit: Unit::Kib,
            bytes_max: u64::MAX,
            least_keys: 12,
            leaves_kept: 64,
            inner_kept: 4096,
        }
    }
}

/// The region has no room for what another key may take: give it up, or delete keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the ordered tree has no room left in its {bytes} bytes")]
pub struct TreeFull {
    /// Bytes that it may use.
    pub bytes: u64,
}

/// What a tree has when a step is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing<'a> {
    /// Term whose streams the positions are of.
    pub term: Term,
    /// All writes up to this csn are in the tree: no older one will come. It never decreases.
    pub stable: Csn,
    /// Of each stream of the term, up to which position all entries are in the tree.
    pub applied: &'a [u64],
}

/// Sizes of a tree, changes under way included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeCounts {
    /// Items.
    pub items: u64,
    /// Markers of deleted keys.
    pub markers: u64,
    /// Nodes.
    pub nodes: u64,
    /// Bytes of the nodes.
    pub bytes: u64,
    /// Levels.
    pub height: u8,
}

/// What a sweep did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Leaves that it looked at.
    pub leaves: usize,
    /// Markers dropped.
    pub markers: u64,
    /// Nodes that became part of their left neighbours, and roots with a single child.
    pub merged: usize,
    /// It came to the last leaf; the next one begins with the first.
    pub wrapped: bool,
}

/// Owner of an ordered tree.
pub struct Owner<M: OwnedWords, A: Ages> {
    pub(super) cache: Cache<M>,
    pub(super) places: Places,
    populated: Populated,
    pub(super) ages: A,
    pub(super) options: TreeOptions,
    pub(super) root: Pointer,
    pub(super) items: u64,
    pub(super) markers: u64,
    /// The last step that was published.
    pub(super) step: u64,
    pub(super) stable: Csn,
    /// The positions with which that step was published.
    applied: Vec<u64>,
    /// Way to the leaf that was looked for last.
    way: Way,
    /// Leaf of the last entry: what the step changed there is not stored yet.
    open: Option<Pointer>,
    /// Leaves of the entries that come next, where they are known.
    next: VecDeque<Option<Pointer>>,
    /// Least key that the sweep has not come to.
    pub(super) cursor: Vec<u8>,
}

impl<M: OwnedWords, A: Ages> Owner<M, A> {
    /// An empty tree in `memory`, which is zeroed, published as step 1. `incarnation` is drawn at random.
    pub fn create(
        memory: M,
        ages: A,
        sums: SumKey,
        incarnation: u64,
        options: TreeOptions,
    ) -> Result<Owner<M, A>, TreeFull> {
        let mut owner = Owner::bare(memory, ages, sums, incarnation, options)?;
        owner.plant();
        owner.publish(&Standing { term: Term::ZERO, stable: Csn::NONE, applied: &[] });
        Ok(owner)
    }

    /// A tree without a node.
    pub(super) fn bare(
        memory: M,
        ages: A,
        sums: SumKey,
        incarnation: u64,
        options: TreeOptions,
    ) -> Result<Owner<M, A>, TreeFull> {
        let bytes = memory.bytes().min(options.bytes_max);
        let unit = options.unit;
        let places = Places::new(unit, bytes);
        if !places.has(1) {
            return Err(TreeFull { bytes });
        }
        assert!(options.least_keys >= 2, "half a node has at least a key");
        Ok(Owner {
            cache: Cache::new(memory, sums, unit, incarnation, [options.leaves_kept, options.inner_kept]),
            places,
            populated: Populated::default(),
            ages,
            options,
            root: Pointer { unit: 0, class: 0, level: 0, generation: 0 },
            items: 0,
            markers: 0,
            step: 0,
            stable: Csn::NONE,
            applied: Vec::new(),
            way: Way::NONE,
            open: None,
            next: VecDeque::with_capacity(AHEAD),
            cursor: Vec::new(),
        })
    }

    /// Makes an empty leaf the root.
    fn plant(&mut self) {
        let root = self.places.take(0, 0).expect("a region that is empty has room");
        let none = SplitKey::whole(&[]);
        let frame = Frame { level: 0, class: 0, right: None, low: none, high: none, first: None };
        let at = self.cache.fresh(root);
        encode(self.cache.change(at), &frame, &[]);
        self.root = root;
    }

    /// The memory of the tree.
    pub fn memory(&self) -> &M {
        self.cache.memory()
    }

    /// Sizes.
    pub fn counts(&self) -> TreeCounts {
        TreeCounts {
            items: self.items,
            markers: self.markers,
            nodes: self.places.nodes(),
            bytes: self.places.units() * self.options.unit.bytes(),
            height: self.root.level + 1,
        }
    }

    /// Number of the last step that was published.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The number that was drawn for the tree.
    pub fn incarnation(&self) -> u64 {
        self.cache.incarnation
    }

    /// All writes up to this csn are in the tree, as was published last.
    pub fn stable(&self) -> Csn {
        self.stable
    }

    /// Of each stream, up to which position all entries are in the tree, as was published last.
    pub fn applied(&self) -> &[u64] {
        &self.applied
    }

    /// Takes the tree from the sight of readers until the next step is published: it is out of date, and
    /// entries that it names may be gone.
    pub fn hide(&mut self) {
        Header::erase(self.cache.memory());
    }

    /// Begins a step. One that is dropped without being published goes on in the next.
    pub fn begin(&mut self) -> Step<'_, M, A> {
        Step { tree: self }
    }

    /// Empties the tree and publishes that, under another incarnation: nothing that was there verifies any
    /// more. Its memory goes back to the system, but for one block.
    pub fn reset(&mut self, incarnation: u64, standing: &Standing<'_>) {
        let unit = self.options.unit.bytes();
        let end = self.places.top() * unit;
        self.clear(incarnation);
        self.plant();
        self.publish(standing);
        let from = NODES_AT + BLOCK_UNITS * unit;
        debug_assert!(self.root.at(self.options.unit) < from, "a cleared region begins with its first block");
        if end > from {
            self.memory().discard(from, end - from);
            self.populated = Populated::default();
        }
    }

    /// Ends the tree: its memory is zeroed again, and goes back to the system. What it never used is left
    /// alone, since a NIC may know all of the region: there zeroes are written, and that takes its time.
    pub fn end(self) {
        self.memory().discard(0, self.places.top() * self.options.unit.bytes());
    }

    /// Gives up all nodes.
    pub(super) fn clear(&mut self, incarnation: u64) {
        self.cache.clear();
        self.cache.incarnation = incarnation;
        self.places.clear();
        (self.items, self.markers) = (0, 0);
        self.forget_ways();
        self.stable = Csn::NONE;
        self.cursor.clear();
    }

    /// Takes memory for the nodes that come next.
    pub(super) fn populate(&mut self) {
        let end = self.places.top() * self.options.unit.bytes();
        self.populated.reach(self.cache.memory(), end);
    }

    /// Way to a node.
    pub(super) fn find(&mut self, target: Target<'_>, level: u8) -> Path {
        Path::find(&mut self.cache, self.root, target, level)
    }

    /// The leaf that covers a key; `known` is one that did, since when it may have been split.
    fn leaf_of(&mut self, key: &[u8], known: Option<Pointer>) -> Pointer {
        if let Some(leaf) = known {
            let at = self.cache.load(leaf);
            if self.cache.view(at).is_below_high(key) {
                return leaf;
            }
        }
        self.way.leaf(&mut self.cache, self.root, key)
    }

    /// Looks for the leaf of an entry that comes soon, and asks for its lines.
    fn look_ahead(&mut self, key: &[u8]) {
        let leaf = self.way.leaf(&mut self.cache, self.root, key);
        if self.next.back() != Some(&Some(leaf)) {
            self.cache.prefetch(leaf);
        }
        self.next.push_back(Some(leaf));
    }

    /// A node is no longer part of the tree: what was found before may lead astray.
    pub(super) fn forget_ways(&mut self) {
        self.way.forget();
        self.open = None;
        self.next.iter_mut().for_each(|leaf| *leaf = None);
    }

    fn apply(&mut self, entry: &TreeEntry<'_>) -> Result<bool, TreeFull> {
        let key = entry.key;
        assert!(
            (1..=self.options.unit.key_max()).contains(&key.len()),
            "a key of {} bytes in a tree of keys up to {}",
            key.len(),
            self.options.unit.key_max()
        );
        let known = self.next.pop_front().flatten();
        let leaf = self.leaf_of(key, known);
        if let Some(before) = self.open.replace(leaf).filter(|before| *before != leaf) {
            self.cache.leave(before, self.step + 1);
        }
        let at = self.cache.load(leaf);
        let view = self.cache.view(at);
        let found = view.position(key);
        let current = found.ok().map(|i| record_of(&view, i));
        let Verdict::Set(record) = judge(entry, current.as_ref(), self.stable, &mut self.ages) else {
            return Ok(false);
        };
        if record.is_marker() && Mutant::TreeDropMarker.is_on() {
            if let Ok(i) = found {
                self.cache.edit(at, |bytes| Some(edit::remove(bytes, i)));
                self.items -= 1;
            }
            return Ok(true);
        }
        let payload = record.pack();
        match found {
            Ok(i) => {
                if !self.cache.edit(at, |bytes| edit::replace(bytes, i, &payload)) {
                    self.has_room()?;
                    self.cache.edit(at, |bytes| Some(edit::remove(bytes, i)));
                    self.insert(leaf, key, &payload)?;
                }
            }
            Err(i) => {
                if !self.cache.edit(at, |bytes| edit::insert(bytes, i, key, &payload)) {
                    self.insert(leaf, key, &payload)?;
                }
            }
        }
        let count = |is: bool, was: bool, count: u64| count + u64::from(is) - u64::from(was);
        let was = |marker: bool| current.is_some_and(|current| current.is_marker() == marker);
        self.items = count(!record.is_marker(), was(false), self.items);
        self.markers = count(record.is_marker(), was(true), self.markers);
        if self.cache.dirty() > DIRTY_MAX {
            self.cache.flush(self.step + 1);
            self.cache.shrink();
        }
        Ok(true)
    }

    pub(super) fn publish(&mut self, standing: &Standing<'_>) {
        assert!(standing.applied.len() <= TREE_STREAMS_MAX, "{} streams", standing.applied.len());
        assert!(standing.stable >= self.stable, "the stable point goes back");
        self.populate();
        self.step += 1;
        self.stable = standing.stable;
        self.applied.clear();
        self.applied.extend_from_slice(standing.applied);
        self.cache.flush(self.step);
        self.cache.bury_leaves(self.step);
        let header = Header {
            incarnation: self.cache.incarnation,
            term: standing.term,
            step: self.step,
            unit: self.options.unit,
            root: self.root,
            items: self.items,
            markers: self.markers,
            nodes: self.places.nodes(),
            units: self.places.units(),
            top: self.places.top(),
            stable: self.stable,
            applied: standing.applied.to_vec(),
        };
        header.store(self.cache.memory(), self.cache.sums());
        self.cache.bury_all(self.step);
        self.places.step_over();
        self.cache.shrink();
    }

    /// Every unit that was ever handed out is a node's or free, for checks.
    pub fn is_accounted_for(&self) -> bool {
        let all = self.places.top() - self.options.unit.first();
        self.places.units() + self.places.free_units() == all
    }
}

/// What a leaf of ours says of a key.
pub(super) fn record_of(view: &NodeView<'_>, i: usize) -> LeafRecord {
    view.record(i).expect("a record that we packed")
}

/// Changes under way.
pub struct Step<'t, M: OwnedWords, A: Ages> {
    tree: &'t mut Owner<M, A>,
}

impl<M: OwnedWords, A: Ages> Step<'_, M, A> {
    /// Applies an entry; whether it changed anything. One that is refused has changed nothing; what came
    /// before it stays.
    pub fn apply(&mut self, entry: &TreeEntry<'_>) -> Result<bool, TreeFull> {
        self.tree.next.clear();
        self.tree.apply(entry)
    }

    /// Applies entries, which are in the order of keys and, of one key, of versions. What came before one
    /// that is refused stays.
    pub fn apply_all<'e>(
        &mut self,
        entries: impl Iterator<Item = TreeEntry<'e>> + Clone,
    ) -> Result<(), TreeFull> {
        let tree = &mut *self.tree;
        let mut ahead = entries.clone();
        tree.next.clear();
        ahead.by_ref().take(AHEAD).for_each(|entry| tree.look_ahead(entry.key));
        for entry in entries {
            if let Some(entry) = ahead.next() {
                tree.look_ahead(entry.key);
            }
            tree.apply(&entry)?;
        }
        Ok(())
    }

    /// Drops markers that are not needed any more from so many leaves, going on where the last sweep ended,
    /// and merges neighbours that have become small; what that came to.
    pub fn sweep(&mut self, leaves: usize) -> Swept {
        self.tree.sweep(leaves)
    }

    /// Ends the step: all its changes become visible, the header last.
    pub fn publish(self, standing: &Standing<'_>) {
        self.tree.publish(standing);
    }
}
