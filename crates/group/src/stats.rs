//! What a replica tells of its part in its group.

use std::sync::Arc;

use serde::Serialize;

/// A replica's part in its group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupStats {
    /// The group, in hexadecimal.
    pub id: String,
    /// Its name.
    pub node: u8,
    /// What it is: leader, follower, and so on.
    pub role: String,
    /// The term it has promised, as `counter.node`.
    pub term: String,
    /// The term whose start set it holds; none if its memory does not count.
    pub sync: Option<String>,
    /// Replicas of the group.
    pub replicas: usize,
    /// Their names.
    pub members: Vec<u8>,
    /// On the leader: how much longer its lease lasts, in microseconds.
    pub lease_us: Option<u64>,
    /// On the leader: how it came to lead.
    pub takeover: Option<TakeoverStats>,
    /// On the leader: the others, as far as they are attached.
    pub followers: Vec<FollowerStats>,
}

/// What the time went into until a replica led, in microseconds, from the last sign of its predecessor (or
/// its own start) on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TakeoverStats {
    /// Nothing was heard, until it asked the others; earlier attempts included.
    pub silence_us: u64,
    /// A majority was asked whether it would report.
    pub canvass_us: u64,
    /// The new term was written to disk, and connections of older ones ended.
    pub promise_us: u64,
    /// The lease of the predecessor was waited out.
    pub lease_us: u64,
    /// A majority reported.
    pub gather_us: u64,
    /// What others had more of was fetched, and the index built.
    pub install_us: u64,
    /// A majority was synced.
    pub sync_us: u64,
}

impl TakeoverStats {
    /// All of it.
    pub fn total_us(&self) -> u64 {
        let asked = self.silence_us + self.canvass_us + self.promise_us + self.lease_us;
        asked + self.gather_us + self.install_us + self.sync_us
    }
}

/// A follower as its leader sees it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FollowerStats {
    /// Its name.
    pub node: u8,
    /// Whether it is in sync.
    pub synced: bool,
    /// Entries that it has not acknowledged.
    pub lag: u64,
}

/// Says how a replica stands in its group.
pub type Stands = Arc<dyn Fn() -> GroupStats + Send + Sync>;
