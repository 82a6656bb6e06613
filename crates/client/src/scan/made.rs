//! Of which moment of which tree a page is.

use std::sync::Arc;

use longarm_base::{Term, UnixMillis};
use longarm_fabric::Address;
use longarm_wire::TreeMoment;

/// What a page was made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Made {
    /// The tree, and its step.
    pub(crate) moment: TreeMoment,
    /// The replica that has the tree.
    pub(crate) replica: Arc<Address>,
    /// The leader on which the client had its lease.
    pub(crate) boot: u64,
    pub(crate) term: Term,
}

/// A snapshot that a replica keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pinned {
    pub(crate) made: Made,
    /// The leader's calendar when it was taken, or a little earlier.
    pub(crate) unix: UnixMillis,
}
