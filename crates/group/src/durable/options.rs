//! How durable a group is, and where a replica's arena is kept.

use std::sync::Arc;
use std::time::Duration;

use longarm_disk::{ArenaDisk, DiskError, Found, Medium, Shape};
use longarm_memory::Persistence;

use crate::durable::scrub::Scrubbing;

/// What an acknowledged write outlives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// A write is acknowledged when it is in memory. A loss of power, or of the process, loses the last
    /// writes alone, and those were all taken within this time: while the disk is further behind, no write is
    /// taken.
    Async {
        /// The time.
        window: Duration,
    },
    /// A write is acknowledged, and readers see it, when it is on disk.
    Sync,
}

impl Durability {
    /// The time within which the writes were taken that a loss of power loses; none if it loses none.
    pub fn window(self) -> Option<Duration> {
        match self {
            Durability::Async { window } => Some(window),
            Durability::Sync => None,
        }
    }

    /// Its name in settings, by what the file is kept on if that is memory.
    pub fn name_on(self, memory: Option<Persistence>) -> &'static str {
        match (self, memory) {
            (Durability::Async { .. }, _) => "async",
            (Durability::Sync, None) => "sync",
            (Durability::Sync, Some(_)) => "pmem",
        }
    }
}

/// What data is kept on, for people: a disk, or memory.
pub(crate) fn medium_name(memory: Option<Persistence>) -> &'static str {
    match memory {
        None => "disk",
        Some(Persistence::Power) => "persistent memory",
        Some(Persistence::Process) => "a file that stands for persistent memory",
    }
}

/// The file of a replica's arena, on whatever medium.
pub type ReplicaDisk = ArenaDisk<Box<dyn Medium>>;

/// Where the file of a replica's arena is.
pub trait DiskSource: Send + Sync {
    /// The file: as it is, or made anew if the replica never had one.
    fn open(&self, shape: Shape) -> Result<(ReplicaDisk, Found), DiskError>;
}

/// The disk of a replica.
#[derive(Clone)]
pub struct Durable {
    /// What an acknowledged write outlives.
    pub durability: Durability,
    /// Where the arena is kept.
    pub disk: Arc<dyn DiskSource>,
    /// Whether to start without what is damaged.
    pub accept_damage: bool,
    /// How its file is looked over while it runs.
    pub scrubbing: Scrubbing,
}
