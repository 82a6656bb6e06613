//! What a replica of a group is made of, before it has a thread.

use std::sync::Arc;

use longarm_fabric::{Login, PeerRole};
use longarm_memory::Region;

use crate::common::{CoreOptions, Lent};
use crate::options::GroupOptions;

/// What a replica of a group is made of.
pub struct Seed {
    /// What its core is to be; each line of the log says which group, if a node has several.
    pub options: CoreOptions,
    /// The group, as this replica is told of it.
    pub group: GroupOptions,
    /// Its memory.
    pub lent: Arc<Lent>,
    /// The page that its leader WRITEs.
    pub page: Arc<Region>,
    /// What it proves to other replicas.
    pub login: Login,
    /// What other replicas, and operators, must have proved to be at least.
    pub role: PeerRole,
}
