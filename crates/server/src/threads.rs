//! The threads that serve from one engine: workers and the maintenance thread, and how they end.

use std::sync::Arc;

use longarm_base::Nanos;
use longarm_fabric::Channel;
use longarm_host::{Pause, Thread, now};
use longarm_index::control::ServerState;

use crate::shared::Shared;
use longarm_group::StartError;
use longarm_group::{Core, Phase};
use longarm_group::{join, spawn};

/// The time between two checks that the workers have drained.
const LOOK: std::time::Duration = std::time::Duration::from_millis(1);

/// Waits until the workers, which were told to drain, have executed all that had arrived; whether they have.
pub(crate) fn await_drained(core: &Core, deadline: Nanos) -> bool {
    let drained = || core.pulses.iter().all(|pulse| pulse.is_drained());
    let bed = Pause::default();
    while !drained() && now() < deadline {
        bed.sleep(LOOK);
    }
    drained()
}

/// Workers and maintenance thread of one engine.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    workers: Vec<Thread>,
    channels: Vec<Channel>,
    maintenance: Option<Thread>,
}

impl Threads {
    pub fn new(shared: Arc<Shared>) -> Threads {
        Threads { shared, workers: Vec::new(), channels: Vec::new(), maintenance: None }
    }

    /// Starts the worker of a stream, which sleeps on the channel.
    pub fn add_worker(
        &mut self,
        stream: usize,
        channel: Channel,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), StartError> {
        self.workers.push(spawn(&format!("longarm-work-{stream}"), body)?);
        self.channels.push(channel);
        Ok(())
    }

    /// Starts the maintenance thread.
    pub fn set_maintenance(&mut self, body: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
        self.maintenance = Some(spawn("longarm-keeper", body)?);
        Ok(())
    }

    /// Has requests that have arrived executed, while later ones are told that the server closes. Returns
    /// whether all of them were executed in time.
    pub fn drain(&self, deadline: Nanos) -> bool {
        self.enter(Phase::Draining, deadline);
        await_drained(&self.shared.core, deadline)
    }

    /// Ends the connections, after the answers that are owed if that takes no longer than until `deadline`.
    /// Returns how many threads had panicked.
    pub fn end(&mut self, deadline: Nanos) -> usize {
        self.shared.core.control.set_state(ServerState::Closed);
        self.enter(Phase::Closing, deadline);
        let mut panicked = join(self.workers.drain(..));
        self.shared.core.engine.relief.stop();
        panicked += join(self.maintenance.take());
        panicked
    }

    fn enter(&self, phase: Phase, deadline: Nanos) {
        self.shared.core.enter(phase, deadline);
        self.channels.iter().for_each(Channel::notify);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if !self.workers.is_empty() || self.maintenance.is_some() {
            self.end(Nanos(0));
        }
    }
}
