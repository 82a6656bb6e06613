//! Statistics of a replica's part in its group.

use std::sync::Arc;

use serde::Serialize;

/// A replica's part in its group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupStats {
    /// The number of the group, in hexadecimal.
    pub id: String,
    /// The replica's id.
    pub replica: u8,
    /// Its role: leader, follower, and so on.
    pub role: String,
    /// The term that it has promised, as `counter.replica`.
    pub term: String,
    /// The term whose start set it holds; none if its memory does not count.
    pub sync: Option<String>,
    /// The number of replicas of the group.
    pub replicas: usize,
    /// Their ids.
    pub members: Vec<u8>,
    /// On the leader: how much longer its lease lasts, in microseconds.
    pub lease_us: Option<u64>,
    /// On the leader: how long each step to its lead took.
    pub takeover: Option<TakeoverStats>,
    /// On the leader: the followers that are attached.
    pub followers: Vec<FollowerStats>,
}

/// The steps to a replica's lead, and how long each took, in microseconds. The first step begins with the
/// last sign of the predecessor, or with the replica's own start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TakeoverStats {
    /// The replica heard nothing, until it asked the others. Earlier attempts are included.
    pub silence_us: u64,
    /// The replica asked the others, until a majority said that it would report.
    pub canvass_us: u64,
    /// The replica wrote the new term to disk, and ended the connections of older terms.
    pub promise_us: u64,
    /// The replica waited until the predecessor's lease was over.
    pub lease_us: u64,
    /// The replica waited for the reports of a majority.
    pub gather_us: u64,
    /// The replica fetched the entries that it lacked, and built the index.
    pub install_us: u64,
    /// The replica synced a majority.
    pub sync_us: u64,
}

impl TakeoverStats {
    /// The time of all steps together.
    pub fn total_us(&self) -> u64 {
        let asked = self.silence_us + self.canvass_us + self.promise_us + self.lease_us;
        asked + self.gather_us + self.install_us + self.sync_us
    }
}

/// A follower as its leader sees it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FollowerStats {
    /// The follower's id.
    pub replica: u8,
    /// Whether the follower is in sync.
    pub synced: bool,
    /// The number of entries that the follower has not acknowledged.
    pub lag: u64,
}

/// The disk of a durable leader.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DiskStats {
    /// `async`, `sync` or `pmem`.
    pub durability: &'static str,
    /// What it is: a disk, or memory that is persistent, or that a file stands for.
    pub medium: &'static str,
    /// In `async` mode: within how many milliseconds the writes were taken that a loss of power loses.
    pub window_ms: Option<u64>,
    /// Batches, each with a sync.
    pub syncs: u64,
    /// Bytes of entries written.
    pub bytes: u64,
    /// How long the last thousand batches took to be on disk, in microseconds: the median.
    pub sync_us_p50: u32,
    /// The same of the slowest in a hundred.
    pub sync_us_p99: u32,
    /// The slowest.
    pub sync_us_max: u32,
    /// How often the whole file was looked over since this term began.
    pub scrub_passes: u64,
    /// Bytes that were read back for that.
    pub scrub_bytes: u64,
    /// Entries, pages of the table and notes that were not there any more as they had been written, and are
    /// again.
    pub scrub_repaired: u64,
    /// Why no write is taken any more.
    pub failed: Option<String>,
}

/// Tells how a replica stands in its group.
pub type Stands = Arc<dyn Fn() -> GroupStats + Send + Sync>;
