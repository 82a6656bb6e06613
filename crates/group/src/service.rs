//! The service for clients: a replica begins it when it comes to lead, and ends it when it leads no more. The
//! server (`longarm-server`) has the workers and listeners for that, and hands the service in.

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
    /// thread's. Lets no client in yet. Returns what wakes the writer of each stream, by stream.
    fn begin(&mut self, term: NewTerm<Q>) -> Result<Vec<Waker>, StartError>;
    /// Lets clients in.
    fn open(&mut self);
    /// Lets no further client in. Clients that are connected stay so.
    fn close(&mut self);
    /// Ends the threads, and with them all connections. Does nothing if no threads run.
    fn end(&mut self);
}

/// What brings the entries of a term to the followers.
pub struct Replication<Q> {
    /// The replicators, by stream.
    pub streams: Vec<Replicator<Q, Mapped>>,
    /// The segments that followers are asked to release.
    pub releases: Arc<SharedReleases>,
}

/// What the threads of a term serve from.
pub struct NewTerm<Q> {
    /// The engine over the start set, and what the threads share.
    pub core: Arc<Core>,
    /// What brings the term's entries to the followers.
    pub replication: Replication<Q>,
    /// What the replica says of itself.
    pub standing: Arc<Mutex<Standing>>,
}
