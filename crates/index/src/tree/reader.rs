//! The one-sided walk over a tree as a value: it says what to READ and is fed with the bytes.
//!
//! It shows the tree of one step, that of the header it was started with, though the owner goes on:
//! (1) A node is whole by its checksum, and of this tree and place, which are the checksum's seed (Cell 2.3).
//!     It is part of the tree, and what the pointer meant, by generation and level.
//! (2) A leaf counts only if no later step has changed it: so it is as it was at the header's step, and all
//!     leaves that count are of one state.
//! (3) Inner nodes may be of any moment, also from a cache. They are never trusted: the first leaf must cover
//!     the key by its own fences, and each further one begin exactly where the one before ended. A way that
//!     leads astray is gone anew, from the root.
//! (4) Every place is checked against the region before it is READ. The walk ends: levels descend, steps to
//!     the right are counted, and what is wanted of leaves only ascends (or descends).
//!
//! The caller bounds how often it looks again.

use std::ops::Bound;

use longarm_base::Mutant;
use longarm_memory::SumKey;

use super::header::Header;
use super::layout::{Pointer, seed};
use super::node::NodeView;
use super::range::TreeRange;

/// Steps to the right on one level beyond which a way is taken to lead astray.
const RIGHTS_MAX: u32 = 64;

/// By what a reader judges: the same for a whole walk.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The tree at the step to look at.
    pub header: &'a Header,
    /// Key of the checksums.
    pub sums: &'a SumKey,
    /// Bytes of the region that are lent.
    pub bytes: u64,
}

/// What a walk wants or found.
#[derive(Clone, Copy, Debug)]
pub enum TreeStep<'b> {
    /// READ this node ([`Pointer::place`]) and [`feed`](TreeWalk::feed) it. A node of a level above 0 may
    /// come from a cache.
    Read(Pointer),
    /// The next leaf of the tree at the header's step. Look at it, then [`go on`](TreeWalk::go_on).
    Leaf(NodeView<'b>),
    /// The walk is at its end.
    End,
    /// The bytes are of different moments: READ the same again, a bounded number of times.
    Torn,
    /// The way leads astray: forget what is cached of it, and go it [`again`](TreeWalk::again).
    Stale,
    /// The leaf was changed by a later step: READ the header again, and start anew under it.
    Later,
}

/// Which leaf is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Want {
    /// What covers this key; or, once there was a leaf, what begins with it.
    From(Vec<u8>),
    /// What has the greatest keys below this one; or, once there was a leaf, what ends before it.
    Below(Vec<u8>),
    /// The last.
    Last,
}

/// A walk in progress.
#[derive(Clone, Debug)]
pub struct TreeWalk {
    want: Want,
    /// There was a leaf: the next must adjoin it.
    adjoins: bool,
    /// What was asked for last.
    asked: Pointer,
    /// Right neighbour of the last leaf.
    right: Option<Pointer>,
    rights: u32,
}

impl TreeWalk {
    /// Starts a walk over the leaves that have a range's keys, in its order. The first step is a READ of the
    /// root, or of `hint` instead: a node that a cache names.
    pub fn start<'b>(
        range: &TreeRange<'_>,
        hint: Option<Pointer>,
        sight: &Sight<'_>,
    ) -> (TreeWalk, TreeStep<'b>) {
        let key = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.to_vec(),
            Bound::Unbounded => Vec::new(),
        };
        let want = match (range.reverse, range.high) {
            (false, _) => Want::From(key(range.low)),
            (true, Bound::Unbounded) => Want::Last,
            // The leaf that covers a key has it, and what is below it as far as it has that.
            (true, Bound::Included(high)) => Want::Below([high, &[0]].concat()),
            (true, Bound::Excluded(high)) => Want::Below(high.to_vec()),
        };
        let asked = hint.unwrap_or(sight.header.root);
        let mut walk = TreeWalk { want, adjoins: false, asked, right: None, rights: 0 };
        // Nothing is below the empty key.
        let is_empty = walk.want == Want::Below(Vec::new());
        let step = if is_empty { TreeStep::End } else { walk.read(asked, sight) };
        (walk, step)
    }

    /// Goes the way to the leaf that is wanted again, from the root.
    pub fn again<'b>(&mut self, sight: &Sight<'_>) -> TreeStep<'b> {
        self.rights = 0;
        self.read(sight.header.root, sight)
    }

    /// Asks for a node, if the region has it.
    fn read<'b>(&mut self, pointer: Pointer, sight: &Sight<'_>) -> TreeStep<'b> {
        self.asked = pointer;
        match pointer.place(sight.header.unit, sight.bytes) {
            Some(_) => TreeStep::Read(pointer),
            None => TreeStep::Stale,
        }
    }

    /// Takes the bytes of a node: of the one that the last step asked for, or of a leaf that the caller READ
    /// ahead, since it guessed that it comes next.
    pub fn feed<'b>(&mut self, pointer: Pointer, bytes: &'b [u8], sight: &Sight<'_>) -> TreeStep<'b> {
        let view = match node_in(pointer, bytes, sight) {
            Ok(view) => view,
            // A guess that was wrong is no harm: what was asked for counts.
            Err(_) if pointer != self.asked => return TreeStep::Read(self.asked),
            Err(step) => return step,
        };
        if view.level() > 0 { self.feed_inner(&view, sight) } else { self.feed_leaf(pointer, view, sight) }
    }

    /// Takes the bytes of an inner node that was asked for, and comes from a cache of what [`is_node`] was
    /// true of. It is not summed again.
    pub fn feed_known<'b>(&mut self, bytes: &[u8], sight: &Sight<'_>) -> TreeStep<'b> {
        self.feed_inner(&NodeView::of(bytes), sight)
    }

    fn feed_inner<'b>(&mut self, view: &NodeView<'_>, sight: &Sight<'_>) -> TreeStep<'b> {
        let child = match self.side(view) {
            Side::Before => return TreeStep::Stale,
            Side::Behind => return self.step_right(view, sight),
            Side::Here => match &self.want {
                Want::From(key) => view.child_of(key),
                Want::Below(key) => view.child_below(key),
                Want::Last => view.count(),
            },
        };
        self.rights = 0;
        match view.child(child) {
            Some(child) if child.level + 1 == view.level() => self.read(child, sight),
            _ => TreeStep::Stale,
        }
    }

    fn feed_leaf<'b>(&mut self, pointer: Pointer, view: NodeView<'b>, sight: &Sight<'_>) -> TreeStep<'b> {
        let adjoins = match &self.want {
            Want::From(key) => view.low() == key,
            Want::Below(key) => view.high() == Some(key),
            Want::Last => view.high().is_none(),
        };
        let misses = self.adjoins && !adjoins && !Mutant::NoAdjoin.is_on();
        if misses && pointer != self.asked {
            return TreeStep::Read(self.asked);
        }
        if view.mark().step > sight.header.step && !Mutant::NodeLater.is_on() {
            return TreeStep::Later;
        }
        if misses {
            return self.astray(&view, sight);
        }
        if !self.adjoins {
            match self.side(&view) {
                Side::Before => return TreeStep::Stale,
                Side::Behind => return self.step_right(&view, sight),
                Side::Here => {}
            }
        }
        self.adjoins = true;
        self.rights = 0;
        self.right = view.right();
        self.want = match (&self.want, view.high()) {
            (Want::From(_), high) => Want::From(high.unwrap_or(&[]).to_vec()),
            _ => Want::Below(view.low().to_vec()),
        };
        TreeStep::Leaf(view)
    }

    /// What was asked for does not adjoin the leaf before: an inner node led too far to the left, or astray.
    fn astray<'b>(&mut self, view: &NodeView<'_>, sight: &Sight<'_>) -> TreeStep<'b> {
        if self.side(view) == Side::Behind { self.step_right(view, sight) } else { TreeStep::Stale }
    }

    /// Where the wanted leaf is, by a node's fences.
    fn side(&self, view: &NodeView<'_>) -> Side {
        match &self.want {
            Want::From(key) if key.as_slice() < view.low() => Side::Before,
            Want::From(key) if view.high().is_some_and(|high| high <= key) => Side::Behind,
            Want::Below(key) if key.as_slice() <= view.low() => Side::Before,
            Want::Below(key) if view.high().is_some_and(|high| high < key) => Side::Behind,
            Want::Last if view.high().is_some() => Side::Behind,
            _ => Side::Here,
        }
    }

    fn step_right<'b>(&mut self, view: &NodeView<'_>, sight: &Sight<'_>) -> TreeStep<'b> {
        self.rights += 1;
        match view.right() {
            Some(right) if right.level == view.level() && self.rights <= RIGHTS_MAX => {
                self.read(right, sight)
            }
            _ => TreeStep::Stale,
        }
    }

    /// Goes on behind the last leaf. `range` is the one it was started with.
    pub fn go_on<'b>(&mut self, range: &TreeRange<'_>, sight: &Sight<'_>) -> TreeStep<'b> {
        match &self.want {
            _ if !self.adjoins => self.again(sight),
            Want::From(high) if high.is_empty() || !range.goes_above(high) => TreeStep::End,
            Want::From(_) => match self.right {
                Some(right) if right.level == 0 => self.read(right, sight),
                _ => TreeStep::Stale,
            },
            Want::Below(low) if low.is_empty() || !range.goes_below(low) => TreeStep::End,
            Want::Below(_) | Want::Last => self.again(sight),
        }
    }

    /// Leaves that likely follow the one asked for, by a node of level 1 that a cache has: to be READ ahead.
    pub fn guesses<'n>(&self, parent: &NodeView<'n>) -> impl Iterator<Item = Pointer> + use<'n> {
        let parent = *parent;
        let from = match &self.want {
            Want::From(key) if parent.level() == 1 => parent.child_of(key) + 1,
            _ => parent.count() + 1,
        };
        (from..=parent.count()).filter_map(move |i| parent.child(i)).filter(|child| child.level == 0)
    }
}

/// On which side of a node the wanted leaf is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    Here,
    Behind,
}

/// Whether bytes that were READ for a pointer are the node that it means.
pub fn is_node(pointer: Pointer, bytes: &[u8], sight: &Sight<'_>) -> bool {
    node_in(pointer, bytes, sight).is_ok()
}

/// The node that a pointer means, of bytes that were READ for it.
fn node_in<'b>(pointer: Pointer, bytes: &'b [u8], sight: &Sight<'_>) -> Result<NodeView<'b>, TreeStep<'b>> {
    let unit = sight.header.unit;
    if bytes.len() != pointer.bytes(unit) {
        return Err(TreeStep::Torn);
    }
    let seed = seed(sight.header.incarnation, pointer.at(unit));
    let sum = sight.sums.sum(seed, &bytes[8..]);
    if NodeView::of(bytes).checksum() != sum {
        return Err(TreeStep::Torn);
    }
    let Some(view) = NodeView::parse(bytes, unit) else { return Err(TreeStep::Stale) };
    let same = view.mark().generation == pointer.generation || Mutant::NoGeneration.is_on();
    if same && view.level() == pointer.level { Ok(view) } else { Err(TreeStep::Stale) }
}
