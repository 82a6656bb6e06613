//! A way from the root down to a node, as the owner goes it.

use longarm_base::limits::TREE_HEIGHT_MAX;
use longarm_memory::OwnedWords;

use super::cache::Cache;
use super::layout::Pointer;

/// Where a way leads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// To what covers a key.
    Key(&'a [u8]),
    /// To what has the greatest keys below this one.
    Below(&'a [u8]),
    /// To the very last node.
    Last,
}

/// A node on the way, and the child that was taken there.
#[derive(Clone, Copy, Debug)]
struct Turn {
    pointer: Pointer,
    child: usize,
}

/// The nodes from the root on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    turns: [Turn; TREE_HEIGHT_MAX],
    len: usize,
}

impl Path {
    /// Goes from the root to the node of this level that the target names.
    pub fn find<M: OwnedWords>(cache: &mut Cache<M>, root: Pointer, target: Target<'_>, level: u8) -> Path {
        let mut path = Path { turns: [Turn { pointer: root, child: 0 }; TREE_HEIGHT_MAX], len: 1 };
        let mut pointer = root;
        while pointer.level > level {
            let at = cache.load(pointer);
            let view = cache.view(at);
            let child = match target {
                Target::Key(key) => view.child_of(key),
                Target::Below(key) => view.child_below(key),
                Target::Last => view.count(),
            };
            path.turns[path.len - 1].child = child;
            pointer = view.child(child).expect("a child that the tree has");
            path.turns[path.len].pointer = pointer;
            path.len += 1;
        }
        path
    }

    /// Number of the last node, the root being 0.
    pub fn last(&self) -> usize {
        self.len - 1
    }

    /// A node.
    pub fn node(&self, depth: usize) -> Pointer {
        self.turns[depth].pointer
    }

    /// The node that it leads to.
    pub fn end(&self) -> Pointer {
        self.turns[self.last()].pointer
    }

    /// Which child was taken there.
    pub fn child(&self, depth: usize) -> usize {
        self.turns[depth].child
    }

    /// A node has another place.
    pub fn replace(&mut self, depth: usize, pointer: Pointer) {
        self.turns[depth].pointer = pointer;
    }
}
