//! The times of a new cluster, as flags of those commands that make one.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_server::Timing;

use crate::flags::duration;

/// The times of a new cluster.
#[derive(clap::Args, Clone, PartialEq, Eq, Debug)]
pub struct Times {
    /// How long a replica lets no other lead, since it heard the leader: reads after a failure wait for it
    #[arg(long, value_name = "DURATION", default_value = Times::LEASE, value_parser = duration)]
    pub lease: Duration,

    /// Time between two heartbeats of the leader; the lease lasts two or more
    #[arg(long, value_name = "DURATION", default_value = Times::HEARTBEAT, value_parser = duration)]
    pub heartbeat: Duration,

    /// Without a heartbeat for so long, the leader is suspected; up to five times as late where a busy
    /// machine often keeps a core from it
    #[arg(long, value_name = "DURATION", default_value = Times::SUSPECT, value_parser = duration)]
    pub suspect: Duration,

    /// A candidate that does not lead by then starts over; lease and suspicion together, or more
    #[arg(long, value_name = "DURATION", default_value = Times::ELECTION, value_parser = duration)]
    pub election: Duration,
}

impl Times {
    const LEASE: &str = "40ms";
    const HEARTBEAT: &str = "4ms";
    const SUSPECT: &str = "30ms";
    const ELECTION: &str = "1s";

    /// The times of a group whose file states no other.
    pub fn usual() -> Times {
        let time = |text| duration(text).expect("a duration");
        Times {
            lease: time(Times::LEASE),
            heartbeat: time(Times::HEARTBEAT),
            suspect: time(Times::SUSPECT),
            election: time(Times::ELECTION),
        }
    }

    /// Turns them into the times that a group keeps.
    pub fn timing(&self) -> Timing {
        // Longer than 584 years is as good as 584 years.
        let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Timing {
            heartbeat: nanos(self.heartbeat),
            suspect: nanos(self.suspect),
            promise: nanos(self.lease),
            election: nanos(self.election),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    #[test]
    fn the_usual_times_are_those_of_no_flags() {
        let matches = Times::augment_args(clap::Command::new("times")).get_matches_from(["times"]);
        let times = Times::from_arg_matches(&matches).expect("no flag is wanted");
        assert_eq!(times, Times::usual());
        times.timing().check().expect("they go together");
    }
}
