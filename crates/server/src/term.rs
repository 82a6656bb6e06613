//! The threads that serve clients from one core: workers and the maintenance thread, of a server of its own
//! or of a replica in the terms that it leads.

use std::sync::Arc;

use longarm_base::Nanos;
use longarm_fabric::{Channel, QueuePair};
use longarm_group::{NewTerm, Pulse, Replication, Service, StartError, Waker};
use longarm_host::Mutex;
use longarm_ordered::OrderedStats;

use crate::endpoint::{GroupEndpoint, Serving};
use crate::maintenance::Maintenance;
use crate::options::ServerOptions;
use crate::shared::{OfReplica, Shared};
use crate::threads::Threads;
use crate::worker::Worker;
use crate::worker_inbox::WorkerInbox;

/// The threads that were started.
pub(crate) struct Started<Q> {
    pub threads: Threads,
    /// The inbox for new connections, by worker.
    pub inboxes: Vec<Arc<WorkerInbox<Q>>>,
    /// The waker of the writer, by stream.
    pub wakers: Vec<Waker>,
}

/// Starts workers and maintenance thread.
pub(crate) fn start<Q: QueuePair + 'static>(
    shared: &Arc<Shared>,
    replication: Option<Replication<Q>>,
) -> Result<Started<Q>, StartError> {
    let core = &shared.core;
    let mut threads = Threads::new(shared.clone());
    let (mut streams, releases) = match replication {
        Some(Replication { streams, releases }) => (streams.into_iter().map(Some).collect(), Some(releases)),
        None => (Vec::new(), None),
    };
    streams.resize_with(core.pulses.len() + 1, || None);
    let last = streams.pop().flatten().zip(releases);
    let inbox = |pulse: &Arc<Pulse>| {
        let channel = Channel::driving().map_err(|e| StartError::Os("make an event counter", e))?;
        Ok(Arc::new(WorkerInbox::new(channel, pulse.clone())))
    };
    let inboxes = core.pulses.iter().map(inbox).collect::<Result<Vec<_>, StartError>>()?;
    let mut wakers = Vec::new();
    for (stream, (inbox, replicator)) in inboxes.iter().zip(streams).enumerate() {
        let context = core.engine.worker_context(stream as u16);
        let worker = Worker::new(shared.clone(), stream, inboxes.clone(), context, replicator);
        threads.add_worker(stream, inbox.channel.clone(), move || worker.run())?;
        wakers.push(Waker::Worker(inbox.channel.clone()));
    }
    let context = core.engine.worker_context(core.pulses.len() as u16);
    let maintenance = Maintenance::new(shared.clone(), context, last);
    let pause = core.engine.relief.clone();
    threads.set_maintenance(move || maintenance.run(&pause))?;
    wakers.push(Waker::Maintenance(core.engine.relief.clone()));
    Ok(Started { threads, inboxes, wakers })
}

/// The service of clients in the terms that a replica leads, one after the other.
pub(crate) struct Terms<Q> {
    pub options: ServerOptions,
    /// The endpoint of the group's clients.
    pub endpoint: Arc<GroupEndpoint<Q>>,
    /// The figures of the replica's ordered index, if it keeps one.
    pub ordered: Option<Arc<Mutex<OrderedStats>>>,
    /// The workers and threads of the term that it leads now.
    pub term: Option<(Serving<Q>, Threads)>,
}

impl<Q: QueuePair + 'static> Service<Q> for Terms<Q> {
    fn begin(&mut self, term: NewTerm<Q>) -> Result<Vec<Waker>, StartError> {
        let NewTerm { core, replication, standing } = term;
        let standing = self.endpoint.inbound.as_ref().map(|_| standing);
        let releases = Some(replication.releases.clone());
        let replica = OfReplica { standing, ordered: self.ordered.clone(), releases };
        let shared = Arc::new(Shared::new(self.options.clone(), core, replica));
        shared.addresses.set(self.options.addresses.clone()).expect("a term begins once");
        let Started { threads, inboxes, wakers } = start(&shared, Some(replication))?;
        self.term = Some((Serving { shared, inboxes }, threads));
        Ok(wakers)
    }

    fn open(&mut self) {
        self.endpoint.set(self.term.as_ref().map(|(serving, _)| serving.clone()));
    }

    fn close(&mut self) {
        self.endpoint.set(None);
    }

    fn end(&mut self) {
        if let Some((serving, mut threads)) = self.term.take() {
            threads.end(Nanos(0));
            serving.inboxes.iter().for_each(|inbox| inbox.close());
        }
    }
}
