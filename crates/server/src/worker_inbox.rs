//! What acceptors give a worker: new connections, until the worker takes no more.

use std::sync::Arc;

use longarm_fabric::Channel;
use longarm_group::{Inbox, Pulse};

use crate::connection::Connection;

/// A worker's new connections, what wakes it, and what it says of itself.
pub(crate) struct WorkerInbox<Q> {
    pub connections: Inbox<Connection<Q>>,
    pub channel: Channel,
    pub pulse: Arc<Pulse>,
}

impl<Q> WorkerInbox<Q> {
    pub fn new(channel: Channel, pulse: Arc<Pulse>) -> WorkerInbox<Q> {
        WorkerInbox { connections: Inbox::default(), channel, pulse }
    }

    /// Gives the worker a connection. Its load was counted by whoever chose the worker.
    pub fn put(&self, connection: Connection<Q>) {
        self.connections.put(connection);
        self.channel.notify();
    }

    /// The worker takes no more connections: those that wait here, and all that come, end.
    pub fn close(&self) {
        self.connections.close();
    }
}
