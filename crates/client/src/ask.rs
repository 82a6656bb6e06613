//! Small questions to the server: a round trip, its statistics, and hints about keys that were read.

use longarm_base::limits::QUEUE_DEPTH;
use longarm_fabric::{QueuePair, Transport};
use longarm_host::now;
use longarm_memory::Hash;
use longarm_wire::{HINTS_MAX, Request, RequestKind};

use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::flight::Reply;
use crate::pipeline::IN_FLIGHT_MAX;

/// Hints sent in one message.
const HINTS: usize = 32;
/// The most requests without an answer behind which the client asks for an anchor.
const QUESTIONS_MAX: usize = QUEUE_DEPTH - IN_FLIGHT_MAX;
const _: () = assert!(HINTS <= HINTS_MAX);

impl<T: Transport> Client<T> {
    /// A round trip through a worker, which anchors the lease.
    pub fn ping(&mut self) -> Result<(), Error> {
        self.ping_within(&self.deadline())
    }

    /// Makes a round trip as a part of another operation.
    pub(crate) fn ping_within(&mut self, deadline: &Deadline) -> Result<(), Error> {
        let ticket = self.post(Request::new(RequestKind::Ping, self.next_operation), deadline)?;
        self.wait(ticket).map(|_| ()).map_err(|error| self.unanswered(error))
    }

    /// Asks for an answer that anchors the lease anew, without waiting for it. A question that finds no room
    /// is sent another time, and so is a question behind many without an answer: it leaves the places in the
    /// queue to requests. It carries no number, as it is never sent again: questions do not use up the
    /// numbers that may follow a request without an answer.
    pub(crate) fn anchor_soon(&mut self) {
        let Some(link) = self.link.as_mut().filter(|link| link.sent_at.len() < QUESTIONS_MAX) else { return };
        let request = Request::new(RequestKind::Ping, 0);
        // The clock is read before the question is sent: the answer's stamp may be taken as soon as the
        // server sees it.
        let sent = now();
        if link.mailbox.send(&mut link.qp, &[&request.header()]).is_ok() {
            link.sent_at.push_back((request.operation, sent));
            link.qp.ring();
        }
    }

    /// The server's statistics, as JSON.
    pub fn stats(&mut self) -> Result<String, Error> {
        let ticket = self.post(Request::new(RequestKind::Stats, self.next_operation), &self.deadline())?;
        match self.wait(ticket).map_err(|error| self.unanswered(error))? {
            Reply::Text(text) => Ok(text),
            other => Err(Error::Protocol(format!("statistics came as {other:?}"))),
        }
    }

    /// Notes a key that was read, and tells the server of a handful at once.
    #[cold]
    pub(crate) fn note_hint(&mut self, hash: Hash) {
        self.hint_in = self.options.hint_every;
        self.hints.extend_from_slice(&hash.0.to_le_bytes());
        if self.hints.len() < HINTS * 8 {
            return;
        }
        let mut request = Request::new(RequestKind::Hints, 0);
        request.value = &self.hints;
        if let Some(link) = &mut self.link {
            // A hint that finds no room is lost, without harm.
            let _ = link.mailbox.send(&mut link.qp, &[&request.header(), request.value]);
            link.qp.ring();
        }
        self.hints.clear();
    }
}
