//! The options by which a node has a replica of a group.

use std::sync::Arc;

use longarm_base::{Nanos, ReplicaId};
use longarm_disk::DiskError;
use longarm_engine::{CreateEngineError, ReopenEngineError};
use longarm_fabric::{Address, Member, RegionFailure, SetupError};
use longarm_replica::{Group, Timing};

use crate::durable::options::{Durability, Durable};
use crate::vote_store::VoteStore;

/// For how many election times the replicas of a new group let the one stand that is to lead it first.
const FIRST_WAITS: u64 = 2;

/// A group, as one of its replicas is told of it. All replicas of the group are told the same, except for
/// `replica`.
#[derive(Clone)]
pub struct GroupOptions {
    /// The number of the group. Replicas of two groups never mix.
    pub id: u64,
    /// This replica.
    pub replica: ReplicaId,
    /// All replicas that the group begins with. The members that a replica was told of since go over these.
    pub members: Vec<Member>,
    /// Whether this replica is to be added, and is not one of the members yet.
    pub joins: bool,
    /// The replica that is to lead first: in a new group the others wait a while for it to stand. This is a
    /// wish, on which nothing rests.
    pub first: Option<ReplicaId>,
    /// The times of heartbeats, promises and elections.
    pub timing: Timing,
    /// The key of the checksums of the group's entries. Only clients and replicas may know it.
    pub sum_key: u64,
    /// The key of the hash that places keys.
    pub hash_key: u64,
    /// Keeps what this replica promised.
    pub vote_store: Arc<dyn VoteStore>,
    /// The disk of its arena, if it has one. All replicas of a group have one, with the same durability, or
    /// none has.
    pub durable: Option<Durable>,
    /// Into how many parts a node divides its memory, of which this replica has one, if the node has no more
    /// groups than that. It is the same for all replicas of the group, so that these are of one size.
    pub memory_parts: usize,
}

impl GroupOptions {
    /// This replica's id, if the options make sense.
    pub fn check(&self) -> Result<ReplicaId, StartError> {
        let wrong = |text: String| StartError::Option { what: "group", text };
        self.timing.check().map_err(|text| wrong(text.into()))?;
        if self.joins {
            return Ok(self.replica);
        }
        let replicas: Vec<_> = self.members.iter().map(|member| member.replica).collect();
        Group::new(self.replica, &replicas).map(|group| group.me()).map_err(|error| wrong(error.to_string()))
    }

    /// Whether the group elects from disks if most memory is lost: what is acknowledged may be on no disk.
    pub(crate) fn elects_from_disks(&self) -> bool {
        let durability = self.durable.as_ref().map(|durable| durable.durability);
        matches!(durability, Some(Durability::Async { .. }))
    }

    /// How long the replica lets another stand first. Only the replicas of a new group wait: later, one
    /// leader is as good as another.
    pub(crate) fn first_rest(&self) -> Nanos {
        match self.first {
            Some(first) if first != self.replica => Nanos(FIRST_WAITS * self.timing.election.0),
            _ => Nanos(0),
        }
    }

    /// The address of a replica that the group began with.
    pub(crate) fn address_of(&self, replica: ReplicaId) -> Option<&Address> {
        self.members.iter().find(|member| member.replica == replica).map(|member| &member.address)
    }
}

impl std::fmt::Debug for GroupOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupOptions")
            .field("id", &self.id)
            .field("replica", &self.replica)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

/// Why a server could not start. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option makes no sense.
    #[error("option {what}: {text}")]
    Option {
        /// The option.
        what: &'static str,
        /// What is wrong with it, and what is possible.
        text: String,
    },
    /// The server could not listen.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: SetupError,
    },
    /// Memory could not be had.
    #[error("cannot have the memory: {0}; lower `memory`, or change `hugepages`")]
    Region(#[from] RegionFailure),
    /// The index does not fit the limit.
    #[error(
        "an index for {expected} items does not fit a memory limit of {memory} bytes: \
         raise `memory` or expect fewer items"
    )]
    Index {
        /// The number of items expected.
        expected: u64,
        /// The limit.
        memory: u64,
    },
    /// The arena could not be laid out.
    #[error("cannot lay out the arena: {0}")]
    Arena(#[from] longarm_store::CreateStoreError),
    /// The server does not come to serve, though it has nobody to wait for.
    #[error("the server has its memory and does not come to serve: its log says why")]
    NotServing,
    /// A directory for files cannot be used.
    #[error("directory {dir}: {text}")]
    Directory {
        /// The directory.
        dir: String,
        /// What is wrong with it, and what to do.
        text: String,
    },
    /// The memory of an earlier life cannot be gone on from.
    #[error(
        "{dir} is of no use: {error}; put back a copy of the directory, or name an empty one to begin \
         without data"
    )]
    Reopen {
        /// The directory.
        dir: String,
        /// What is wrong with it.
        error: ReopenEngineError,
    },
    /// The file of the arena cannot be used.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// The system refused something.
    #[error("{0}: {1}")]
    Os(&'static str, std::io::Error),
}

impl From<longarm_memory::RegionError> for StartError {
    fn from(error: longarm_memory::RegionError) -> StartError {
        StartError::Region(RegionFailure(error))
    }
}

impl From<CreateEngineError> for StartError {
    fn from(error: CreateEngineError) -> StartError {
        match error {
            CreateEngineError::Index { expected, memory } => StartError::Index { expected, memory },
            CreateEngineError::Arena(error) => StartError::Arena(error),
        }
    }
}
