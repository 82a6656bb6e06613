//! The connections of clients that scan. A client that asks too much at once, or nonsense, loses its own.

use std::collections::VecDeque;

use longarm_fabric::ring::{BadFrame, Mailbox};
use longarm_fabric::{Broken, Channel, Completion, Completions, PostError, QueuePair};
use longarm_host::Mutex;
use longarm_wire::{Bad, OrderedStats, ScanHead, ScanKind, ScanRequest, ScanStatus};

use crate::page::Wanted;

/// Requests that a client may have open at once: the page that it wants now, and the next ones of several
/// iterators.
const OPEN_MAX: usize = 32;
/// Arrivals taken in one poll.
const BATCH: usize = 32;

/// Where new connections wait for the orderer.
pub struct Door<Q> {
    arrivals: Mutex<Vec<ScanConnection<Q>>>,
    /// The orderer sleeps here; connections are accepted with it.
    pub channel: Channel,
}

impl<Q> Door<Q> {
    /// A door without arrivals.
    pub fn new(channel: Channel) -> Door<Q> {
        Door { arrivals: Mutex::default(), channel }
    }

    /// Hands a connection over.
    pub fn put(&self, connection: ScanConnection<Q>) {
        self.arrivals.lock().push(connection);
        self.channel.notify();
    }

    pub(crate) fn take(&self) -> Vec<ScanConnection<Q>> {
        std::mem::take(&mut *self.arrivals.lock())
    }
}

/// Why this side ends a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    Frame(#[from] BadFrame),
    #[error("{0}")]
    Message(#[from] Bad),
    #[error("it sent something that is not a request")]
    Arrival,
    #[error("it has more than {OPEN_MAX} requests open")]
    Greedy,
    #[error("the connection broke")]
    Broken,
}

impl From<PostError> for Fault {
    fn from(_: PostError) -> Fault {
        Fault::Broken
    }
}

/// A client's connection for scans.
pub struct ScanConnection<Q> {
    qp: Q,
    mailbox: Mailbox,
    done: Completions,
    /// For the log: who it is.
    name: String,
    /// Requests that have no answer yet, the oldest first.
    pub(crate) wanted: VecDeque<Wanted>,
    /// Requests for statistics that have no answer yet, by their numbers.
    curious: Vec<u64>,
    /// Answers for which the client's ring had no room yet.
    late: VecDeque<Vec<u8>>,
    /// Whatever must live as long as the connection: the client's place among those that are let in.
    _place: Box<dyn Send>,
}

impl<Q: QueuePair> ScanConnection<Q> {
    /// A connection that was just accepted.
    pub fn new(qp: Q, mailbox: Mailbox, name: String, place: Box<dyn Send>) -> ScanConnection<Q> {
        let (wanted, curious, late) = Default::default();
        let done = Completions::new(BATCH);
        ScanConnection { qp, mailbox, done, name, wanted, curious, late, _place: place }
    }

    /// Takes requests, and sends what is late. `Ok(true)` if something happened; an error ends the
    /// connection, with what is to be logged of it, if anything.
    pub(crate) fn turn(&mut self) -> Result<bool, Option<String>> {
        match self.work() {
            Ok(busy) => match self.qp.state() {
                Ok(()) => Ok(busy),
                Err(Broken::Closed) => Err(None),
                Err(why) => Err(Some(format!("client {} is gone: {why}", self.name))),
            },
            Err(Fault::Broken) if self.qp.state() == Err(Broken::Closed) => Err(None),
            Err(fault) => Err(Some(format!("client {} was dropped: {fault}", self.name))),
        }
    }

    fn work(&mut self) -> Result<bool, Fault> {
        let taken = self.qp.poll(&mut self.done);
        for completion in self.done.drain() {
            let (imm, len) = match completion {
                Completion::Arrived { imm, len } => (imm, len),
                Completion::Done(_, Ok(_)) => continue,
                Completion::Done(_, Err(_)) => return Err(Fault::Broken),
                Completion::Message { .. } => return Err(Fault::Arrival),
            };
            if !self.mailbox.receive(imm, len)? {
                continue;
            }
            if self.wanted.len() + self.curious.len() + self.late.len() >= OPEN_MAX {
                return Err(Fault::Greedy);
            }
            let request = ScanRequest::decode(self.mailbox.message())?;
            match request.kind {
                ScanKind::Stats => self.curious.push(request.operation),
                _ => self.wanted.push_back(Wanted::of(&request)),
            }
        }
        let sent = self.send_late()?;
        Ok(taken > 0 || sent.is_some())
    }

    /// Sends what there is room for; the last answer that was sent, if any was.
    fn send_late(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        self.mailbox.pump(&mut self.qp)?;
        let mut sent = None;
        while let Some(answer) = self.late.front() {
            match self.mailbox.send(&mut self.qp, &[answer]) {
                Ok(()) => sent = self.late.pop_front(),
                Err(PostError::Full) => break,
                Err(_) => return Err(Fault::Broken),
            }
        }
        self.qp.ring();
        Ok(sent)
    }

    /// Sends an answer, when there is room for it.
    pub(crate) fn answer(&mut self, answer: Vec<u8>) {
        self.answer_page(answer);
    }

    /// The same; the memory of an answer that was sent at once can be used again.
    pub(crate) fn answer_page(&mut self, answer: Vec<u8>) -> Vec<u8> {
        self.late.push_back(answer);
        // What breaks here is found at the next turn.
        self.send_late().ok().flatten().unwrap_or_default()
    }

    /// Answers whoever asked how the index stands.
    pub(crate) fn answer_stats(&mut self, stats: &OrderedStats) {
        for operation in std::mem::take(&mut self.curious) {
            self.answer(ScanHead::new(ScanStatus::Ok, operation, stats.term).with_stats(stats));
        }
    }

    /// Whether answers wait for room, of which no arrival may tell.
    pub(crate) fn owes(&self) -> bool {
        !self.late.is_empty() || self.mailbox.is_sending()
    }

    /// Asks to be woken by the next arrival; `true` if there is one already.
    pub(crate) fn arm(&mut self) -> bool {
        self.qp.arm()
    }
}
