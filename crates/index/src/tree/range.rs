//! Ranges of keys, and the part of a leaf that is within one.

use std::ops::{Bound, Range};

use super::node::NodeView;

/// Keys, and in which order to go through them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeRange<'a> {
    /// The least key, or what is below all.
    pub low: Bound<&'a [u8]>,
    /// The greatest key, or what is above all.
    pub high: Bound<&'a [u8]>,
    /// From the greatest to the least.
    pub reverse: bool,
}

impl TreeRange<'_> {
    /// All keys in ascending order.
    pub const ALL: TreeRange<'static> =
        TreeRange { low: Bound::Unbounded, high: Bound::Unbounded, reverse: false };

    /// Slots of a leaf whose keys are in the range.
    pub fn slots(&self, leaf: &NodeView<'_>) -> Range<usize> {
        let below = |key: &[u8]| leaf.position(key).unwrap_or_else(|at| at);
        let through = |key: &[u8]| leaf.position(key).map_or_else(|at| at, |at| at + 1);
        let from = match self.low {
            Bound::Unbounded => 0,
            Bound::Included(key) => below(key),
            Bound::Excluded(key) => through(key),
        };
        let to = match self.high {
            Bound::Unbounded => leaf.count(),
            Bound::Included(key) => through(key),
            Bound::Excluded(key) => below(key),
        };
        from..to.max(from)
    }

    /// Whether there may be keys of the range behind a leaf whose high fence this is.
    pub fn goes_above(&self, fence: &[u8]) -> bool {
        match self.high {
            Bound::Unbounded => true,
            Bound::Included(key) => key >= fence,
            Bound::Excluded(key) => key > fence,
        }
    }

    /// Whether there may be keys of the range before a leaf whose low fence this is.
    pub fn goes_below(&self, fence: &[u8]) -> bool {
        match self.low {
            Bound::Unbounded => true,
            Bound::Included(key) | Bound::Excluded(key) => key < fence,
        }
    }
}
