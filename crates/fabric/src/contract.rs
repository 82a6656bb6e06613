//! What a transport promises, in the words of RDMA verbs.
//!
//! A [`QueuePair`] is one end of a reliable connection (RC). The rules, which the conformance suite checks on
//! every transport:
//!
//! 1. `post` neither blocks nor allocates; it copies outgoing bytes, so that callers need not know what is
//!    short enough to go inline (NoSQL landscape 2.4). A full queue answers [`PostError::Full`] and changes
//!    nothing. Nothing needs to move before [`ring`](QueuePair::ring) (the doorbell) is called.
//! 2. Completions come in posting order, exactly one for each signalled request, success or not. A request
//!    posted with [`Ticket::SILENT`] completes only on failure.
//! 3. WRITE, WRITE_WITH_IMM, SEND and atomics of one queue pair take effect in posting order. A READ samples
//!    each aligned word once, each cache line at a moment of its own between post and completion, in any
//!    order: nothing more. Different queue pairs are unordered.
//! 4. An arrival ([`Completion::Arrived`]) means that its bytes, and those of every earlier WRITE of that
//!    queue pair, are visible to the receiver. Nobody polls memory for bytes to come, as HydraDB does (NoSQL
//!    landscape 3.1, 3.8).
//! 5. A request outside a region, to a region that was not granted, or beyond its rights completes with
//!    [`WorkError::Access`] and changes nothing; that queue pair (no other) is then broken at both ends.
//! 6. A broken queue pair completes everything outstanding with [`WorkError::Flushed`]; a WRITE or atomic so
//!    completed may have taken effect or not. Later posts answer [`PostError::Broken`].
//! 7. Remote atomics are atomic among each other, not against CPU stores of the owner.
//! 8. [`revoke`](QueuePair::revoke) returns only when no operation of the peer can take effect any more; so
//!    does [`fence`](QueuePair::fence), of a peer that heeds it. A WRITE that had completed there is visible
//!    then.
//! 9. Every wait has a bound; a dead peer is noticed within [`PEER_DEATH`].

use std::sync::Arc;
use std::time::Duration;

use longarm_base::limits::READ_MAX;
use longarm_base::{Place, RegionId};
use longarm_memory::Region;

use crate::{Channel, SetupError, Told};

/// A queue pair notices the death of its peer's process within this time of the next post, poll or wait.
pub const PEER_DEATH: Duration = Duration::from_secs(2);
/// Longest application payload of the connection handshake, each way.
pub const HELLO_MAX: usize = 4096;
/// Longest body of a SEND.
pub const SEND_MAX: usize = 4096;
/// Longest WRITE or WRITE_WITH_IMM.
pub const WRITE_MAX: usize = 64 << 10;
/// Receive buffers of a queue pair: SENDs that may be unreceived before the sender gets [`PostError::Full`].
pub const RECEIVES: usize = 16;

/// What a peer may do with a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Rights(u8);

impl Rights {
    /// READ.
    pub const READ: Rights = Rights(1);
    /// WRITE and WRITE_WITH_IMM.
    pub const WRITE: Rights = Rights(2);
    /// CAS and FAA.
    pub const ATOMIC: Rights = Rights(4);

    /// Both sets together.
    pub const fn and(self, more: Rights) -> Rights {
        Rights(self.0 | more.0)
    }
    /// Whether everything in `wanted` is granted.
    pub const fn allow(self, wanted: Rights) -> bool {
        self.0 & wanted.0 == wanted.0
    }
    /// Whether the peer can change the region.
    pub const fn can_change(self) -> bool {
        self.0 & (Rights::WRITE.0 | Rights::ATOMIC.0) != 0
    }
    /// The set as bits, for the handshake.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// The set from bits of the handshake; unknown bits are an error.
    pub const fn from_bits(bits: u8) -> Option<Rights> {
        if bits <= 7 { Some(Rights(bits)) } else { None }
    }
}

/// A region lent to one peer.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Name under which the peer addresses it; unique on this connection.
    pub id: RegionId,
    /// The memory.
    pub region: Arc<Region>,
    /// What the peer may do.
    pub rights: Rights,
}

impl Grant {
    /// What the peer is told of it.
    pub fn granted(&self) -> Granted {
        Granted { id: self.id, bytes: self.region.bytes(), rights: self.rights }
    }
}

/// A region that the peer lent to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its name in [`Place`]s.
    pub id: RegionId,
    /// Its size.
    pub bytes: u64,
    /// What we may do.
    pub rights: Rights,
}

/// Names a work request in its completion. The poster chooses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

impl Ticket {
    /// Unsignalled: a success is not reported.
    pub const SILENT: Ticket = Ticket(u64::MAX);
}

/// A work request.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Fetches `from` into the landing buffer at byte `into` (a multiple of 8).
    Read {
        /// The bytes wanted.
        from: Place,
        /// Where they land, in bytes from the start of the landing buffer.
        into: u32,
    },
    /// Stores `bytes` (a multiple of 8 of them) at the place.
    Write {
        /// Region of the peer.
        region: RegionId,
        /// Byte offset, a multiple of 8.
        offset: u64,
        /// What to store.
        bytes: &'a [u8],
    },
    /// A WRITE that also tells the receiver: it gets [`Completion::Arrived`].
    WriteImm {
        /// Region of the peer.
        region: RegionId,
        /// Byte offset, a multiple of 8.
        offset: u64,
        /// What to store.
        bytes: &'a [u8],
        /// Four bytes for the receiver.
        imm: u32,
    },
    /// A message of at most [`SEND_MAX`] bytes into one of the receiver's buffers.
    Send {
        /// The message.
        bytes: &'a [u8],
    },
    /// Compare-and-swap of one word; completes with the word before.
    CompareSwap {
        /// Region of the peer.
        region: RegionId,
        /// Byte offset, a multiple of 8.
        offset: u64,
        /// Swap if the word is this.
        expected: u64,
        /// The new word.
        new: u64,
    },
    /// Fetch-and-add of one word; completes with the word before.
    FetchAdd {
        /// Region of the peer.
        region: RegionId,
        /// Byte offset, a multiple of 8.
        offset: u64,
        /// What to add, wrapping.
        add: u64,
    },
}

impl Op<'_> {
    /// Whether it is as long as its kind allows, aligned, and lands inside a landing buffer of so many bytes;
    /// if not, the post is [`PostError::Malformed`].
    #[inline(always)]
    pub fn is_well_formed(&self, landing: usize) -> bool {
        match *self {
            Op::Read { from, into } => {
                let inside = u64::from(into) + u64::from(from.len) <= landing as u64;
                from.offset.is_multiple_of(8) && from.len <= READ_MAX && into.is_multiple_of(8) && inside
            }
            Op::Write { offset, bytes, .. } | Op::WriteImm { offset, bytes, .. } => {
                offset.is_multiple_of(8) && bytes.len().is_multiple_of(8) && bytes.len() <= WRITE_MAX
            }
            Op::Send { bytes } => bytes.len() <= SEND_MAX,
            Op::CompareSwap { offset, .. } | Op::FetchAdd { offset, .. } => offset.is_multiple_of(8),
        }
    }
}

/// Why a request could not be posted. Nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PostError {
    /// As many requests are outstanding as the queue holds, or the peer is not draining its receives: poll,
    /// then post again.
    #[error("the queue is full: poll for completions first")]
    Full,
    /// The connection is gone.
    #[error("the queue pair is broken")]
    Broken,
    /// The request is longer than its kind allows, unaligned, or lands outside the landing buffer.
    #[error("the request is malformed: too long, unaligned, or outside the landing buffer")]
    Malformed,
}

/// Why a posted request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorkError {
    /// Out of bounds, not granted, or beyond the rights. It had no effect.
    #[error("remote access error: outside the region, or beyond the rights granted")]
    Access,
    /// The connection broke before the answer came. A WRITE, SEND or atomic may have taken effect.
    #[error("flushed: the connection broke before the answer came")]
    Flushed,
}

/// Something that happened on a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// A request of ours is over; atomics give the word before.
    Done(Ticket, Result<u64, WorkError>),
    /// A WRITE_WITH_IMM of the peer arrived: its immediate and its length in bytes.
    Arrived {
        /// The four bytes the peer sent along.
        imm: u32,
        /// Length of the WRITE.
        len: u32,
    },
    /// A SEND of the peer arrived in receive buffer `buffer`; hand it back with [`QueuePair::release`].
    Message {
        /// Which buffer.
        buffer: u16,
        /// Length in bytes.
        len: u32,
    },
}

/// Why a queue pair is broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// The peer closed the connection in good order.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer's process is gone, or its connection was cut.
    #[error("the peer is gone: {0}")]
    PeerLost(String),
    /// The peer (or we) broke the rules; the text names which.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// We revoked the peer.
    #[error("revoked")]
    Revoked,
}

/// Completions of one poll: a bounded buffer the caller keeps and reuses.
#[derive(Debug)]
pub struct Completions {
    items: Vec<Completion>,
    limit: usize,
}

impl Completions {
    /// Room for `limit` completions.
    pub fn new(limit: usize) -> Completions {
        Completions { items: Vec::with_capacity(limit), limit }
    }
    /// Free places; a transport pushes at most so many.
    pub fn room(&self) -> usize {
        self.limit - self.items.len()
    }
    /// Adds one. The transport checked [`room`](Self::room).
    #[inline]
    pub fn push(&mut self, completion: Completion) {
        debug_assert!(self.items.len() < self.limit);
        self.items.push(completion);
    }
    /// Takes all, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.items.drain(..)
    }
    /// All that is there.
    pub fn as_slice(&self) -> &[Completion] {
        &self.items
    }
    /// Forgets all.
    pub fn clear(&mut self) {
        self.items.clear()
    }
}

/// One end of a reliable connection. It belongs to one thread at a time.
pub trait QueuePair: Send {
    /// Queues a request (rule 1).
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError>;

    /// The doorbell: everything posted starts.
    fn ring(&mut self);

    /// Moves what has completed or arrived into `done`, up to its room; returns how many. Never blocks.
    /// On a broken queue pair it yields the flushed requests and then nothing.
    fn poll(&mut self, done: &mut Completions) -> usize;

    /// Begins to fetch what [`read_now`](Self::read_now) will want; `false`, and nothing done, where the
    /// transport has no `read_now`. It says nothing about the READ, which is judged when it is made.
    #[inline(always)]
    fn prefetch(&self, _from: Place) -> bool {
        false
    }

    /// A READ past the queue, complete on return: for transports where a READ costs no more than its loads
    /// (shared memory), and posting it would cost more than that. It neither waits for what was posted nor is
    /// waited for, but sees memory as it is after every completion polled before. `false`, and nothing
    /// done, if the transport or this READ wants to be posted.
    #[inline(always)]
    fn read_now(&mut self, _from: Place, _into: u32) -> bool {
        false
    }

    /// Bytes that a completed READ left in the landing buffer; valid until the next READ into them is posted.
    fn landing(&self, at: u32, len: u32) -> &[u8];

    /// The first `len` bytes of a receive buffer that [`Completion::Message`] named.
    fn message(&self, buffer: u16, len: u32) -> &[u8];

    /// Hands a receive buffer back.
    fn release(&mut self, buffer: u16);

    /// Asks that the channel be notified of the next completion or arrival. Returns `true`, and asks nothing,
    /// if there is something to poll already (as `req_notify_cq` followed by one more poll).
    fn arm(&mut self) -> bool;

    /// Whether there is something to poll. Looks once, and does not wait.
    fn ready(&mut self) -> bool;

    /// Whether who looks for what comes offers its core between looks: what comes takes longer than to switch
    /// threads, and needs a thread of the peer that may wait for this core (sockets).
    fn offers_core(&self) -> bool {
        false
    }

    /// Sleeps until there is something to poll or the time is over; the caller polls in either case. Most
    /// threads look for a while before they do ([`spin_and_wait`](crate::spin_and_wait)).
    fn wait(&mut self, timeout: Duration);

    /// Of a side that connected: from now on [`arm`](Self::arm) has this channel notified.
    fn attend(&mut self, channel: &Channel) -> Result<(), SetupError>;

    /// How its channel tells of it. `None` where the channel only wakes its thread, which looks at all its
    /// queue pairs then.
    fn told(&self) -> Option<Told> {
        None
    }

    /// Of an accepted side that the thread of its channel serves: the core on which the kernel took in what
    /// the peer sent last, if something came since this was asked last. Over a loopback that is the peer's
    /// core. `None` where nobody tells.
    fn came_in_on(&mut self) -> Option<u32> {
        None
    }

    /// Of the same, by that thread: has the thread of another channel serve it from now on, and `told` name
    /// it there. `false`, and nothing done, where it stays.
    fn move_to(&mut self, _channel: &Channel) -> bool {
        false
    }

    /// `Ok` while the connection stands.
    fn state(&self) -> Result<(), Broken>;

    /// What the peer lent to us.
    fn granted(&self) -> &[Granted];

    /// Fences the peer (rule 8) and breaks the connection.
    fn revoke(&mut self) -> Result<(), SetupError>;

    /// From now on this side looks before each change whether the peer has fenced it, where the transport
    /// does not do so anyway (shared memory). For those who trust each other with the memory.
    fn heed_fence(&mut self) {}

    /// As [`revoke`](Self::revoke), of a peer that heeds the fence since it was connected: on shared memory
    /// it lives on, unless it is stopped in the middle of a change.
    fn fence(&mut self) -> Result<(), SetupError> {
        self.revoke()
    }

    /// Bytes of memory that this end takes: its queues and buffers, not what is lent to the peer.
    fn held_bytes(&self) -> usize {
        0
    }

    /// The transport really in use and its peer, for people: `shm /run/longarm.sock pid 42`.
    fn describe(&self) -> String;
}
