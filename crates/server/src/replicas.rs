//! The replicas of a node, one a group. Each has its own memory, threads, promises and term. They share only
//! listeners and process.

use std::sync::Arc;

use longarm_fabric::{Grant, Transport};
use longarm_group::{GroupOptions, Prepared, Replica, Seed, StartError};

use crate::endpoint::GroupEndpoint;
use crate::options::ServerOptions;
use crate::ordered::{PreparedIndex, RunningIndex};
use crate::regions::{self, lend};
use crate::stats::Stats;
use crate::term::Terms;

/// The statistics of a replica, which differ from term to term.
pub(crate) type StatsSource = Box<dyn Fn() -> Stats + Send + Sync>;

/// A running replica.
pub(crate) struct RunningReplica {
    pub replica: Replica,
    pub index: Option<RunningIndex>,
    pub stats: StatsSource,
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
    pub fn new(options: &ServerOptions, group: &GroupOptions) -> Result<PreparedReplica<T>, StartError> {
        let several = options.groups.len() > 1;
        let (mut options, group) = (options.of_group(group), group.clone());
        if several {
            options.log = options.log.after(format!("group {:016x}: ", group.id));
        }
        let lent = Arc::new(regions::create_of_replica(&options, group.sum_key)?);
        let page = regions::create_page(&options)?;
        let grants = lend(&lent);
        let index = options.ordered.then(|| PreparedIndex::new(&options, &lent, &page)).transpose()?;
        let scans = index.as_ref().map(|index| index.scans.clone());
        let seed = Seed {
            options: options.core(),
            group,
            lent,
            page,
            login: options.peer_login(),
            role: options.peer_role(),
        };
        let prepared = Prepared::new(seed)?;
        let endpoint = Arc::new(GroupEndpoint::new(Some(prepared.inbound()), scans));
        Ok(PreparedReplica { options, prepared, endpoint, index, grants })
    }

    /// The regions that it lends to clients, and to the leader of a term.
    pub fn grants(&self) -> Vec<Grant> {
        [self.grants.clone(), self.prepared.grants()].concat()
    }

    /// The endpoint for connections that ask for its group.
    pub fn endpoint(&self) -> Arc<GroupEndpoint<T::Qp>> {
        self.endpoint.clone()
    }

    /// Starts the replica.
    pub fn start(self, transport: Arc<T>) -> Result<RunningReplica, StartError> {
        let PreparedReplica { options, prepared, endpoint, index, .. } = self;
        let terms = Terms { options, endpoint: endpoint.clone(), term: None };
        let orders = index.as_ref().map(|index| index.orders.clone());
        let replica = prepared.start(transport, Box::new(terms), orders)?;
        let index = index.map(PreparedIndex::start).transpose()?;
        let stands = replica.stands.clone();
        let ordered = index.as_ref().map(|index: &RunningIndex| index.stats.clone());
        let stats = Box::new(move || {
            let stats = endpoint.serving().map_or_else(Stats::default, |serving| serving.shared.stats());
            let ordered = ordered.as_ref().map(|ordered| (*ordered.lock()).into());
            Stats { group: Some(stands()), ordered, ..stats }
        });
        Ok(RunningReplica { replica, index, stats })
    }
}
