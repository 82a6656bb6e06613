//! What a replica tells its orderer, and the mailbox for it.

use std::collections::VecDeque;
use std::sync::Arc;

use longarm_base::{Csn, Term};
use longarm_fabric::Channel;
use longarm_host::Mutex;
use longarm_memory::Mapped;

use crate::leader::Connector;

/// Tells the stable point of a replica that leads.
pub type StableOf = Arc<dyn Fn() -> Csn + Send + Sync>;

/// What becomes of the memory of a replica that a leader is about to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It counts in the term that was followed, and goes on.
    Term,
    /// It is the start of the next term: the streams of `base` up to these cuts.
    Base {
        /// The term that was followed.
        base: Term,
        /// By stream, the first position that is not in the next term's start set.
        cuts: Vec<u64>,
    },
    /// It is overwritten.
    Nothing,
}

/// What a replica tells its orderer. Terms only grow.
pub enum Order<Q> {
    /// A leader is about to write the memory.
    Prepare {
        /// What becomes of what is there.
        kept: Kept,
    },
    /// The memory holds the start set of a term, and its leader writes on.
    Follow {
        /// The term.
        term: Term,
        /// Its streams.
        streams: usize,
        /// Makes a connection to its leader's words.
        connect: Connector<Q>,
    },
    /// The replica itself leads, in this term.
    Lead {
        /// The term.
        term: Term,
        /// Its streams.
        streams: usize,
        /// The words of its streams.
        progress: Mapped,
        /// Its stable point.
        stable: StableOf,
        /// Whether it has followers, who answer scans as a rule.
        followed: bool,
    },
    /// The replica leads no more, or is lost: nothing is known of any leader.
    Rest,
    /// The replica ends.
    Stop,
}

/// Where orders wait for the orderer.
pub struct Orders<Q> {
    waiting: Mutex<VecDeque<Order<Q>>>,
    channel: Channel,
}

impl<Q> Orders<Q> {
    /// An empty mailbox; the orderer sleeps on the channel.
    pub fn new(channel: Channel) -> Orders<Q> {
        Orders { waiting: Mutex::default(), channel }
    }

    /// Gives an order.
    pub fn give(&self, order: Order<Q>) {
        self.waiting.lock().push_back(order);
        self.channel.notify();
    }

    /// The next order.
    pub(crate) fn take(&self) -> Option<Order<Q>> {
        self.waiting.lock().pop_front()
    }

    /// Where the orderer sleeps.
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }
}
