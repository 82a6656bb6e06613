//! What a replica has others do while it leads: serve clients. The server has the workers and doors for that
//! (`longarm-server`), and hands them in.

use std::sync::Arc;

use longarm_host::Mutex;
use longarm_memory::Mapped;

use crate::common::Core;
use crate::follower::SharedReleases;
use crate::leader_term::Waker;
use crate::options::StartError;
use crate::replicate::Replicator;
use crate::standing::Standing;

/// Serves clients in the terms that a replica leads, one after the other.
pub trait Service<Q>: Send {
    /// Begins the threads of a term: a worker for each stream but the last, which is the maintenance
    /// thread's. Clients are not let in yet. What wakes the writer of each stream, by stream.
    fn begin(&mut self, term: NewTerm<Q>) -> Result<Vec<Waker>, StartError>;
    /// Clients are let in.
    fn open(&mut self);
    /// Clients are not let in any more; those that are connected still are.
    fn close(&mut self);
    /// The threads end, and with them all connections. Nothing happens if none run.
    fn end(&mut self);
}

/// How the entries of a term come to the followers.
pub struct Replication<Q> {
    /// By stream.
    pub streams: Vec<Replicator<Q, Mapped>>,
    /// Which segments followers are asked to let go of.
    pub releases: Arc<SharedReleases>,
}

/// What the threads of a term serve from.
pub struct NewTerm<Q> {
    /// The engine over the start set, and what they share.
    pub core: Arc<Core>,
    /// How its entries come to the followers.
    pub replication: Replication<Q>,
    /// What the replica says of itself.
    pub standing: Arc<Mutex<Standing>>,
}
