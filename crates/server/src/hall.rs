//! Where those who knock are led: to the workers that serve now, or, in a group, to the replica.
//!
//! Doors (`accept.rs`) stand open as long as the node lives; who serves behind them may change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longarm_fabric::QueuePair;
use longarm_host::Mutex;

use crate::group::Inbound;
use crate::options::Log;
use crate::shared::Shared;
use crate::worker::Desk;

/// Who serves clients now.
pub(crate) struct Serving<Q> {
    pub shared: Arc<Shared>,
    pub desks: Vec<Arc<Desk<Q>>>,
}

impl<Q> Clone for Serving<Q> {
    fn clone(&self) -> Serving<Q> {
        Serving { shared: self.shared.clone(), desks: self.desks.clone() }
    }
}

/// What all doors of a node lead to.
pub(crate) struct Hall<Q> {
    serving: Mutex<Option<Serving<Q>>>,
    closed: AtomicBool,
    /// Of a node in a group: where other replicas go.
    pub inbound: Option<Arc<Inbound<Q>>>,
    log: Log,
}

impl<Q: QueuePair> Hall<Q> {
    pub fn new(log: Log, inbound: Option<Arc<Inbound<Q>>>) -> Hall<Q> {
        Hall { serving: Mutex::default(), closed: AtomicBool::new(false), inbound, log }
    }

    /// From now on these serve, or nobody.
    pub fn set(&self, serving: Option<Serving<Q>>) {
        *self.serving.lock() = serving;
    }

    pub fn serving(&self) -> Option<Serving<Q>> {
        self.serving.lock().clone()
    }

    /// Nobody is let in any more.
    pub fn close(&self) {
        // Relaxed: a door that sees it late lets one more in, who is told at once.
        self.closed.store(true, Ordering::Relaxed);
    }

    pub fn is_closed(&self) -> bool {
        // Relaxed: as in `close`.
        self.closed.load(Ordering::Relaxed)
    }

    /// Why a client that asks here, where nobody serves, should ask another node.
    pub fn elsewhere(&self) -> String {
        self.inbound.as_ref().map_or_else(|| "nobody serves here".into(), |inbound| inbound.elsewhere())
    }

    pub fn log(&self, line: &str) {
        (self.log)(line);
    }
}
