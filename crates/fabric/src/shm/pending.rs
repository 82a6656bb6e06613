//! Requests that were posted and not yet polled, in order.

use longarm_base::limits::QUEUE_DEPTH;

use crate::{Ticket, WorkError};

/// A posted request: the words at [`TICKET`], [`WHAT`], [`WORD`] and [`SPAN`].
///
/// Every field is one word, written and read as such: what a poll right behind the post loads is then
/// forwarded from the store, where a load that spans two stores would wait for both to leave the core.
type Posted = [u64; 4];

const TICKET: usize = 0;
/// [`READ`] with the region's index above it, [`DONE`], or one of the failures.
const WHAT: usize = 1;
/// READ: where from. DONE: the result.
const WORD: usize = 2;
/// READ: length, and where to in the upper half.
const SPAN: usize = 3;

const READ: u64 = 0;
const DONE: u64 = 1;
const FAILED_ACCESS: u64 = 2;
const FAILED_FLUSHED: u64 = 3;
const KIND: u64 = 0xff;

/// What is left to do for a request.
pub(super) enum NextStep {
    /// Copy.
    Read {
        /// Index of the region.
        remote: u8,
        /// Offset in it.
        from: u64,
        /// Bytes.
        len: u32,
        /// Offset in the landing buffer.
        into: u32,
    },
    /// Report.
    Done(Result<u64, WorkError>),
}

/// Posted requests in order, at most [`QUEUE_DEPTH`].
pub(super) struct ShmSendQueue {
    /// Empty until something is posted that is reported: most ends of a server post nothing that is.
    ring: Box<[Posted]>,
    head: usize,
    count: usize,
}

const _: () = assert!(QUEUE_DEPTH.is_power_of_two());

impl ShmSendQueue {
    /// None posted.
    pub(super) fn new() -> ShmSendQueue {
        ShmSendQueue { ring: Box::default(), head: 0, count: 0 }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.count == QUEUE_DEPTH
    }

    #[inline(always)]
    fn push(&mut self, posted: Posted) {
        debug_assert!(self.count < QUEUE_DEPTH, "post checked for room");
        if self.ring.is_empty() {
            self.make();
        }
        self.ring[(self.head + self.count) % QUEUE_DEPTH] = posted;
        self.count += 1;
    }

    #[cold]
    fn make(&mut self) {
        self.ring = vec![[0; 4]; QUEUE_DEPTH].into_boxed_slice();
    }

    /// A READ, to be copied at the poll.
    #[inline(always)]
    pub(super) fn push_read(&mut self, ticket: Ticket, remote: u8, from: u64, len: u32, into: u32) {
        let what = READ | u64::from(remote) << 8;
        self.push([ticket.0, what, from, u64::from(len) | u64::from(into) << 32]);
    }

    /// A request that is over, with its result.
    #[inline(always)]
    pub(super) fn push_done(&mut self, ticket: Ticket, result: Result<u64, WorkError>) {
        let (what, word) = match result {
            Ok(word) => (DONE, word),
            Err(WorkError::Access) => (FAILED_ACCESS, 0),
            Err(WorkError::Flushed) => (FAILED_FLUSHED, 0),
        };
        self.push([ticket.0, what, word, 0]);
    }

    /// The oldest request and what is to be done for it. The caller checked that there is one.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> (Ticket, NextStep) {
        debug_assert!(self.count > 0, "the caller checked");
        let posted = &self.ring[self.head];
        let (what, word, span) = (posted[WHAT], posted[WORD], posted[SPAN]);
        let next = match what & KIND {
            READ => {
                let (len, into) = (span as u32, (span >> 32) as u32);
                NextStep::Read { remote: (what >> 8) as u8, from: word, len, into }
            }
            DONE => NextStep::Done(Ok(word)),
            FAILED_ACCESS => NextStep::Done(Err(WorkError::Access)),
            _ => NextStep::Done(Err(WorkError::Flushed)),
        };
        let ticket = Ticket(posted[TICKET]);
        self.head = (self.head + 1) % QUEUE_DEPTH;
        self.count -= 1;
        (ticket, next)
    }

    /// READs that were not copied yet will not be.
    pub(super) fn flush(&mut self) {
        for i in 0..self.count {
            let what = &mut self.ring[(self.head + i) % QUEUE_DEPTH][WHAT];
            if *what & KIND == READ {
                *what = FAILED_FLUSHED;
            }
        }
    }
}
