//! Stopping, in an order that leaves no client in doubt without need:
//! (1) nobody is let in; (2) workers execute what had arrived, and answer later requests with Closing; (3)
//! the control page says goodbye and heartbeats end; (4) workers send what they owe and close their
//! connections.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::Channel;
use longarm_host::{Pause, Thread};
use longarm_index::control::ServerState;

use crate::shared::Phase;
use crate::start::Server;

/// Between two looks at whether the workers have drained.
const LOOK: Duration = Duration::from_millis(1);
/// Time for the last answers where the drain took all there was.
const LAST_WORD: Nanos = Nanos::from_millis(100);

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

/// A server's threads, and what wakes them.
#[derive(Default)]
pub(crate) struct Threads {
    pub workers: Vec<Thread>,
    pub channels: Vec<Channel>,
    pub acceptors: Vec<Thread>,
    pub keeper: Option<Thread>,
    pub heart: Option<Thread>,
    pub heart_pause: Arc<Pause>,
    pub accept_pause: Arc<Pause>,
}

impl Server {
    pub(crate) fn shutdown(&mut self, drain: Duration) -> StopReport {
        let shared = &self.shared;
        let clients = shared.clients().len();
        let deadline = shared.moment().now + Nanos(drain.as_nanos() as u64);
        self.enter(Phase::Draining, deadline);
        self.threads.accept_pause.stop();
        let mut panicked = join(self.threads.acceptors.drain(..));
        let pulses = &self.shared.pulses[..self.threads.workers.len()];
        let bed = Pause::default();
        while !pulses.iter().all(|pulse| pulse.is_drained()) && self.shared.moment().now < deadline {
            bed.sleep(LOOK);
        }
        let drained = pulses.iter().all(|pulse| pulse.is_drained());
        // Nothing is executed any more, or we give up on it: from here on memory and heartbeat tell nothing
        // new.
        self.threads.heart_pause.stop();
        panicked += join(self.threads.heart.take());
        self.shared.control.set_state(ServerState::Closed);
        self.enter(Phase::Closing, deadline.max(self.shared.moment().now + LAST_WORD));
        panicked += join(self.threads.workers.drain(..));
        self.shared.engine.relief.stop();
        panicked += join(self.threads.keeper.take());
        StopReport { clients, drained, panicked }
    }

    fn enter(&self, phase: Phase, deadline: Nanos) {
        self.shared.enter(phase, deadline);
        self.threads.channels.iter().for_each(Channel::notify);
    }

    fn is_running(&self) -> bool {
        let threads = &self.threads;
        !threads.workers.is_empty() || threads.keeper.is_some() || threads.heart.is_some()
    }
}

fn join(threads: impl IntoIterator<Item = Thread>) -> usize {
    threads.into_iter().map(|thread| usize::from(thread.join().is_err())).sum()
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_running() {
            self.shutdown(Duration::from_millis(100));
        }
    }
}
