//! A leadership transfer under way, as the leader knows it.

use longarm_base::{Nanos, ReplicaId};
use longarm_wire::Members;

use crate::inbound::PeerRequests;

/// A leadership transfer under way, or a change of the members, which ends in a transfer.
pub(super) struct LeaderTransfer<Q> {
    /// The operator that ordered it, until the operator is answered.
    pub asker: Option<PeerRequests<Q>>,
    pub to: ReplicaId,
    /// Whether other members are wanted.
    pub changes: bool,
    /// The members that the next term is to have.
    pub next: Option<Members>,
    /// When the replica gives up waiting to hear of another leader.
    pub until: Nanos,
    /// Since when the leader takes no new write.
    pub held: Option<Nanos>,
}

impl<Q> LeaderTransfer<Q> {
    pub fn new(
        asker: Option<PeerRequests<Q>>,
        to: ReplicaId,
        changes: bool,
        until: Nanos,
    ) -> LeaderTransfer<Q> {
        LeaderTransfer { asker, to, changes, next: None, until, held: None }
    }
}
