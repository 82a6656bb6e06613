//! A group of one replica, which begins and ends with its process: what a server alone is if it keeps an
//! ordered index (decision 33).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::limits::DRIFT_PPM;
use longarm_base::{Nanos, ReplicaId};
use longarm_disk::MediumKind;
use longarm_fabric::{Address, Member};
use longarm_host::{Mutex, random};
use longarm_replica::Timing;

use crate::durable::directory::{Directory, Identity};
use crate::durable::options::{Durability, Durable};
use crate::durable::scrub::Scrubbing;
use crate::options::{GroupOptions, StartError};
use crate::vote_store::{Promise, VoteStore};

/// Beats in a lease, at least, as of a server without replicas.
const BEATS_A_LEASE: u64 = 4;
/// The longest time between two beats. The replica stands for leader after twice that time in silence.
const BEAT_MAX: u64 = 10_000_000;
/// How long the replica may take to come to lead. It waits for nobody.
const PATIENCE: Nanos = Nanos::from_millis(1_000);
/// The only replica.
const ONLY: ReplicaId = ReplicaId(0);

/// Where a server of its own keeps its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataOptions {
    /// The directory, of this server alone. It is made if it is not there.
    pub dir: PathBuf,
    /// Where the server keeps what it promised, if not there: a directory of another disk.
    pub vault: Option<PathBuf>,
    /// What an acknowledged write outlives.
    pub durability: Durability,
    /// What the directory is on.
    pub medium: MediumKind,
    /// Whether to start without what is damaged.
    pub accept_damage: bool,
    /// How its file is looked over while the server runs.
    pub scrubbing: Scrubbing,
}

/// Keeps a promise as long as the process lives: nobody outlives it who heard of the promise.
#[derive(Default)]
struct WhileItLives(Mutex<Option<Promise>>);

impl VoteStore for WhileItLives {
    fn load(&self) -> std::io::Result<Option<Promise>> {
        Ok(self.0.lock().clone())
    }

    fn store(&self, promise: &Promise) -> std::io::Result<()> {
        *self.0.lock() = Some(promise.clone());
        Ok(())
    }
}

impl GroupOptions {
    /// A group that nobody else is in. Its number and its keys are drawn, so a server that starts again is of
    /// another group, which has lost nothing. Its clients' leases last as long as `lease`, at least.
    pub fn alone(address: &Address, lease: Duration) -> Result<GroupOptions, StartError> {
        let [id, sum_key, hash_key] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        Ok(GroupOptions {
            // Zero names no group.
            id: id.max(1),
            replica: ONLY,
            members: vec![Member { replica: ONLY, address: address.clone() }],
            joins: false,
            first: None,
            timing: timing(lease),
            sum_key,
            hash_key,
            vote_store: Arc::new(WhileItLives::default()),
            durable: None,
            memory_parts: 1,
        })
    }

    /// The same, of a server whose data is kept in a directory: it goes on in each of its lives.
    pub fn in_directory(
        address: &Address,
        lease: Duration,
        data: &DataOptions,
    ) -> Result<GroupOptions, StartError> {
        let &DataOptions { ref dir, ref vault, durability, medium, accept_damage, scrubbing } = data;
        let directory = Arc::new(Directory::open(dir, medium)?);
        let Identity { id, sum_key, hash_key } = directory.identity;
        let vote_store = directory.vote_store(vault.as_deref())?;
        let durable = Some(Durable { durability, disk: directory, accept_damage, scrubbing });
        let alone = GroupOptions::alone(address, lease)?;
        Ok(GroupOptions { id, sum_key, hash_key, vote_store, durable, ..alone })
    }
}

/// Times by which leases last as long as `lease`, and less than two milliseconds longer.
fn timing(lease: Duration) -> Timing {
    let lease = lease.as_nanos() as u64;
    // The part of a millisecond of the promise that is the leader's lease.
    let share = 1_000_000 - 2 * DRIFT_PPM;
    let promise = Nanos(lease.div_ceil(share) * 1_000_000);
    let heartbeat = Nanos((lease / BEATS_A_LEASE).min(BEAT_MAX));
    let suspect = heartbeat + heartbeat;
    Timing { heartbeat, suspect, promise, election: promise + suspect + PATIENCE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_last_as_long_as_they_were_to() {
        for lease in [1_000, 1_001, 9_800, 10_000, 20_000_000, 60_000_000].map(Duration::from_micros) {
            let timing = timing(lease);
            assert_eq!(timing.check(), Ok(()), "{lease:?}");
            assert!(timing.suspect <= Nanos::from_millis(20), "{timing:?}");
            let lasts = Duration::from_nanos(timing.lease().0);
            assert!(lasts >= lease && lasts < lease + Duration::from_millis(2), "{lease:?}: {lasts:?}");
        }
    }

    #[test]
    fn each_start_is_of_another_group() {
        let address: Address = "tcp://127.0.0.1:0".parse().expect("an address");
        let alone = || GroupOptions::alone(&address, Duration::from_millis(10)).expect("a group");
        let (one, other) = (alone(), alone());
        assert_eq!(one.check().expect("it makes sense"), ONLY);
        assert_ne!(one.id, other.id);
        assert_ne!(one.sum_key, other.sum_key);
        one.vote_store.store(&Promise { boot: 3, ..Promise::default() }).expect("kept");
        assert_eq!(one.vote_store.load().expect("there").map(|promise| promise.boot), Some(3));
        assert_eq!(other.vote_store.load().expect("empty"), None);
    }
}
