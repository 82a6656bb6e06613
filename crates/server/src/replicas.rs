//! The replicas of a node, one a group; or the only replica of a server alone (decision 33). Each has its
//! own memory, threads, promises and term. They share only listeners and process.

use std::sync::Arc;

use longarm_base::Nanos;
use longarm_fabric::{Address, Grant, Transport};
use longarm_group::{GroupOptions, Prepared, Replica, Seed, StartError};

use crate::endpoint::GroupEndpoint;
use crate::options::ServerOptions;
use crate::ordered::{PreparedIndex, RunningIndex};
use crate::regions::{self, lend};
use crate::stats::Stats;
use crate::term::Terms;

/// The statistics of a replica, which differ from term to term.
pub(crate) type StatsSource = Box<dyn Fn() -> Stats + Send + Sync>;

/// Has a replica that leads execute the requests that have arrived; whether all were by this time.
pub(crate) type Drain = Box<dyn Fn(Nanos) -> bool + Send + Sync>;

/// What a server does with its replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReplicasOf {
    /// They are those of a node.
    Node,
    /// The only one is a server of its own, whose group nobody knows of.
    ServerAlone,
}

/// A running replica.
pub(crate) struct RunningReplica {
    pub replica: Replica,
    pub index: Option<RunningIndex>,
    pub stats: StatsSource,
    /// Of a server alone, which has nobody to hand over to.
    pub drain: Option<Drain>,
    /// The state of its threads, while it leads.
    #[cfg(test)]
    pub shared: Box<dyn Fn() -> Option<Arc<crate::shared::Shared>> + Send + Sync>,
}

/// A replica's memory and endpoint, before it runs.
pub(crate) struct PreparedReplica<T: Transport> {
    options: ServerOptions,
    prepared: Prepared<T>,
    endpoint: Arc<GroupEndpoint<T::Qp>>,
    index: Option<PreparedIndex<T::Qp>>,
    grants: Vec<Grant>,
}

impl<T: Transport> PreparedReplica<T> {
    /// Prepares the replica of one of the groups of `options`, with its share of memory.
    pub fn new(
        options: &ServerOptions,
        group: &GroupOptions,
        of: ReplicasOf,
    ) -> Result<PreparedReplica<T>, StartError> {
        let several = options.groups.len() > 1;
        let (mut options, group) = (options.of_group(group), group.clone());
        if several {
            options.log = options.log.after(format!("group {:016x}: ", group.id));
        }
        let lent = Arc::new(regions::create_of_replica(&options)?);
        let page = regions::create_page(&options)?;
        let index = options.ordered.then(|| PreparedIndex::new(&options, &lent, &page)).transpose()?;
        let scans = index.as_ref().map(|index| index.scans.clone());
        let tree = scans.as_ref().map(|scans| scans.grant());
        let grants = lend(&lent).into_iter().chain(tree).collect();
        let seed = Seed {
            options: options.core(),
            group,
            lent,
            page,
            login: options.peer_login(),
            role: options.peer_role(),
        };
        let prepared = Prepared::new(seed)?;
        let inbound = (of == ReplicasOf::Node).then(|| prepared.inbound());
        let endpoint = Arc::new(GroupEndpoint::new(inbound, scans));
        Ok(PreparedReplica { options, prepared, endpoint, index, grants })
    }

    /// The regions that it lends to clients, and to the leader of a term. No leader writes the memory of a
    /// server alone.
    pub fn grants(&self) -> Vec<Grant> {
        let to_leader = self.endpoint.inbound.as_ref().map(|_| self.prepared.grants());
        [self.grants.clone(), to_leader.unwrap_or_default()].concat()
    }

    /// The endpoint for connections that ask for its group.
    pub fn endpoint(&self) -> Arc<GroupEndpoint<T::Qp>> {
        self.endpoint.clone()
    }

    /// Starts the replica of a server that listens at these addresses.
    pub fn start(self, transport: Arc<T>, addresses: &[Address]) -> Result<RunningReplica, StartError> {
        let PreparedReplica { mut options, prepared, endpoint, index, .. } = self;
        options.addresses = addresses.to_vec();
        let ordered = index.as_ref().map(PreparedIndex::stats);
        let terms = Terms { options, endpoint: endpoint.clone(), ordered: ordered.clone(), term: None };
        let orders = index.as_ref().map(|index| index.orders.clone());
        let replica = prepared.start(transport, Box::new(terms), orders)?;
        let index = index.map(PreparedIndex::start).transpose()?;
        let stands = replica.stands.clone();
        let alone = endpoint.inbound.is_none();
        #[cfg(test)]
        let shared = {
            let endpoint = endpoint.clone();
            Box::new(move || endpoint.serving().map(|serving| serving.shared))
        };
        let served = endpoint.clone();
        let stats = Box::new(move || {
            let stats = served.serving().map_or_else(Stats::default, |serving| serving.shared.stats());
            let ordered = ordered.as_ref().map(|ordered| (*ordered.lock()).into());
            Stats { group: (!alone).then(|| stands()), ordered, ..stats }
        });
        let drain = move |deadline| endpoint.serving().is_none_or(|serving| serving.drain(deadline));
        let drain = alone.then(|| Box::new(drain) as Drain);
        Ok(RunningReplica {
            replica,
            index,
            stats,
            drain,
            #[cfg(test)]
            shared,
        })
    }
}
