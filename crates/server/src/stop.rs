//! Stopping, in an order that leaves no client in doubt without need:
//! (1) replicas that lead and have others hand over, within a bound; listeners stay open, as there the next
//!     leader announces itself and clients ask for it; (2) no more connections are admitted; (3) workers
//!     execute requests that had arrived, and answer later ones with Closing; (4) the control page says
//!     goodbye and heartbeats end; (5) workers send the answers that they owe and close their connections.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_host::{now, sleep};

use crate::ordered::RunningIndex;
use crate::start::{Body, Server};
use longarm_group::{Replica, join};

/// The time for the last answers if the drain took all there was.
const LAST_WORD: Nanos = Nanos::from_millis(100);

/// The time between two checks that replicas have handed over.
const LOOK: Duration = Duration::from_millis(1);

/// The result of a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StopReport {
    /// Clients that were connected when it began.
    pub clients: usize,
    /// Whether every request that had arrived was executed within the time.
    pub drained: bool,
    /// Threads that had panicked: a broken invariant of Longarm, reported where it happened.
    pub panicked: usize,
}

impl Server {
    /// Stops in good order. Replicas that lead hand over, for which they have an election's time. No more
    /// connections are admitted, requests that have arrived are executed and answered, clients are told,
    /// connections and sockets go. That takes at most about `drain`.
    pub fn stop(mut self, drain: Duration) -> StopReport {
        self.leave();
        self.shutdown(drain)
    }

    /// Has other nodes lead the groups that this node leads, as far as they can.
    pub(crate) fn leave(&self) {
        let Body::Replicas(replicas) = &self.body else { return };
        let those = || replicas.iter().filter(|replica| replica.drain.is_none()).map(|it| &it.replica);
        those().for_each(Replica::leave);
        let until = now() + those().map(|replica| replica.patience).max().unwrap_or_default();
        while now() < until && !those().all(Replica::has_left) {
            sleep(LOOK);
        }
    }

    pub(crate) fn shutdown(&mut self, drain: Duration) -> StopReport {
        if let Some(close) = self.listeners.close.take() {
            close();
        }
        self.listeners.pause.stop();
        match &mut self.body {
            Body::Alone { shared, threads, heart, heart_pause } => {
                let clients = shared.clients().len();
                let deadline = now() + Nanos(drain.as_nanos() as u64);
                let mut panicked = join(self.listeners.threads.drain(..));
                let drained = threads.drain(deadline);
                // Requests are executed no longer, or the drain is given up: from here on memory and
                // heartbeat tell nothing new.
                heart_pause.stop();
                panicked += join(heart.take());
                panicked += threads.end(deadline.max(now() + LAST_WORD));
                if panicked == 0 {
                    shared.core.end_life();
                }
                StopReport { clients, drained, panicked }
            }
            Body::Replicas(replicas) => {
                let mut panicked = join(self.listeners.threads.drain(..));
                let alone = replicas.iter().filter_map(|replica| Some((replica, replica.drain.as_ref()?)));
                let deadline = now() + Nanos(drain.as_nanos() as u64);
                let (mut clients, mut drained) = (0, true);
                for (replica, drain) in alone {
                    clients += (replica.stats)().clients.len();
                    drained &= drain(deadline);
                }
                replicas.iter().for_each(|replica| replica.replica.stop());
                panicked += replicas.iter_mut().map(|replica| replica.replica.join()).sum::<usize>();
                let indexes = replicas.iter_mut().filter_map(|replica| replica.index.as_mut());
                panicked += indexes.map(RunningIndex::end).sum::<usize>();
                StopReport { clients, drained, panicked }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.listeners.close.is_some() {
            self.shutdown(Duration::from_millis(100));
        }
    }
}
