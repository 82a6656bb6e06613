//! Whom the ordered index of a replica follows.

use std::sync::Arc;

use longarm_base::{Csn, Term};
use longarm_fabric::{SetupError, Transport};
use longarm_ordered::{LANDING, Order, StableOf};

use super::Node;

impl<T: Transport> Node<T> {
    /// The memory holds what the leader of the term has: the index may follow that leader.
    pub(super) fn order_to_follow(&self, term: Term) {
        let (ready, streams) = self.order.ready;
        let Some(address) = self.peer_address(term.leader()).filter(|_| ready == term) else { return };
        let connect = Box::new(move || -> Result<T::Qp, SetupError> { address.progress(term, LANDING) });
        self.order.give(Order::Follow { term, streams, connect });
    }

    /// The replica serves in the term: other replicas may READ how far its streams are, and its own index
    /// follows its own streams, if clients have nobody else to scan.
    pub(super) fn order_to_lead(&self, term: Term) {
        let Some(progress) = &self.lent.progress else { return };
        self.inbound.set_progress(Some((term, progress.clone())));
        let Some(leader) = &self.leading else { return };
        let core = Arc::downgrade(&leader.term.core);
        let stable: StableOf =
            Arc::new(move || core.upgrade().map_or(Csn::NONE, |core| core.engine.stable_point()));
        let (streams, progress) = (self.streams(), progress.memory().clone());
        let followed = self.group().others().next().is_some();
        self.order.give(Order::Lead { term, streams, progress, stable, followed });
    }
}
