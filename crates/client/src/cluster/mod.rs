//! A client of a whole cluster: a connection to the leader of each group, made when it is first needed.
//!
//! An operation on a key is that of the [`Client`] of the key's group ([`Topology`]); `one_key` has them all.
//! Operations on several groups at once are in `multi_get`, `pipeline` and `scan`. Groups know nothing of
//! each other: there is an order of writes within each group, and none across groups. If a group has no
//! leader, operations on its keys wait, for their own timeout, and others continue.

mod multi_get;
mod one_key;
mod pipeline;
mod scan;

pub use scan::{ClusterScan, ClusterSnapshot};

use longarm_fabric::{Any, Transport};

use crate::client::{Client, add};
use crate::error::Error;
use crate::link::ClientCounters;
use crate::options::Options;
use crate::topology::Topology;

/// Connections to the groups of a cluster, for one thread. With one group, or one server, it is as quick as a
/// [`Client`].
pub struct ClusterClient<T: Transport + Clone = Any> {
    transport: T,
    topology: Topology,
    options: Options,
    /// The clients by number of the group; `None` if none was needed yet.
    clients: Vec<Option<Client<T>>>,
    /// The group whose outcomes are looked at first.
    next: usize,
}

impl ClusterClient<Any> {
    /// A client of a cluster, over the transports that its addresses name. It connects when it must.
    pub fn new(topology: Topology, options: Options) -> ClusterClient<Any> {
        ClusterClient::over(Any::default(), topology, options)
    }
}

impl<T: Transport + Clone> ClusterClient<T> {
    /// A client of a cluster, over a transport with settings of its own.
    pub fn over(transport: T, topology: Topology, options: Options) -> ClusterClient<T> {
        let clients = topology.groups().iter().map(|_| None).collect();
        ClusterClient { transport, topology, options, clients, next: 0 }
    }

    /// The groups, and their keys.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The client of a group, by number; it is connected if it was not.
    ///
    /// # Panics
    /// If there is no such group.
    #[inline]
    pub fn group(&mut self, number: usize) -> Result<&mut Client<T>, Error> {
        if self.clients[number].is_none() {
            self.connect(number)?;
        }
        Ok(self.clients[number].as_mut().expect("just connected"))
    }

    /// The client of the group that has a key.
    #[inline]
    pub fn group_of(&mut self, key: &[u8]) -> Result<&mut Client<T>, Error> {
        self.group(self.topology.group_of(key))
    }

    #[cold]
    fn connect(&mut self, number: usize) -> Result<(), Error> {
        let group = &self.topology.groups()[number];
        let options = Options { group: group.id, ..self.options.clone() };
        let client = Client::connect_group_over(self.transport.clone(), &group.addresses, options)?;
        self.clients[number] = Some(client);
        Ok(())
    }

    /// Clients of the groups that were needed so far.
    fn open(&self) -> impl Iterator<Item = &Client<T>> {
        self.clients.iter().flatten()
    }

    /// Sends what was submitted.
    pub(crate) fn ring(&mut self) {
        self.clients.iter_mut().flatten().for_each(Client::go_on);
    }

    /// The counters of all connections so far.
    pub fn counters(&self) -> ClientCounters {
        self.open().map(Client::counters).fold(ClientCounters::default(), add)
    }

    /// The transports really in use and their peers.
    pub fn describe(&self) -> String {
        let open: Vec<String> = self.open().map(Client::describe).collect();
        if open.is_empty() { "not connected".into() } else { open.join("; ") }
    }
}
