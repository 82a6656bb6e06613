//! What the last look saw at each replica.

use longarm_base::NodeId;
use longarm_history::Operation;
use longarm_history::counters::Count;

/// Whoever looks while a node leads is the client of this number and the node's.
pub const LOOKER: u32 = 1_000_000;

/// What was seen, and of whom.
#[derive(Default)]
pub struct Looks {
    /// Nodes that led, in this order.
    pub at: Vec<NodeId>,
    /// Values.
    pub left: Vec<Operation>,
    /// Counters.
    pub counts: Vec<Count>,
}
