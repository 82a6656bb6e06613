//! Finds the endpoint of the group that a hello names. A node has one router, which the acceptors
//! (`accept.rs`) of all its addresses share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longarm_fabric::QueuePair;
use longarm_wire::{Refusal, RefusalCode};

use crate::endpoint::GroupEndpoint;
use longarm_group::Log;

/// The groups of a node, for the acceptors of all its addresses.
pub(crate) struct Router<Q> {
    endpoints: Vec<Arc<GroupEndpoint<Q>>>,
    closed: AtomicBool,
    log: Log,
}

impl<Q: QueuePair> Router<Q> {
    /// A router over the endpoint of a server of its own, or over one endpoint a group.
    pub fn new(endpoints: Vec<Arc<GroupEndpoint<Q>>>, log: Log) -> Router<Q> {
        Router { endpoints, closed: AtomicBool::new(false), log }
    }

    /// The endpoint of a group; if the hello names none, the only endpoint there is. An error says why there
    /// is none.
    pub fn endpoint(&self, group: u64) -> Result<&Arc<GroupEndpoint<Q>>, Refusal> {
        let wrong = |text| Refusal::new(RefusalCode::WrongGroup, text);
        match (&self.endpoints[..], group) {
            ([endpoint], 0) => Ok(endpoint),
            (_, 0) => Err(wrong(format!(
                "this node has replicas of {} groups, and none was named: clients need the cluster's file",
                self.endpoints.len()
            ))),
            ([endpoint], _) if endpoint.group() == 0 => Err(wrong("this server is in no group".into())),
            _ => self
                .endpoints
                .iter()
                .find(|endpoint| endpoint.group() == group)
                .ok_or_else(|| wrong(format!("this node has no replica of group {group:016x}"))),
        }
    }

    /// Admits no more connections.
    pub fn close(&self) {
        // Relaxed: an acceptor that sees it late admits one more client, which is told at once.
        self.closed.store(true, Ordering::Relaxed);
    }

    pub fn is_closed(&self) -> bool {
        // Relaxed: as in `close`.
        self.closed.load(Ordering::Relaxed)
    }

    pub fn log(&self, line: &str) {
        self.log.say(line);
    }
}
