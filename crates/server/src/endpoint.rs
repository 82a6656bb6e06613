//! The endpoint of a group, to which its connections go: the workers that serve clients now, or, in a group,
//! the replica.
//!
//! Listeners are open as long as the node lives; the workers of a group's clients may change meanwhile.

use std::sync::Arc;

use longarm_base::Nanos;
use longarm_fabric::QueuePair;
use longarm_host::Mutex;
use longarm_wire::{Refusal, RefusalCode};

use crate::ordered::ScanDoor;
use crate::shared::Shared;
use crate::threads::await_drained;
use crate::worker_inbox::WorkerInbox;
use longarm_group::{Inbound, Phase};

/// The workers that serve clients now.
pub(crate) struct Serving<Q> {
    pub shared: Arc<Shared>,
    pub inboxes: Vec<Arc<WorkerInbox<Q>>>,
}

impl<Q: QueuePair> Serving<Q> {
    /// Has requests that have arrived executed, while later ones are told that the server closes. Returns
    /// whether all of them were executed in time.
    pub fn drain(&self, deadline: Nanos) -> bool {
        self.shared.core.enter(Phase::Draining, deadline);
        self.inboxes.iter().for_each(|inbox| inbox.channel.notify());
        await_drained(&self.shared.core, deadline)
    }
}

impl<Q> Clone for Serving<Q> {
    fn clone(&self) -> Serving<Q> {
        Serving { shared: self.shared.clone(), inboxes: self.inboxes.clone() }
    }
}

/// The endpoint of one group, or of a server of its own.
pub(crate) struct GroupEndpoint<Q> {
    serving: Mutex<Option<Serving<Q>>>,
    /// For a replica that has, or may have, others: where connections of these go.
    pub inbound: Option<Arc<Inbound<Q>>>,
    /// For a replica that keeps an ordered index: where clients go that scan, whoever leads.
    pub scans: Option<Arc<ScanDoor<Q>>>,
}

impl<Q: QueuePair> GroupEndpoint<Q> {
    pub fn new(inbound: Option<Arc<Inbound<Q>>>, scans: Option<Arc<ScanDoor<Q>>>) -> GroupEndpoint<Q> {
        GroupEndpoint { serving: Mutex::default(), inbound, scans }
    }

    /// The group; zero for a server of its own.
    pub fn group(&self) -> u64 {
        self.inbound.as_ref().map_or(0, |inbound| inbound.group())
    }

    /// Sets the workers that serve from now on, if any.
    pub fn set(&self, serving: Option<Serving<Q>>) {
        *self.serving.lock() = serving;
    }

    pub fn serving(&self) -> Option<Serving<Q>> {
        self.serving.lock().clone()
    }

    /// The refusal for a client that asks here while this node does not lead.
    pub fn not_leader(&self) -> Refusal {
        let none = || Refusal::new(RefusalCode::Closing, "nobody serves here");
        self.inbound.as_ref().map_or_else(none, |inbound| inbound.not_leader())
    }
}
