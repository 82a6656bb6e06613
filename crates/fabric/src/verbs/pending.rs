//! Requests that are posted and not known to be over, oldest first.

use std::collections::VecDeque;

use longarm_base::limits::{QUEUE_DEPTH, READ_MAX};

use super::receives::CREDITS_MAX;
use super::staging::StagingPlace;
use crate::Ticket;

/// Bytes of READs that may be under way. What the peer sends for them must come well before the device's time
/// for an answer is over: else it asks for all of it again, and again.
pub(super) const READ_WINDOW: usize = 512 << 10;
/// Requests that the device has room for: the user's, and our own credits.
pub(super) const SLOTS: usize = QUEUE_DEPTH + CREDITS_MAX;

const _: () = assert!(READ_WINDOW >= READ_MAX as usize);

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostedRequest {
    /// The user's; `None` for one of our own.
    pub ticket: Option<Ticket>,
    /// What it holds of the staging memory.
    pub staged: Option<StagingPlace>,
    /// The old word of an atomic is there when it is over.
    pub word: bool,
    /// What the peer lent allows it.
    pub allowed: bool,
    /// Bytes that a READ fetches.
    pub reads: u32,
}

/// The queue. A request's number, counted from the first ever, is its id with the device.
#[derive(Debug)]
pub(super) struct VerbsSendQueue {
    requests: VecDeque<PostedRequest>,
    /// Number of the oldest.
    first: u64,
    /// Of them: the user's.
    users: usize,
    /// Bytes of READs.
    reading: usize,
}

impl VerbsSendQueue {
    pub fn new() -> VerbsSendQueue {
        VerbsSendQueue { requests: VecDeque::with_capacity(SLOTS), first: 0, users: 0, reading: 0 }
    }

    /// Whether the user may post no more.
    pub fn is_full(&self) -> bool {
        self.users >= QUEUE_DEPTH
    }

    /// Whether a READ of so many bytes may go out beside those under way. One always may.
    pub fn may_read(&self, bytes: u32) -> bool {
        self.reading == 0 || self.reading + bytes as usize <= READ_WINDOW
    }

    /// Requests of our own.
    pub fn own(&self) -> usize {
        self.requests.len() - self.users
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Adds one; returns its number.
    pub fn push(&mut self, request: PostedRequest) -> u64 {
        self.users += usize::from(request.ticket.is_some());
        self.reading += request.reads as usize;
        self.requests.push_back(request);
        self.first + self.requests.len() as u64 - 1
    }

    /// Number of the oldest.
    pub fn oldest(&self) -> u64 {
        self.first
    }

    /// The oldest.
    pub fn first(&self) -> Option<&PostedRequest> {
        self.requests.front()
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<PostedRequest> {
        let request = self.requests.pop_front()?;
        self.first += 1;
        self.users -= usize::from(request.ticket.is_some());
        self.reading -= request.reads as usize;
        Some(request)
    }

    /// Whether a request of this number is in it.
    pub fn holds(&self, number: u64) -> bool {
        number >= self.first && number - self.first < self.requests.len() as u64
    }
}
