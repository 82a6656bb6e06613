//! Receives of one queue pair: a buffer each, which a SEND fills, and of which a WRITE_WITH_IMM takes only
//! the turn. And credits, by which a sender knows how many of its SENDs were released.

use std::sync::Arc;

use longarm_ibverbs as ib;

use crate::{RECEIVES, SEND_MAX};

/// Marks the ids of receives.
const RECEIVE: u64 = 1 << 63;
/// Our own credits that may be outstanding.
pub(super) const CREDITS_MAX: usize = 2 * RECEIVES;
/// Registered for the word that counts credits.
pub(super) const CREDIT_BYTES: usize = 64;

/// Buffers for receives, and the credit word.
#[derive(Debug)]
pub(super) struct Receives {
    buffers: ib::Buffer,
    count: u16,
    /// Which are with the user.
    held: Box<[bool]>,
    /// SENDs of the peer that the user released.
    pub released: u64,
    /// The peer stores here how many of our SENDs it released.
    pub credit: ib::Buffer,
    /// SENDs that we posted.
    pub sent: u64,
}

/// The peer claims to have released more than was sent.
pub(super) struct FalseCredit;

impl Receives {
    pub fn new(domain: &Arc<ib::ProtectionDomain>, count: u16) -> Result<Receives, ib::Error> {
        let bytes = usize::from(count) * SEND_MAX;
        Ok(Receives {
            buffers: ib::Buffer::new(domain, bytes, ib::Access::LOCAL_WRITE)?,
            count,
            held: vec![false; usize::from(count)].into_boxed_slice(),
            released: 0,
            credit: ib::Buffer::new(domain, CREDIT_BYTES, ib::Access::REMOTE_WRITE)?,
            sent: 0,
        })
    }

    /// Posts all.
    pub fn post_all(&self, qp: &ib::QueuePair) -> Result<(), ib::Error> {
        (0..self.count).try_for_each(|buffer| self.post(qp, buffer))
    }

    /// Posts the receive of a buffer that nobody looks at.
    #[inline]
    pub fn post(&self, qp: &ib::QueuePair, buffer: u16) -> Result<(), ib::Error> {
        let at = usize::from(buffer) * SEND_MAX;
        let key = self.buffers.region().local_key();
        let into = ib::Local { address: self.buffers.address(at), bytes: SEND_MAX as u32, key };
        // SAFETY: the buffers outlive the queue pair (order of its fields), and references to their bytes are
        // handed out by `message` only for buffers that the user holds.
        unsafe { qp.post_receive(&ib::Receive { id: RECEIVE | u64::from(buffer), into: Some(into) }) }
    }

    /// The buffer of a completion, if it is one of a receive.
    #[inline]
    pub fn buffer_of(id: u64) -> Option<u16> {
        (id & RECEIVE != 0).then_some(id as u16)
    }

    /// The user holds the buffer from now on.
    pub fn hold(&mut self, buffer: u16) {
        self.held[usize::from(buffer)] = true;
    }

    /// The user gives it back.
    pub fn release(&mut self, buffer: u16) {
        let held = self.held.get_mut(usize::from(buffer)).is_some_and(std::mem::take);
        assert!(held, "receive buffer {buffer} was released but not received");
        self.released += 1;
    }

    /// Bytes of a buffer that the user holds.
    pub fn message(&self, buffer: u16, len: u32) -> &[u8] {
        assert!(self.held[usize::from(buffer)], "receive buffer {buffer} was not received");
        assert!(len as usize <= SEND_MAX, "a message has at most {SEND_MAX} bytes, not {len}");
        // SAFETY: its receive is over and not posted again while it is held.
        unsafe { self.buffers.bytes(usize::from(buffer) * SEND_MAX, len as usize) }
    }

    /// SENDs that the peer has not released.
    pub fn unreleased(&self) -> Result<u64, FalseCredit> {
        self.sent.checked_sub(self.credit.word(0)).ok_or(FalseCredit)
    }
}
