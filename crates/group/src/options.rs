//! What a node must know to be a replica of a group.

use std::sync::Arc;

use longarm_base::NodeId;
use longarm_engine::CreateEngineError;
use longarm_fabric::{Address, Member, RegionFailure, SetupError};
use longarm_replica::{Group, Timing};

use crate::vote_store::VoteStore;

/// A group, as one of its replicas is told of it. All replicas are told the same, but for `node`.
#[derive(Clone)]
pub struct GroupOptions {
    /// Names the group: nodes of two groups never mix.
    pub id: u64,
    /// This replica.
    pub node: NodeId,
    /// All replicas that the group begins with. What a replica was told since goes over it.
    pub members: Vec<Member>,
    /// This replica is not one of them yet: it is to be added.
    pub joins: bool,
    /// Who is to lead first: of a group that never was, the others wait a while for it to stand. A wish, on
    /// which nothing rests.
    pub first: Option<NodeId>,
    /// Heartbeats, promises, elections.
    pub timing: Timing,
    /// Key of the checksums of the group's entries; secret to those who are not clients.
    pub sum_key: u64,
    /// Key of the hash that places keys.
    pub hash_key: u64,
    /// Keeps what this replica promised.
    pub vote_store: Arc<dyn VoteStore>,
}

impl GroupOptions {
    /// Who this replica is, if the options make sense.
    pub fn check(&self) -> Result<NodeId, StartError> {
        let wrong = |text: String| StartError::Option { what: "group", text };
        self.timing.check().map_err(|text| wrong(text.into()))?;
        if self.joins {
            return Ok(self.node);
        }
        let nodes: Vec<_> = self.members.iter().map(|member| member.node).collect();
        Group::new(self.node, &nodes).map(|group| group.me()).map_err(|error| wrong(error.to_string()))
    }

    /// Where a replica is.
    pub(crate) fn address_of(&self, node: NodeId) -> Option<&Address> {
        self.members.iter().find(|member| member.node == node).map(|member| &member.address)
    }
}

impl std::fmt::Debug for GroupOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupOptions")
            .field("id", &self.id)
            .field("node", &self.node)
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
        /// Which.
        what: &'static str,
        /// What is wrong and what is possible.
        text: String,
    },
    /// It could not listen.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
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
        /// Items expected.
        expected: u64,
        /// The limit.
        memory: u64,
    },
    /// The arena could not be laid out.
    #[error("cannot lay out the arena: {0}")]
    Arena(#[from] longarm_store::CreateStoreError),
    /// The directory of plain files cannot be used.
    #[error("arena directory {dir}: {text}")]
    Directory {
        /// Which.
        dir: String,
        /// What is wrong and what to do.
        text: String,
    },
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
