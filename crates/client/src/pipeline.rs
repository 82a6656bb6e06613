//! Requests in flight: submit, poll, retry, and the truth about requests in doubt.
//!
//! Every write has an operation number of the client's session. The client keeps unanswered requests, and
//! sends them again (same session, same numbers) after a broken connection; the server answers those that it
//! has executed from its records. A request is in doubt if it is still unanswered at the deadline, or belongs
//! to a server that lost its memory.
//!
//! What is sent again may be more than the server's ring takes at once. The rest follows when the client next
//! sends or waits, in the order of the numbers, and no newer request is sent before it: requests are executed
//! in the order in which they were submitted.

use std::time::Duration;

use longarm_base::limits::{OPERATIONS_AHEAD, QUEUE_DEPTH};
use longarm_base::{Csn, Nanos};
use longarm_fabric::{PostError, QueuePair, Transport};
use longarm_host::now;
use longarm_wire::{Request, RequestKind, Status};

use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::flight::{InFlight, Reply, RequestId};
use crate::link::{RingAnswer, Trouble};
use crate::write::check;

/// The longest wait while requests to other servers are under way, whose answers wait to be taken.
const PAUSE: Duration = Duration::from_millis(20);
/// The same while something is to be sent again, as nothing announces room for it.
const PAUSE_SENDING: Duration = Duration::from_millis(1);
/// The most unanswered requests of one client.
pub const IN_FLIGHT_MAX: usize = QUEUE_DEPTH / 2;
const _: () = assert!(IN_FLIGHT_MAX as u64 <= OPERATIONS_AHEAD, "a pipeline without gaps has numbers enough");

impl<T: Transport> Client<T> {
    /// Sends a request without waiting; its outcome comes from [`poll`](Self::poll) or [`wait`](Self::wait).
    /// At most [`IN_FLIGHT_MAX`] may be open: then [`Error::Full`], until one of them is answered. Requests
    /// that a blocking call gave up as in doubt are open, too. It is [`Error::Full`] also while so many
    /// outcomes were not fetched, until some are. The doorbell rings by itself on poll and wait. If the
    /// connection is gone, this waits for a new one, within the timeout.
    pub fn submit(&mut self, request: &crate::Write<'_>) -> Result<RequestId, Error> {
        check(request)?;
        let deadline = self.deadline();
        // Only a full pipeline asks the connection for answers: most callers that submit poll, too.
        if self.is_full() {
            self.go_on();
            // A leader that is gone answers nothing, and the caller may have no ticket left to wait for.
            if self.is_full()
                && let Some(trouble) = self.lost_server(now(), &deadline)
            {
                self.recover(trouble, &deadline)?;
            }
        }
        if self.finished.len() >= IN_FLIGHT_MAX {
            return Err(Error::Full);
        }
        self.send(request.to_wire(self.next_operation), &deadline)
    }

    /// Sends a request that the caller waits for: it waits also for its place among the open requests.
    pub(crate) fn post(&mut self, request: Request<'_>, deadline: &Deadline) -> Result<RequestId, Error> {
        if self.is_full() {
            self.listen();
            self.go_on();
        }
        while self.is_full() {
            self.wait_for_room(deadline)?;
            self.go_on();
        }
        self.send(request, deadline)
    }

    /// Whether the open requests leave no place, or no number, for another one.
    #[inline]
    fn is_full(&self) -> bool {
        let ahead = self.open.front().map_or(0, |oldest| self.next_operation - oldest.operation);
        self.open.len() >= IN_FLIGHT_MAX || ahead >= OPERATIONS_AHEAD
    }

    fn send(&mut self, request: Request<'_>, deadline: &Deadline) -> Result<RequestId, Error> {
        if self.is_full() {
            return Err(Error::Full);
        }
        // Its answer is some microseconds away, so a GET behind it reads the clock itself.
        self.earlier.forget();
        let mut message = self.spare.pop().unwrap_or_default();
        message.clear();
        let behind = self.open.front().map_or(0, |oldest| request.operation - oldest.operation);
        let request = Request { behind: u8::try_from(behind).expect("not full"), ..request };
        message.extend_from_slice(&request.header());
        message.extend_from_slice(request.key);
        message.extend_from_slice(request.value);
        self.listen();
        let sent = loop {
            if self.link.is_none() {
                self.recover(Trouble::Broken("not connected".into()), deadline)?;
            }
            self.send_again();
            let link = self.link.as_mut().expect("connected");
            // The clock is read before the request is sent: the stamp of its answer may be taken as soon as
            // the server sees it.
            let sent = now();
            let taken = match self.unsent {
                None => link.mailbox.send(&mut link.qp, &[&message]),
                Some(_) => Err(PostError::Full),
            };
            match taken {
                Ok(()) => {
                    link.counters.requests += 1;
                    link.sent_at.push_back((request.operation, sent));
                    break sent;
                }
                Err(PostError::Full) => {
                    link.qp.ring();
                    if link.pump() == 0 {
                        self.wait_for_room(deadline)?;
                    }
                    self.collect();
                }
                Err(error) => {
                    let trouble = link.broken(&error.to_string());
                    self.recover(trouble, deadline)?;
                }
            }
        };
        self.next_operation = self.next_operation.max(request.operation + 1);
        let (operation, kind, deadline) = (request.operation, request.kind, deadline.end(sent));
        let since = self.link.as_ref().map_or(Csn::NONE, |link| link.seen);
        self.open.push_back(InFlight { operation, kind, message, deadline, since, abandoned: false });
        Ok(RequestId(operation))
    }

    /// Waits a little until there may be room for a request: in the server's ring, or among the open ones.
    fn wait_for_room(&mut self, deadline: &Deadline) -> Result<(), Error> {
        let waited = match self.lost_server(now(), deadline) {
            Some(trouble) => Err(trouble),
            None => self.connected().and_then(|link| link.wait_a_little(deadline)),
        };
        waited.or_else(|trouble| self.recover(trouble, deadline))
    }

    /// Begins a wait for a leader, unless one is under way.
    fn listen(&mut self) {
        let waits = self.open.iter().any(|open| !open.abandoned);
        if let Some(link) = self.link.as_mut().filter(|link| link.in_group() && !waits) {
            link.listen();
        }
    }

    /// The outcome of some request, if one is there. Never blocks, so it does not connect anew either: the
    /// outcome of a request that has no answer within its timeout is in doubt.
    pub fn poll(&mut self) -> Option<(RequestId, Result<Reply, Error>)> {
        self.go_on();
        if self.finished.is_empty() && !self.open.is_empty() {
            self.idle_polls = self.idle_polls.wrapping_add(1);
            // The clock is read now and then.
            if self.idle_polls.is_multiple_of(64) {
                self.give_up_late();
            }
        }
        self.finished.pop_front()
    }

    /// Gives up the requests that have no answer within their timeouts.
    fn give_up_late(&mut self) {
        let (time, timeout) = (now(), self.options.timeout);
        for open in self.open.iter_mut().filter(|open| !open.abandoned && time >= open.deadline) {
            self.finished.push_back((RequestId(open.operation), Err(open.abandon(timeout))));
        }
    }

    /// Sends submitted requests and takes answers.
    pub(crate) fn go_on(&mut self) {
        if let Some(link) = &mut self.link {
            link.qp.ring();
            link.pump();
        }
        self.collect();
        self.send_again();
    }

    /// Continues to send the open requests that the connection has yet to carry.
    #[inline]
    pub(crate) fn send_again(&mut self) {
        if let Some(from) = self.unsent {
            self.send_from(from);
        }
    }

    /// Sends the open requests from this number on, in order, as far as the server's ring has room.
    #[cold]
    fn send_from(&mut self, from: u64) {
        let Some(link) = &mut self.link else { return };
        let mut at = self.open.partition_point(|open| open.operation < from);
        self.unsent = loop {
            let Some(request) = self.open.get(at) else { break None };
            // The clock is read before the request is sent, as in `send`.
            let sent = now();
            if request.abandoned || sent >= request.deadline {
                // A late request is not repeated: the server may not remember it any more.
                let (ticket, abandoned) = (RequestId(request.operation), request.abandoned);
                self.open.remove(at);
                if !abandoned {
                    let why = "it could not be sent again before its timeout";
                    self.finished.push_back((ticket, Err(Error::InDoubt(why.into()))));
                }
                continue;
            }
            // Whoever waits deals with a connection that is broken, and with a ring that stays full.
            if link.mailbox.send(&mut link.qp, &[&request.message]).is_err() {
                break Some(request.operation);
            }
            link.sent_at.push_back((request.operation, sent));
            at += 1;
        };
        link.qp.ring();
    }

    /// Waits for the outcome of one request; others may finish meanwhile and wait for [`poll`](Self::poll).
    pub fn wait(&mut self, ticket: RequestId) -> Result<Reply, Error> {
        self.wait_while(ticket, || false)
    }

    /// Waits for the outcome of one request, and calls `also` before it sleeps, which says whether to call it
    /// again soon.
    pub(crate) fn wait_while(
        &mut self,
        ticket: RequestId,
        mut also: impl FnMut() -> bool,
    ) -> Result<Reply, Error> {
        if let Some(link) = &mut self.link {
            link.qp.ring();
        }
        let mut waited = false;
        loop {
            // Answers that came while the client waited for a READ were taken then, and are collected now.
            let news = self.link.as_mut().is_some_and(|link| link.pump() > 0 || !link.answers.is_empty());
            // Room may also come back silently.
            self.send_again();
            if news || !self.finished.is_empty() {
                self.collect();
                if let Some(at) = self.finished.iter().position(|(done, _)| *done == ticket) {
                    return self.finished.remove(at).expect("just found").1;
                }
            }
            let Some(deadline) =
                self.open.iter().find(|open| open.operation == ticket.0).map(|open| open.deadline)
            else {
                return Err(Error::Invalid("no such request is open"));
            };
            let most = match also() {
                true => PAUSE,
                false => Duration::MAX,
            };
            match &mut self.link {
                // Most answers come soon: whether one is to be expected at all is looked at later.
                Some(link) if !waited && self.unsent.is_none() => link.rest(most, |_| deadline),
                _ => self.await_more(most, deadline, ticket)?,
            }
            waited = true;
        }
    }

    /// Sleeps between polls, reconnects, or gives the request up as in doubt.
    fn await_more(&mut self, most: Duration, deadline: Nanos, ticket: RequestId) -> Result<(), Error> {
        let time = now();
        if time >= deadline {
            let open = self.open.iter_mut().find(|open| open.operation == ticket.0);
            return Err(open.expect("its deadline was looked at").abandon(self.options.timeout));
        }
        if let Some(trouble) = self.lost_server(time, &Deadline::at(deadline)) {
            return self.await_recovery(trouble, deadline, ticket);
        }
        let link = self.link.as_mut().expect("not broken");
        // The answer may have come while the client looked at the heartbeat.
        if !link.answers.is_empty() {
            return Ok(());
        }
        // Nothing announces room for what is to be sent again.
        let most = if self.unsent.is_some() { PAUSE_SENDING } else { most };
        link.rest(most, |_| deadline);
        Ok(())
    }

    fn await_recovery(&mut self, trouble: Trouble, deadline: Nanos, ticket: RequestId) -> Result<(), Error> {
        // The request was sent: whatever keeps its answer away, its outcome is unknown.
        self.recover(trouble, &Deadline::at(deadline)).map_err(|error| {
            self.open.retain(|open| open.operation != ticket.0);
            match error {
                Error::Lost { reason, .. } => Error::InDoubt(reason),
                other => Error::InDoubt(other.to_string()),
            }
        })
    }

    /// Why no answer is to be expected over this connection, if it is broken, or its leader leads no more.
    fn lost_server(&mut self, time: Nanos, deadline: &Deadline) -> Option<Trouble> {
        let broken = match &self.link {
            Some(link) => link.state().err(),
            None => Some("not connected".into()),
        };
        broken.map(Trouble::Broken).or_else(|| self.doubts_server(time, deadline))
    }

    /// Looks at the heartbeat of a server that has been silent for long. A leader without a lease leads no
    /// more, or cannot. A server alone may take its time; but nothing may tell the client that the other end
    /// of its connection is gone, except what it posts itself, and who waits for room posts nothing.
    fn doubts_server(&mut self, time: Nanos, deadline: &Deadline) -> Option<Trouble> {
        let link = self.link.as_mut()?;
        if time.since(link.heard()) <= link.silence() {
            return None;
        }
        link.listen();
        if !link.in_group() {
            // Whoever waits notices the deadline.
            let looked = link.look_at_heartbeat(deadline);
            return looked.err().filter(|trouble| !matches!(trouble, Trouble::Late));
        }
        match link.look_at_heartbeat(&Deadline::at(time + link.silence())) {
            Err(Trouble::Late) => Some(Trouble::Broken("the leader shows no sign of life".into())),
            Err(trouble) => Some(trouble),
            Ok(()) if link.has_lease(now()) => None,
            Ok(()) => Some(Trouble::Broken("the leader has no lease".into())),
        }
    }

    /// Matches answers with requests.
    fn collect(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Some(answer) = link.answers.pop_front() {
            let at = match self.open.front() {
                Some(first) if first.operation == answer.operation => Some(0),
                _ => self.open.iter().position(|open| open.operation == answer.operation),
            };
            // No request is open for an answer to a request that was given up, or answered before a
            // reconnect.
            let Some(request) = at.and_then(|at| self.open.remove(at)) else { continue };
            if !request.abandoned {
                self.finished.push_back((RequestId(request.operation), outcome(request.kind, answer)));
            }
            if self.spare.len() < QUEUE_DEPTH && request.message.capacity() <= 4096 {
                self.spare.push(request.message);
            }
        }
    }
}

fn outcome(kind: RequestKind, answer: RingAnswer) -> Result<Reply, Error> {
    match answer.status {
        Status::Ok if matches!(kind, RequestKind::Increment | RequestKind::Backup) => {
            Ok(Reply::Number(answer.number, answer.csn))
        }
        Status::Ok if kind == RequestKind::Stats => {
            Ok(Reply::Text(String::from_utf8_lossy(&answer.value).into_owned()))
        }
        Status::Ok if matches!(kind, RequestKind::Get | RequestKind::Spilled) => {
            Ok(Reply::Value(answer.value, answer.csn))
        }
        Status::Ok => Ok(Reply::Done(answer.csn)),
        Status::NotFound => Ok(Reply::NotFound),
        Status::Mismatch => Ok(Reply::Mismatch((answer.csn != Csn::NONE).then_some(answer.csn))),
        Status::NotANumber => Err(Error::NotANumber),
        Status::Overflow => Err(Error::Overflow),
        Status::OutOfMemory => Err(Error::OutOfMemory),
        Status::Crowded => Err(Error::Crowded),
        Status::NoDisk => Err(Error::NoDisk),
        Status::Closing => Err(Error::Closing),
        Status::Forgotten => Err(Error::InDoubt("the server no longer remembers this operation".into())),
        Status::Invalid => Err(Error::Invalid("a limit is exceeded")),
    }
}
