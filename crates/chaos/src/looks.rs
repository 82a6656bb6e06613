//! The last look at the end of a run, and what it saw at each replica.

use longarm::cluster::NodeId;
use longarm_history::Operation;
use longarm_history::counters::Count;

/// The client that looks while a node leads at the end has this number plus the node's. The client that looks
/// after all were killed at once has this number.
pub const LOOKER: u32 = 1_000_000;

/// What the last look saw.
#[derive(Default)]
pub struct Looks {
    /// The nodes that led, in this order.
    pub at: Vec<NodeId>,
    /// The values that it found.
    pub left: Vec<Operation>,
    /// The counters that it found.
    pub counts: Vec<Count>,
}
