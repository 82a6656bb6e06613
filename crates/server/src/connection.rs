//! One client's connection: its requests in, their answers out, in order and in bounds.
//!
//! (1) A turn takes a bounded number of arrivals, so that no client starves the others.
//! (2) Answers that the client's ring has no room for wait here, at most [`QUEUE_DEPTH`]. The worker
//!     continues to take requests, because the client's credit for more answers may come behind them. A
//!     client that asks for more without taking answers is dropped.
//! (3) A waiting answer is small: a GET waits as its key and is executed when its turn comes.
//! (4) A breach of the protocol ends this connection, with a reason in the log, and nothing else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use longarm_base::limits::QUEUE_DEPTH;
use longarm_base::{Csn, Nanos};
use longarm_fabric::ring::{BadFrame, Mailbox};
use longarm_fabric::{Broken, Channel, Completion, Completions, PostError, QueuePair, Told};
use longarm_host::Mutex;
use longarm_host::observe::{Observation, observe};
use longarm_wire::{Bad, Request, RequestKind, Response, Status};

use crate::backup::Hold;
use crate::execute::{Executed, Execution, backup_step, execute};
use crate::lookahead::Lookahead;
use crate::shared::{ClientSlot, ConnectedClient};
use longarm_engine::Commit;
use longarm_engine::Outcome;
use longarm_engine::Timestamps;
use longarm_engine::session::Session;
use longarm_engine::stream::StreamPosition;

/// Arrivals taken in one turn.
pub(crate) const BATCH: usize = 32;
/// Turns without news between two checks that the connection still stands.
const LOOK_EVERY: u32 = 256;
/// Requests between two looks at the memory that the connection takes.
const NOTE_EVERY: u64 = 256;
/// The size from which a message may make its worker look stuck for a while.
const LONG: usize = 256 << 10;

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// There was nothing to do.
    Idle,
    /// Something was done.
    Busy,
    /// Something waits whose continuation no arrival may announce: look again soon.
    Waiting,
    /// The connection is over.
    Gone,
}

/// Why this side ends a connection.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Frame(#[from] BadFrame),
    #[error("{0}")]
    Message(#[from] Bad),
    #[error("it sent something that is not a request")]
    Arrival,
    #[error("it has more than {QUEUE_DEPTH} requests without taking their answers")]
    Greedy,
    #[error("its client connected again")]
    Fenced,
    #[error("the connection broke")]
    Broken,
}

impl From<PostError> for Fault {
    fn from(_: PostError) -> Fault {
        Fault::Broken
    }
}

/// An answer that waits for room.
enum Late {
    Header([u8; 48]),
    /// An answer that waits until its entry is applied.
    Applied {
        header: [u8; 48],
        at: StreamPosition,
    },
    Get {
        operation: u64,
        key: Box<[u8]>,
    },
    Stats {
        operation: u64,
    },
    Spilled {
        operation: u64,
        after: Box<[u8]>,
    },
}

/// A client's connection, owned by one worker.
pub(crate) struct Connection<Q> {
    qp: Q,
    mailbox: Mailbox,
    /// Arrivals of the last poll, and how many of them were taken.
    done: Completions,
    next: usize,
    lookahead: Lookahead,
    late: VecDeque<Late>,
    /// When the wait of the request in the mailbox ends, if it waits, in time of maintenance's work.
    stalled: Option<Nanos>,
    session: Arc<Mutex<Session>>,
    generation: u64,
    client: Arc<ConnectedClient>,
    /// What its backup keeps, if it makes one.
    hold: Option<Hold>,
    quiet: u32,
    /// Given back when the connection is dropped.
    _slot: ClientSlot,
}

impl<Q: QueuePair> Connection<Q> {
    pub fn new(
        qp: Q,
        mailbox: Mailbox,
        session: Arc<Mutex<Session>>,
        generation: u64,
        client: Arc<ConnectedClient>,
        slot: ClientSlot,
    ) -> Connection<Q> {
        let (done, late) = (Completions::new(BATCH), VecDeque::new());
        let (next, quiet, stalled) = (0, 0, None);
        let lookahead = Lookahead::new();
        Connection {
            qp,
            mailbox,
            done,
            next,
            lookahead,
            late,
            stalled,
            session,
            generation,
            client,
            hold: None,
            quiet,
            _slot: slot,
        }
    }

    /// Takes what has arrived, executes it, and answers.
    pub fn turn(&mut self, execution: &mut Execution<'_>) -> Turn {
        if self.next == self.done.as_slice().len() {
            self.done.clear();
            self.next = 0;
            self.lookahead.clear();
            if self.qp.poll(&mut self.done) == 0 && !self.owes() {
                return self.quiet_turn(execution);
            }
        }
        self.quiet = 0;
        match self.work(execution) {
            Ok(turn) => turn,
            Err(fault) => self.end(execution, &fault),
        }
    }

    /// Whether something to send or to execute waits.
    pub fn owes(&self) -> bool {
        self.stalled.is_some() || !self.late.is_empty() || self.mailbox.is_sending()
    }

    /// Notes how much memory the connection takes, for statistics.
    #[cold]
    fn note_bytes(&self) {
        let own = size_of::<Self>() + self.late.capacity() * size_of::<Late>();
        let bytes = own + self.mailbox.held_bytes() + self.qp.held_bytes();
        // Relaxed: a figure that publishes nothing.
        self.client.bytes.store(bytes as u64, Ordering::Relaxed);
    }

    fn quiet_turn(&mut self, execution: &Execution<'_>) -> Turn {
        self.quiet += 1;
        if self.quiet.is_multiple_of(LOOK_EVERY) && !self.stands(execution) {
            return Turn::Gone;
        }
        Turn::Idle
    }

    /// Whether the connection still stands; if not, the reason goes to the log.
    pub fn stands(&self, execution: &Execution<'_>) -> bool {
        let Err(why) = self.qp.state() else { return true };
        if why != Broken::Closed {
            let ConnectedClient { name, peer, .. } = &*self.client;
            execution.shared.log(&format!("client {name:?} ({peer}) is gone: {why}"));
        }
        false
    }

    /// The core on which its requests came in, if some did since this was asked last and it can be told.
    pub fn came_in_on(&mut self) -> Option<u32> {
        self.qp.came_in_on()
    }

    /// Has another worker's channel serve it, unless something of it is under way here. Whether it does.
    pub fn move_to(&mut self, channel: &Channel) -> bool {
        !self.owes() && self.next == self.done.as_slice().len() && self.qp.move_to(channel)
    }

    /// How the worker's channel tells of it; `None` if the worker has to look.
    pub fn told(&self) -> Option<Told> {
        self.qp.told()
    }

    /// Asks for a wake-up; `true` if there is something to do already.
    pub fn arm(&mut self) -> bool {
        // While a write waits for memory, or for another write, no arrival is looked at.
        self.stalled.is_none() && (self.next < self.done.as_slice().len() || self.qp.arm())
    }

    #[cold]
    fn end(&mut self, execution: &Execution<'_>, fault: &Fault) -> Turn {
        if self.stands(execution) {
            let ConnectedClient { name, peer, .. } = &*self.client;
            execution.shared.log(&format!("client {name:?} ({peer}) was dropped: {fault}"));
        }
        Turn::Gone
    }

    fn work(&mut self, execution: &mut Execution<'_>) -> Result<Turn, Fault> {
        // The clock is read after the poll: every request of this batch had arrived.
        let times = execution.shared.core.timestamps();
        let before = (self.late.len(), self.next, self.stalled);
        self.send_late(execution, times)?;
        let session = self.session.clone();
        let mut session = session.lock();
        if self.stalled.is_none() || self.handle(execution, &mut session, times)? {
            let engine = &execution.shared.core.engine;
            // In a group a write looks its key up when it is applied, with others that are then ahead of it.
            let table = matches!(engine.commit, Commit::Direct).then(|| engine.index.newest());
            while let Some(&completion) = self.done.as_slice().get(self.next) {
                if let Some(table) = &table {
                    self.lookahead.fetch(engine, table, &self.mailbox, self.done.as_slice(), self.next);
                }
                self.next += 1;
                let (imm, len) = match completion {
                    Completion::Arrived { imm, len } => (imm, len),
                    Completion::Done(_, Ok(_)) => continue,
                    Completion::Done(_, Err(_)) => return Err(Fault::Broken),
                    Completion::Message { .. } => return Err(Fault::Arrival),
                };
                if self.mailbox.receive(imm, len)? && !self.handle(execution, &mut session, times)? {
                    break;
                }
            }
        }
        drop(session);
        self.mailbox.pump(&mut self.qp)?;
        self.qp.ring();
        let progress = before != (self.late.len(), self.next, self.stalled);
        Ok(if progress || !self.owes() { Turn::Busy } else { Turn::Waiting })
    }

    /// Executes the message in the mailbox and answers it. `false` if the request waits (`stalled`); then it
    /// stays in the mailbox.
    #[inline]
    fn handle(
        &mut self,
        execution: &mut Execution<'_>,
        session: &mut Session,
        times: Timestamps,
    ) -> Result<bool, Fault> {
        if !session.admits(self.generation) {
            return Err(Fault::Fenced);
        }
        let owes_answers = !self.late.is_empty() || self.mailbox.is_sending();
        let message = self.mailbox.message();
        let long = message.len() > LONG;
        if long {
            // Four nanoseconds a byte is slower than any copy; a copy that takes longer is stuck.
            execution.pulse.be_patient(times.now + Nanos(message.len() as u64 * 4));
        }
        let request = Request::decode(message)?;
        let (kind, operation) = (request.kind, request.operation);
        if owes_answers && matches!(kind, RequestKind::Get | RequestKind::Stats | RequestKind::Spilled) {
            self.wait_to_read()?;
        } else {
            let executed = match kind {
                RequestKind::Backup => match backup_step(execution, &mut self.hold, &request) {
                    Some(outcome) => Executed::Answer(outcome),
                    None => {
                        self.stalled = Some(Nanos(u64::MAX));
                        Executed::Wait
                    }
                },
                _ => execute(execution, session, &mut self.stalled, times, &request),
            };
            if matches!(executed, Executed::Wait) {
                return Ok(false);
            }
            self.answer(execution, times, operation, executed)?;
        }
        // Whatever the outcome, no request in the mailbox waits any more.
        self.stalled = None;
        execution.pulse.count(kind);
        // Relaxed: a counter with one writer.
        let requests = self.client.requests.load(Ordering::Relaxed) + 1;
        self.client.requests.store(requests, Ordering::Relaxed);
        if requests.is_multiple_of(NOTE_EVERY) || long {
            self.note_bytes();
        }
        if long {
            self.mailbox.shrink();
        }
        Ok(true)
    }

    #[inline]
    fn answer(
        &mut self,
        execution: &mut Execution<'_>,
        times: Timestamps,
        operation: u64,
        executed: Executed,
    ) -> Result<(), Fault> {
        match executed {
            Executed::Nothing | Executed::Wait => Ok(()),
            Executed::Answer(outcome) => {
                let header = response(times, operation, outcome, &[]).header();
                if self.late.is_empty() && self.send(&[&header])? {
                    return Ok(());
                }
                self.push_late(Late::Header(header))
            }
            Executed::Later(outcome, at) => {
                let header = response(times, operation, outcome, &[]).header();
                self.push_late(Late::Applied { header, at })
            }
            Executed::Value(outcome) => {
                if self.send_with(times, operation, outcome, execution.context.value())? {
                    execution.context.shrink();
                    return Ok(());
                }
                self.wait_to_read()
            }
            Executed::Text(text) => {
                if self.send_with(times, operation, Outcome::of(Status::Ok), &text)? {
                    return Ok(());
                }
                self.wait_to_read()
            }
        }
    }

    fn send_with(
        &mut self,
        times: Timestamps,
        operation: u64,
        outcome: Outcome,
        value: &[u8],
    ) -> Result<bool, Fault> {
        let header = response(times, operation, outcome, value).header();
        self.send(&[&header, value])
    }

    /// Sends an answer; `false` if there is no room.
    #[inline]
    fn send(&mut self, parts: &[&[u8]]) -> Result<bool, Fault> {
        match self.mailbox.send(&mut self.qp, parts) {
            Ok(()) => Ok(true),
            Err(PostError::Full) => Ok(false),
            Err(PostError::Broken) => Err(Fault::Broken),
            Err(PostError::Malformed) => unreachable!("a mailbox posts well-formed frames"),
        }
    }

    /// Lets the request in the mailbox wait until there is room for its answer.
    fn wait_to_read(&mut self) -> Result<(), Fault> {
        let request = Request::decode(self.mailbox.message())?;
        let operation = request.operation;
        let late = match request.kind {
            RequestKind::Get => Late::Get { operation, key: request.key.into() },
            RequestKind::Spilled => Late::Spilled { operation, after: request.value.into() },
            _ => Late::Stats { operation },
        };
        self.push_late(late)
    }

    fn push_late(&mut self, late: Late) -> Result<(), Fault> {
        if self.late.len() == QUEUE_DEPTH {
            return Err(Fault::Greedy);
        }
        self.late.push_back(late);
        Ok(())
    }

    /// Sends waiting answers, as far as there is room.
    fn send_late(&mut self, execution: &mut Execution<'_>, times: Timestamps) -> Result<(), Fault> {
        // An answer leaves the queue when it is sent: each round looks at the first, mostly in vain.
        let mut waiting = std::mem::take(&mut self.late);
        let mut sent = Ok(true);
        while let Some(first) = waiting.front() {
            sent = self.try_late(execution, times, first);
            if !matches!(sent, Ok(true)) {
                break;
            }
            waiting.pop_front();
        }
        self.late = waiting;
        sent.map(|_| ())
    }

    /// Sends the answer that waits longest; `false` if it waits on.
    fn try_late(
        &mut self,
        execution: &mut Execution<'_>,
        times: Timestamps,
        late: &Late,
    ) -> Result<bool, Fault> {
        self.mailbox.pump(&mut self.qp)?;
        // While a long answer is on its way no other can follow, so a GET would be executed in vain.
        Ok(!self.mailbox.is_sending() && self.send_one(execution, times, late)?)
    }

    fn send_one(
        &mut self,
        execution: &mut Execution<'_>,
        times: Timestamps,
        late: &Late,
    ) -> Result<bool, Fault> {
        match late {
            Late::Header(header) => self.send(&[header]),
            Late::Applied { header, at } => {
                let sent = execution.shared.core.is_applied(*at) && self.send(&[header])?;
                if sent {
                    observe(|| Observation::Acknowledged { stream: at.stream, position: at.position });
                }
                Ok(sent)
            }
            Late::Get { operation, key } => {
                let request = Request { key, ..Request::new(RequestKind::Get, *operation) };
                let outcome = execution.shared.core.engine.get(execution.context, times, &request);
                let Some(outcome) = outcome.ok().filter(|_| execution.shared.core.may_tell()) else {
                    return Ok(false);
                };
                observe(|| Observation::Answered);
                let sent = self.send_with(times, *operation, outcome, execution.context.value())?;
                execution.context.shrink();
                Ok(sent)
            }
            Late::Stats { operation } => {
                let text = execution.shared.stats().to_json();
                self.send_with(times, *operation, Outcome::of(Status::Ok), &text)
            }
            Late::Spilled { operation, after } => {
                let list = execution.shared.core.engine.spilled(after, times);
                let tells = execution.shared.core.may_tell();
                Ok(tells && self.send_with(times, *operation, Outcome::of(Status::Ok), &list)?)
            }
        }
    }

    /// Ends the connection: another one may take up the session.
    pub fn leave(self, now: Nanos) {
        self.session.lock().leave(self.generation, now);
    }
}

#[inline]
fn response(times: Timestamps, operation: u64, outcome: Outcome, value: &[u8]) -> Response<'_> {
    let Outcome { status, csn, number } = outcome;
    let csn = if csn.is_valid() { csn } else { Csn::NONE };
    Response { status, operation, csn, number, stamp: times.now, unix: times.unix, value }
}
