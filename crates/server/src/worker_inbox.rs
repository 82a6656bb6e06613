//! The new connections that acceptors give a worker, until the worker takes no more.

use std::sync::Arc;

use longarm_fabric::Channel;
use longarm_group::{Inbox, Pulse};

use crate::connection::Connection;
use crate::steer::Whereabouts;

/// A worker's new connections, its waker, and the state that it publishes.
pub(crate) struct WorkerInbox<Q> {
    pub connections: Inbox<Connection<Q>>,
    pub channel: Channel,
    pub pulse: Arc<Pulse>,
    /// What other workers see of this one.
    pub whereabouts: Whereabouts,
}

impl<Q> WorkerInbox<Q> {
    pub fn new(channel: Channel, pulse: Arc<Pulse>) -> WorkerInbox<Q> {
        WorkerInbox { connections: Inbox::default(), channel, pulse, whereabouts: Whereabouts::default() }
    }

    /// Gives the worker a connection. Who chose the worker has counted its load.
    pub fn put(&self, connection: Connection<Q>) {
        self.connections.put(connection);
        self.channel.notify();
    }

    /// Closes the inbox: the connections that wait here, and all that come later, end.
    pub fn close(&self) {
        self.connections.close();
    }
}
