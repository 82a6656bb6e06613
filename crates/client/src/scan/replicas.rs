//! Which replica of a group to ask: one that does not lead, as long as it answers.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::Address;

/// A replica that is asked only if all others are worse.
#[derive(Clone, Debug)]
struct Shunned {
    address: Address,
    until: Nanos,
}

/// The replicas of a group, as those who answer scans. A value: it reads no clock.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    /// Where the search for a replica begins, so that clients spread over them.
    first: usize,
    shunned: Vec<Shunned>,
}

impl Replicas {
    pub(crate) fn new(first: usize) -> Replicas {
        Replicas { first, shunned: Vec::new() }
    }

    /// The replica to ask at `now`: one that is not shunned before one that is, a follower before the leader.
    /// Of those that are shunned, the one for the least time.
    pub(crate) fn choose(&self, known: &[Address], leader: &Address, now: Nanos) -> Address {
        let count = known.len().max(1);
        let worse = |(number, address): &(usize, &Address)| {
            let until = self.shunned.iter().find(|shunned| shunned.address == **address);
            let until = until.map_or(Nanos(0), |shunned| shunned.until);
            let until = if until > now { until } else { Nanos(0) };
            (until, *address == leader, (number + count - self.first % count) % count)
        };
        let of_all = known.iter().enumerate().min_by_key(worse);
        // A leader that was named, and is none of those that were given, is the last choice.
        of_all.map_or(leader, |(_, address)| address).clone()
    }

    /// Notes that a replica is better not asked for a while.
    pub(crate) fn shun(&mut self, address: &Address, now: Nanos, time: Duration) {
        self.shunned.retain(|shunned| shunned.address != *address && shunned.until > now);
        let until = now + Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.shunned.push(Shunned { address: address.clone(), until });
    }
}
