//! How many queue pairs a listener has.

use std::sync::Arc;

/// Counts a listener's queue pairs: each holds one.
#[derive(Clone, Debug, Default)]
pub(super) struct QueuePairSlot(pub(super) Arc<()>);
