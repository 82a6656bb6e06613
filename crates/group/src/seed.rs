//! What the server hands in to make a replica of a group.

use std::sync::Arc;

use longarm_fabric::{Login, PeerRole};
use longarm_memory::Region;

use crate::common::{CoreOptions, Lent};
use crate::options::GroupOptions;

/// What a replica of a group is made of.
pub struct Seed {
    /// The options of its core. If the node has several replicas, the log names the group in each line.
    pub options: CoreOptions,
    /// The group, as this replica is told of it.
    pub group: GroupOptions,
    /// The memory of the replica, which clients READ while it leads.
    pub lent: Arc<Lent>,
    /// The page to which its leader WRITEs heartbeats.
    pub page: Arc<Region>,
    /// What the replica proves to other replicas.
    pub login: Login,
    /// The least role that other replicas, and operators, must have proved.
    pub role: PeerRole,
}
