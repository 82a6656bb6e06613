//! A leadership transfer under way, as the leader knows it.

use longarm_base::{Nanos, NodeId};
use longarm_wire::Members;

use crate::inbound::PeerRequests;

/// A transfer under way, or another set of replicas, which ends in one.
pub(super) struct LeaderTransfer<Q> {
    /// Who wanted it, as long as he is to be answered.
    pub asker: Option<PeerRequests<Q>>,
    pub to: NodeId,
    /// Another set of replicas is wanted.
    pub changes: bool,
    /// The set that the next term is to have.
    pub next: Option<Members>,
    /// When nobody will be heard of any more.
    pub until: Nanos,
    /// Since when no new write is taken.
    pub held: Option<Nanos>,
}

impl<Q> LeaderTransfer<Q> {
    pub fn new(asker: Option<PeerRequests<Q>>, to: NodeId, changes: bool, until: Nanos) -> LeaderTransfer<Q> {
        LeaderTransfer { asker, to, changes, next: None, until, held: None }
    }
}
