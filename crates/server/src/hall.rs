//! Where those who knock are led: to the workers that serve now, or, in a group, to the replica.
//!
//! Doors (`accept.rs`) stand open as long as the node lives; who serves behind them may change. All of them
//! lead to one lobby, and from there to the hall of the group that is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longarm_fabric::QueuePair;
use longarm_host::Mutex;
use longarm_wire::{Refusal, RefusalCode};

use crate::shared::Shared;
use crate::worker::Desk;
use longarm_group::Inbound;
use longarm_group::Log;

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

/// Who is to be found of one group, or of a server of its own.
pub(crate) struct Hall<Q> {
    serving: Mutex<Option<Serving<Q>>>,
    /// Of a replica: where other replicas go.
    pub inbound: Option<Arc<Inbound<Q>>>,
}

impl<Q: QueuePair> Hall<Q> {
    pub fn new(inbound: Option<Arc<Inbound<Q>>>) -> Hall<Q> {
        Hall { serving: Mutex::default(), inbound }
    }

    /// The group; zero for a server of its own.
    pub fn group(&self) -> u64 {
        self.inbound.as_ref().map_or(0, |inbound| inbound.group())
    }

    /// From now on these serve, or nobody.
    pub fn set(&self, serving: Option<Serving<Q>>) {
        *self.serving.lock() = serving;
    }

    pub fn serving(&self) -> Option<Serving<Q>> {
        self.serving.lock().clone()
    }

    /// What a client is told that asks here, where nobody serves.
    pub fn not_leader(&self) -> Refusal {
        let none = || Refusal::new(RefusalCode::Closing, "nobody serves here");
        self.inbound.as_ref().map_or_else(none, |inbound| inbound.not_leader())
    }
}

/// What all doors of a node lead to.
pub(crate) struct Lobby<Q> {
    halls: Vec<Arc<Hall<Q>>>,
    closed: AtomicBool,
    log: Log,
}

impl<Q: QueuePair> Lobby<Q> {
    /// With the hall of a server of its own, or one a group.
    pub fn new(halls: Vec<Arc<Hall<Q>>>, log: Log) -> Lobby<Q> {
        Lobby { halls, closed: AtomicBool::new(false), log }
    }

    /// The hall of a group; of the only one there is, if none is named. An error says why there is none.
    pub fn hall(&self, group: u64) -> Result<&Arc<Hall<Q>>, Refusal> {
        let wrong = |text| Refusal::new(RefusalCode::WrongGroup, text);
        match (&self.halls[..], group) {
            ([hall], 0) => Ok(hall),
            (_, 0) => Err(wrong(format!(
                "this node has replicas of {} groups, and none was named: clients need the cluster's file",
                self.halls.len()
            ))),
            ([hall], _) if hall.group() == 0 => Err(wrong("this server is in no group".into())),
            _ => self
                .halls
                .iter()
                .find(|hall| hall.group() == group)
                .ok_or_else(|| wrong(format!("this node has no replica of group {group:016x}"))),
        }
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

    pub fn log(&self, line: &str) {
        self.log.say(line);
    }
}
