//! The connecting side: no thread of its own. Its user's calls read, execute the peer's requests and write.

use std::net::{Shutdown, TcpStream};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::codec::{Codec, Flushed};
use super::inbox::{Deliver, TcpInbox};
use super::session::TcpSession;
use super::socket::{self, Received};
use crate::buffer::{Buffer, INPUT};
use crate::{Channel, Completions, Op, PostError, SetupError, Ticket, stream};

/// Reads of one poll: the peer cannot keep a user inside.
const READS: usize = 8;
/// Bytes of one read: at first enough for some short answers, as a program may have thousands of connections.
/// The buffer grows once a read fills it.
const ROOM: RangeInclusive<usize> = 2048..=INPUT;

/// A connection whose NIC is the thread that uses it.
#[derive(Debug)]
pub struct Alone {
    socket: TcpStream,
    pub(super) session: TcpSession,
    codec: Codec,
    raw: Buffer,
    pub(super) inbox: TcpInbox,
    /// `out` holds bytes that may go: the doorbell was rung, or they are answers.
    rung: bool,
    stuck: bool,
    /// All that had come when it was last read is executed: what comes next comes from the socket.
    dry: bool,
}

impl Alone {
    /// A connection over a socket whose handshake is over.
    pub fn new(socket: TcpStream, codec: Codec, session: TcpSession, landing: u32) -> Alone {
        let (raw, inbox) = (Buffer::new(INPUT), TcpInbox::new(landing));
        Alone { socket, session, codec, raw, inbox, rung: false, stuck: false, dry: false }
    }

    /// Bytes of its buffers.
    pub fn held(&self) -> usize {
        self.raw.held() + self.session.out.held()
    }

    /// [`QueuePair::post`](crate::QueuePair::post).
    pub fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        self.session.post(op, ticket, self.inbox.landing_len(), self.inbox.own(), 0)
    }

    /// [`QueuePair::ring`](crate::QueuePair::ring).
    pub fn ring(&mut self) {
        self.rung = true;
        self.flush();
    }

    /// [`QueuePair::poll`](crate::QueuePair::poll).
    pub fn poll(&mut self, done: &mut Completions) -> usize {
        // Something for the caller needs no look at the socket; one without room polls for the sake of the
        // peer.
        if self.inbox.is_empty() || done.room() == 0 {
            self.pump();
        }
        let count = self.inbox.take(done);
        if self.stuck && count > 0 {
            self.pump();
        }
        count
    }

    /// [`QueuePair::release`](crate::QueuePair::release).
    pub fn release(&mut self, buffer: u16) {
        self.inbox.release(buffer);
        self.session.release();
        self.ring();
    }

    /// Whether there is something to poll, after looking once.
    pub fn ready(&mut self) -> bool {
        if self.inbox.is_empty() {
            self.pump();
        }
        !self.inbox.is_empty()
    }

    /// [`QueuePair::wait`](crate::QueuePair::wait).
    pub fn wait(&mut self, timeout: Duration) {
        let start = Instant::now();
        self.ring();
        if !self.dry {
            self.pump();
        }
        let mut late = false;
        while self.inbox.is_empty() && self.session.broken().is_none() {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return;
            }
            let blocked = self.rung && !self.session.out.is_empty() || self.codec.wants_write();
            let what = if blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            if !blocked && self.dry && !late && left >= socket::AWAIT {
                let received = socket::await_bytes(&self.socket, &mut self.raw, ROOM);
                late = received == Received::Empty;
                self.take(received);
                self.answer();
                continue;
            }
            let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos() as i64 };
            // An interrupted sleep is a short one: the loop looks again.
            let _ = rustix::event::poll(&mut [PollFd::new(&self.socket, what)], Some(&limit));
            self.pump();
        }
    }

    /// [`QueuePair::attend`](crate::QueuePair::attend): what comes in wakes the channel, whether or not it
    /// was asked to.
    pub fn attend(&mut self, channel: &Channel) -> Result<(), SetupError> {
        channel.watch(&self.socket).map(|_| ()).map_err(|e| SetupError::Os("watch a connection", e))
    }

    /// [`QueuePair::revoke`](crate::QueuePair::revoke): requests are executed by this thread alone, so none
    /// is now.
    pub fn revoke(&mut self) {
        self.session.revoke(&mut self.inbox);
        self.ring();
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Reads, executes and answers what is there, at most [`READS`] times.
    fn pump(&mut self) {
        for _ in 0..READS {
            if self.session.broken().is_some() {
                return;
            }
            // What came with the handshake, or was left for lack of room, comes first.
            let mut last = !self.intake();
            if !last {
                let received = socket::receive(&self.socket, &mut self.raw, ROOM);
                last = self.take(received);
            }
            self.answer();
            let room_again = self.stuck && !self.inbox.is_full() && self.session.out.is_empty();
            if last && !room_again {
                return;
            }
        }
    }

    /// Executes what was received; whether there is no more for now, or no room for it.
    fn take(&mut self, received: Received) -> bool {
        let (taken, all) = match received {
            // A short read was all there is; another call would only say so.
            Received::Bytes { all } => (self.intake(), all),
            Received::Empty => (true, true),
            Received::Gone(why) => {
                self.session.lose(&why, &mut self.inbox);
                (true, false)
            }
        };
        self.dry = taken && all;
        !taken || all
    }

    /// Gives the session what was received; whether it took everything and goes on.
    fn intake(&mut self) -> bool {
        self.stuck = self.codec.intake(&mut self.raw, &mut self.session, &mut self.inbox);
        !self.stuck && self.session.broken().is_none()
    }

    /// Answers that the intake produced need no doorbell.
    fn answer(&mut self) {
        if !self.session.out.is_empty() || self.codec.wants_write() {
            self.rung = true;
            self.flush();
        }
        if self.session.broken().is_some() {
            let _ = self.socket.shutdown(Shutdown::Write);
        }
    }

    fn flush(&mut self) {
        if !self.rung {
            return;
        }
        match self.codec.flush(&self.socket, &mut self.session.out) {
            Flushed::All => self.rung = false,
            Flushed::Blocked => {}
            Flushed::Failed(why) => self.fail(&why),
        }
    }

    /// Writing failed: the peer may have said why before it left.
    fn fail(&mut self, why: &str) {
        self.rung = false;
        self.session.out.consume(self.session.out.len());
        while let Received::Bytes { .. } = socket::receive(&self.socket, &mut self.raw, ROOM) {
            if self.codec.intake(&mut self.raw, &mut self.session, &mut self.inbox)
                || self.session.broken().is_some()
            {
                break;
            }
        }
        self.session.lose(why, &mut self.inbox);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.session.close(&mut self.inbox);
        self.rung = true;
        let _ = self.codec.flush(&self.socket, &mut self.session.out);
        stream::leave(&self.socket);
    }
}
