//! Stopping, in an order that leaves no client in doubt without need:
//! (1) replicas that lead hand over, within a bound; listeners are open, as the next leader is heard of and
//! asked for there; (2) nobody is let in; (3) workers execute what had arrived, and answer later requests
//! with Closing; (4) the control page says goodbye and heartbeats end; (5) workers send what they owe and
//! close their connections.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_host::{now, sleep};

use crate::start::{Body, Server};
use longarm_group::join;

/// Time for the last answers where the drain took all there was.
const LAST_WORD: Nanos = Nanos::from_millis(100);

/// Between two looks at whether replicas have handed over.
const LOOK: Duration = Duration::from_millis(1);

/// How a stop went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StopReport {
    /// Clients that were connected when it began.
    pub clients: usize,
    /// Everything that had arrived was executed within the time.
    pub drained: bool,
    /// Threads that had panicked: a broken invariant of ours, reported where it happened.
    pub panicked: usize,
}

impl Server {
    /// Stops in good order: replicas that lead hand over, for which they have an election's time; nobody is
    /// let in any more, what has arrived is executed and answered, clients are told, connections and sockets
    /// go. That takes at most about `drain`.
    pub fn stop(mut self, drain: Duration) -> StopReport {
        self.leave();
        self.shutdown(drain)
    }

    /// Has others lead the groups that are led here, as far as they can.
    pub(crate) fn leave(&self) {
        let Body::Replicas(replicas) = &self.body else { return };
        replicas.iter().for_each(|replica| replica.replica.leave());
        let patience = replicas.iter().map(|replica| replica.replica.patience).max().unwrap_or_default();
        let until = now() + patience;
        while now() < until && !replicas.iter().all(|replica| replica.replica.has_left()) {
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
                let deadline = shared.core.timestamps().now + Nanos(drain.as_nanos() as u64);
                let mut panicked = join(self.listeners.threads.drain(..));
                let drained = threads.drain(deadline);
                // Nothing is executed any more, or we give up on it: from here on memory and heartbeat tell
                // nothing new.
                heart_pause.stop();
                panicked += join(heart.take());
                panicked += threads.end(deadline.max(shared.core.timestamps().now + LAST_WORD));
                StopReport { clients, drained, panicked }
            }
            Body::Replicas(replicas) => {
                let mut panicked = join(self.listeners.threads.drain(..));
                replicas.iter().for_each(|replica| replica.replica.stop());
                panicked += replicas.iter_mut().map(|replica| replica.replica.join()).sum::<usize>();
                StopReport { clients: 0, drained: true, panicked }
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
