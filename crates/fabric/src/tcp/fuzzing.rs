//! One end of a TCP connection without its socket, for the fuzz targets (feature `fuzzing`).

use super::inbox::TcpInbox;
use super::session::TcpSession;
use crate::{Broken, Completions, Grant, Op, PostError, Ticket};

/// A session and what it has for its user.
#[derive(Debug)]
pub struct SessionEnd {
    session: TcpSession,
    inbox: TcpInbox,
}

impl SessionEnd {
    /// A fresh connection on which `grants` are lent to the peer.
    pub fn new(grants: Vec<Grant>, landing: u32) -> SessionEnd {
        SessionEnd { session: TcpSession::new(grants), inbox: TcpInbox::new(landing) }
    }

    /// Takes bytes of the peer; how many were used up, and whether it is stuck until its user polls or its
    /// output is taken.
    pub fn feed(&mut self, bytes: &[u8]) -> (usize, bool) {
        let fed = self.session.feed(bytes, &mut self.inbox);
        (fed.used, fed.stuck)
    }

    /// Queues a request.
    pub fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        let landing = self.inbox.landing_len();
        self.session.post(op, ticket, landing, self.inbox.own(), 0)
    }

    /// Moves as many completions as `done` has room for.
    pub fn poll(&mut self, done: &mut Completions) -> usize {
        self.inbox.take(done)
    }

    /// Bytes of the landing buffer.
    pub fn landing(&self, at: u32, len: u32) -> &[u8] {
        self.inbox.landing(at, len)
    }

    /// The first bytes of a receive buffer that a completion named.
    pub fn message(&self, buffer: u16, len: u32) -> &[u8] {
        self.inbox.receive(buffer, len)
    }

    /// Hands a receive buffer back.
    pub fn release(&mut self, buffer: u16) {
        self.inbox.release(buffer);
        self.session.release();
    }

    /// Bytes for the peer.
    pub fn out(&self) -> &[u8] {
        self.session.out.content()
    }

    /// The first `n` bytes of [`out`](Self::out) are on their way.
    pub fn sent(&mut self, n: usize) {
        self.session.out.consume(n);
    }

    /// Ends the connection in good order.
    pub fn close(&mut self) {
        self.session.close(&mut self.inbox);
    }

    /// Fences the peer off.
    pub fn revoke(&mut self) {
        self.session.revoke(&mut self.inbox);
    }

    /// Why the connection is over, if it is.
    pub fn broken(&self) -> Option<&Broken> {
        self.session.broken()
    }
}
