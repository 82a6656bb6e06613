//! The inner nodes on the way to the leaf of the last key. The next key of a sorted step is near: its way
//! begins at the lowest of them that covers it.

use longarm_base::limits::TREE_HEIGHT_MAX;
use longarm_memory::OwnedWords;

use super::cache::Cache;
use super::layout::Pointer;

/// Inner nodes from the root, or what was the root, down to the level above the leaves.
pub(super) struct Way {
    nodes: [Pointer; TREE_HEIGHT_MAX],
    len: usize,
    /// The key that was looked for last: all of them covered it then.
    key: Vec<u8>,
}

impl Way {
    /// None is known.
    pub const NONE: Way = Way {
        nodes: [Pointer { unit: 0, class: 0, level: 0, generation: 0 }; TREE_HEIGHT_MAX],
        len: 0,
        key: Vec::new(),
    };

    /// A node of it may be no part of the tree any more. What only came to be is no harm: it took the
    /// greatest keys of what is here.
    pub fn forget(&mut self) {
        self.len = 0;
    }

    /// The leaf that covers a key.
    pub fn leaf<M: OwnedWords>(&mut self, cache: &mut Cache<M>, root: Pointer, key: &[u8]) -> Pointer {
        if key < self.key.as_slice() {
            self.len = 0;
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        let mut pointer = root;
        while let Some(last) = self.len.checked_sub(1) {
            self.len = last;
            let at = cache.load(self.nodes[last]);
            if cache.view(at).is_below_high(key) {
                pointer = self.nodes[last];
                break;
            }
        }
        while pointer.level > 0 {
            self.nodes[self.len] = pointer;
            self.len += 1;
            let at = cache.load(pointer);
            let view = cache.view(at);
            pointer = view.child(view.child_of(key)).expect("a child that the tree has");
        }
        pointer
    }
}
