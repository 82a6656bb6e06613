//! Inner nodes of a tree that a client remembers, so that a search READs one leaf (Cell 2.4). They may be of
//! any moment: a walk trusts none of them (`index::tree`, reader). A value without I/O.

use std::collections::HashMap;
use std::sync::Arc;

use longarm_index::tree::Pointer;

/// Bytes of nodes that are remembered. A tree of a million keys has some 3 MiB of inner nodes.
const BYTES_MAX: usize = 64 << 20;

/// Remembered nodes of one tree.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    incarnation: u64,
    kept: HashMap<u64, Arc<[u8]>>,
    bytes: usize,
}

impl Nodes {
    /// Forgets everything, if what is remembered is of another tree than this.
    pub(crate) fn turn_to(&mut self, incarnation: u64) {
        if self.incarnation != incarnation {
            *self = Nodes { incarnation, ..Nodes::default() };
        }
    }

    pub(crate) fn get(&self, pointer: Pointer) -> Option<Arc<[u8]>> {
        self.kept.get(&pointer.pack()).cloned()
    }

    /// Remembers a node. If there are too many, all others are forgotten: the next walks READ what they need.
    pub(crate) fn keep(&mut self, pointer: Pointer, node: Arc<[u8]>) {
        self.forget(pointer);
        if self.bytes + node.len() > BYTES_MAX {
            self.kept.clear();
            self.bytes = 0;
        }
        self.bytes += node.len();
        self.kept.insert(pointer.pack(), node);
    }

    /// Forgets a node that led astray.
    pub(crate) fn forget(&mut self, pointer: Pointer) {
        let before = self.kept.remove(&pointer.pack());
        self.bytes -= before.map_or(0, |before| before.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(unit: u64) -> Pointer {
        Pointer { unit, class: 0, level: 1, generation: 3 }
    }

    #[test]
    fn what_is_remembered_has_a_bound_and_is_of_one_tree() {
        let mut nodes = Nodes::default();
        nodes.turn_to(7);
        let large: Arc<[u8]> = vec![1; BYTES_MAX / 4].into();
        for unit in 0..4 {
            nodes.keep(pointer(unit), large.clone());
        }
        nodes.keep(pointer(0), large.clone());
        assert!(nodes.get(pointer(3)).is_some() && nodes.bytes == BYTES_MAX, "the same node once more");
        nodes.keep(pointer(4), large.clone());
        assert!(nodes.get(pointer(3)).is_none() && nodes.bytes == BYTES_MAX / 4, "all but the newest went");
        nodes.forget(pointer(4));
        assert_eq!((nodes.bytes, nodes.get(pointer(4))), (0, None));
        nodes.keep(pointer(1), large);
        nodes.turn_to(7);
        assert!(nodes.get(pointer(1)).is_some());
        assert!(nodes.get(Pointer { generation: 4, ..pointer(1) }).is_none(), "another use of its place");
        nodes.turn_to(8);
        assert!(nodes.get(pointer(1)).is_none() && nodes.bytes == 0);
    }
}
