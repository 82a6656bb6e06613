//! Requests in flight to several groups.
//!
//! Writes submitted to one group are executed in the order in which they were submitted, and their outcomes
//! come in that order, as on any connection. Across groups there is no order, neither of execution nor of
//! outcomes.

use longarm_fabric::Transport;

use super::ClusterClient;
use crate::client::Client;
use crate::error::Error;
use crate::flight::{Reply, RequestId};
use crate::write::Write;

/// A ticket is the operation's number on its connection, and above these bits the group's number.
const OPERATION_BITS: u32 = 56;

fn outer(group: usize, inner: RequestId) -> RequestId {
    RequestId((group as u64) << OPERATION_BITS | inner.0)
}

fn inner(ticket: RequestId) -> (usize, RequestId) {
    ((ticket.0 >> OPERATION_BITS) as usize, RequestId(ticket.0 & ((1 << OPERATION_BITS) - 1)))
}

impl<T: Transport + Clone> ClusterClient<T> {
    /// Sends a write without waiting; its outcome comes from [`poll`](Self::poll) or [`wait`](Self::wait). At
    /// most [`IN_FLIGHT_MAX`](crate::IN_FLIGHT_MAX) may be open to each group, and as many of its outcomes
    /// not fetched: then [`Error::Full`]. If the group has no leader, this waits for one, within the timeout.
    pub fn submit(&mut self, write: &Write<'_>) -> Result<RequestId, Error> {
        let group = self.topology.group_of(write.key);
        self.group(group)?.submit(write).map(|ticket| outer(group, ticket))
    }

    /// The outcome of some request, if one is there. Never blocks.
    pub fn poll(&mut self) -> Option<(RequestId, Result<Reply, Error>)> {
        let count = self.clients.len();
        for _ in 0..count {
            let group = self.next;
            if let Some((ticket, outcome)) = self.clients[group].as_mut().and_then(Client::poll) {
                return Some((outer(group, ticket), outcome));
            }
            // The next group comes only now: outcomes of one group are taken in a row.
            self.next = (group + 1) % count;
        }
        None
    }

    /// Waits for the outcome of one request; others may finish meanwhile and wait for [`poll`](Self::poll).
    pub fn wait(&mut self, ticket: RequestId) -> Result<Reply, Error> {
        let (group, ticket) = inner(ticket);
        let Some((others, rest)) = self.clients.split_at_mut_checked(group) else {
            return Err(Error::Invalid("no such request is open"));
        };
        let Some((Some(client), more)) = rest.split_first_mut() else {
            return Err(Error::Invalid("no such request is open"));
        };
        // The other groups' doorbells ring before this thread sleeps.
        client.wait_while(ticket, || {
            others.iter_mut().chain(&mut *more).flatten().fold(false, |more, client| {
                client.go_on();
                more | (client.in_flight() > 0)
            })
        })
    }

    /// Requests without an answer yet.
    pub fn in_flight(&self) -> usize {
        self.open().map(Client::in_flight).sum()
    }
}
