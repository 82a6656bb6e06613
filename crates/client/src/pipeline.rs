//! The client itself, and requests in flight: submit, poll, retry, and the truth about what is in doubt.
//!
//! Every write has an operation number of the client's session. Requests without an answer are kept, and sent
//! again (same session, same numbers) after a broken connection; the server answers those it has executed
//! from its records. What is still unanswered at the deadline, or belongs to a server that lost its memory,
//! is in doubt.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};

use longarm_base::limits::{QUEUE_DEPTH, VALUE_MAX};
use longarm_base::{Csn, Nanos};
use longarm_fabric::{Address, Any, PostError, QueuePair, Transport};
use longarm_memory::Hash;
use longarm_wire::{Request, RequestKind, Status};

use crate::cache::Cache;
use crate::clock::now;
use crate::error::Error;
use crate::get::check_key;
use crate::link::{Answer, Counters, Link, Trouble};
use crate::multi_get::Flight;
use crate::options::Options;

/// Places remembered where a round trip costs more than a cache line.
const CACHE_ENTRIES: usize = 65_536;
/// Hints sent in one message.
const HINTS: usize = 32;

/// Names a submitted request until its answer was polled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Ticket(pub u64);

/// What a request came to. The statuses that are errors come as [`Error`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// Done; the version written or removed.
    Done(Csn),
    /// An increment's result and version.
    Number(i64, Csn),
    /// No such key.
    NotFound,
    /// The condition did not hold; the key's version, if it is there.
    Mismatch(Option<Csn>),
    /// Text of the server's statistics.
    Text(String),
}

/// A request that has no answer yet.
struct InFlight {
    operation: u64,
    kind: RequestKind,
    message: Vec<u8>,
    deadline: Nanos,
    abandoned: bool,
}

/// A connection to one server, for one thread.
pub struct Client<T: Transport = Any> {
    transport: T,
    address: Address,
    pub(crate) options: Options,
    pub(crate) link: Option<Link<T::Qp>>,
    session: u64,
    pub(crate) boot: u64,
    next_operation: u64,
    open: VecDeque<InFlight>,
    spare: Vec<Vec<u8>>,
    finished: VecDeque<(Ticket, Result<Reply, Error>)>,
    counters: Counters,
    pub(crate) cache: Cache,
    pub(crate) large: Vec<u8>,
    pub(crate) flights: Vec<Flight>,
    pub(crate) unfinished: Vec<usize>,
    /// The clock when the last operation's READs were judged; zero if the next must read it.
    pub(crate) began: Nanos,
    pub(crate) hint_in: u32,
    hints: Vec<u8>,
}

impl Client<Any> {
    /// Connects over the transport the address names.
    pub fn connect(address: &Address, options: Options) -> Result<Client<Any>, Error> {
        Client::connect_over(Any::default(), address, options)
    }
}

impl<T: Transport> Client<T> {
    /// Connects over a transport with settings of its own.
    pub fn connect_over(transport: T, address: &Address, options: Options) -> Result<Client<T>, Error> {
        let session = random();
        let link = Link::connect(&transport, address, &options, session)?;
        let local = matches!(address, Address::Shm(_));
        let entries = options.cache.unwrap_or(if local { 0 } else { CACHE_ENTRIES });
        Ok(Client {
            transport,
            address: address.clone(),
            session,
            boot: link.welcome.boot,
            link: Some(link),
            next_operation: 1,
            open: VecDeque::new(),
            spare: Vec::new(),
            finished: VecDeque::new(),
            counters: Counters::default(),
            cache: Cache::new(entries),
            large: Vec::new(),
            flights: Vec::new(),
            unfinished: Vec::new(),
            began: Nanos(0),
            hint_in: options.hint_every.max(1),
            hints: Vec::new(),
            options,
        })
    }

    /// The transport really in use and its peer.
    pub fn describe(&self) -> String {
        match &self.link {
            Some(link) => link.qp.describe(),
            None => format!("{} (not connected)", self.address),
        }
    }

    /// Where it connects.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Process id of the server.
    pub fn server_pid(&self) -> Option<u32> {
        self.link.as_ref().and_then(|link| u32::try_from(link.welcome.pid).ok())
    }

    /// What happened on this client so far.
    pub fn counters(&self) -> Counters {
        let now = self.link.as_ref().map_or(Counters::default(), |link| link.counters);
        add(self.counters, now)
    }

    /// Requests without an answer yet.
    pub fn in_flight(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn deadline(&self) -> Nanos {
        let base = if self.began == Nanos(0) { now() } else { self.began };
        base + Nanos(self.options.timeout.as_nanos() as u64)
    }

    pub(crate) fn link(&mut self) -> Result<&mut Link<T::Qp>, Error> {
        let address = &self.address;
        self.link
            .as_mut()
            .ok_or_else(|| Error::Lost { address: address.to_string(), reason: "not connected".into() })
    }

    #[inline(always)]
    pub(crate) fn connected(&mut self) -> Result<&mut Link<T::Qp>, Trouble> {
        self.link.as_mut().ok_or_else(|| Trouble::Broken("not connected".into()))
    }

    /// Deals with trouble: connects again where that helps and the deadline allows, and sends again what has
    /// no answer.
    #[cold]
    pub(crate) fn recover(&mut self, trouble: Trouble, deadline: Nanos) -> Result<(), Error> {
        self.began = Nanos(0);
        let reason = match trouble {
            Trouble::Broken(reason) => reason,
            Trouble::Unresponsive | Trouble::Late => {
                return Err(Error::Unresponsive {
                    address: self.address.to_string(),
                    waited: self.options.timeout,
                });
            }
        };
        if let Some(link) = self.link.take() {
            self.counters = add(self.counters, link.counters);
        }
        self.cache.clear();
        let mut pause = std::time::Duration::from_millis(1);
        loop {
            match Link::connect(&self.transport, &self.address, &self.options, self.session) {
                Ok(link) => {
                    self.counters.reconnects += 1;
                    self.adopt(link);
                    return Ok(());
                }
                Err(error) if now() >= deadline => {
                    let reason = format!("{reason}; then: {error}");
                    return Err(Error::Lost { address: self.address.to_string(), reason });
                }
                Err(longarm_fabric::SetupError::Login(why)) => {
                    return Err(Error::Connect(longarm_fabric::SetupError::Login(why)));
                }
                Err(_) => {
                    std::thread::park_timeout(pause);
                    pause = (pause * 2).min(std::time::Duration::from_millis(50));
                }
            }
        }
    }

    /// Takes a new connection into use: the same server gets the unanswered requests again, another one
    /// cannot know them.
    fn adopt(&mut self, link: Link<T::Qp>) {
        let same = link.welcome.boot == self.boot;
        self.boot = link.welcome.boot;
        self.link = Some(link);
        if !same {
            let lost = "the server lost its memory before it answered";
            for request in std::mem::take(&mut self.open) {
                if !request.abandoned {
                    let outcome = Err(Error::InDoubt(lost.into()));
                    self.finished.push_back((Ticket(request.operation), outcome));
                }
            }
            return;
        }
        let open = std::mem::take(&mut self.open);
        for request in &open {
            let link = self.link.as_mut().expect("just connected");
            link.sent_at.push_back((request.operation, now()));
            // A ring that is too full breaks nothing: the next recovery, or the deadline, deals with it.
            let _ = link.mailbox.send(&mut link.qp, &[&request.message]);
        }
        self.link.as_mut().expect("just connected").qp.ring();
        self.open = open;
    }

    /// Sends a request without waiting; its outcome comes from [`poll`](Self::poll) or [`wait`](Self::wait).
    /// At most 256 may be open: then [`Error::Full`]. The doorbell rings by itself on poll and wait.
    pub fn submit(&mut self, request: &crate::Write<'_>) -> Result<Ticket, Error> {
        check_key(request.key)?;
        if request.value.len() > VALUE_MAX {
            return Err(Error::ValueLength(request.value.len()));
        }
        self.post(request.to_wire(self.next_operation))
    }

    pub(crate) fn post(&mut self, request: Request<'_>) -> Result<Ticket, Error> {
        if self.open.len() >= QUEUE_DEPTH / 2 {
            return Err(Error::Full);
        }
        let deadline = self.deadline();
        let mut message = self.spare.pop().unwrap_or_default();
        message.clear();
        message.extend_from_slice(&request.header());
        message.extend_from_slice(request.key);
        message.extend_from_slice(request.value);
        loop {
            if self.link.is_none() {
                self.recover(Trouble::Broken("not connected".into()), deadline)?;
            }
            let link = self.link.as_mut().expect("connected");
            match link.mailbox.send(&mut link.qp, &[&message]) {
                Ok(()) => {
                    link.counters.requests += 1;
                    link.sent_at.push_back((request.operation, now()));
                    break;
                }
                Err(PostError::Full) => {
                    link.qp.ring();
                    if link.pump() == 0
                        && let Err(trouble) = link.wait_a_little(deadline)
                    {
                        self.recover(trouble, deadline)?;
                    }
                    self.collect();
                }
                Err(error) => {
                    let trouble = link.broken(&error.to_string());
                    self.recover(trouble, deadline)?;
                }
            }
        }
        self.next_operation = self.next_operation.max(request.operation + 1);
        let (operation, kind) = (request.operation, request.kind);
        self.open.push_back(InFlight { operation, kind, message, deadline, abandoned: false });
        Ok(Ticket(operation))
    }

    /// The outcome of some request, if one is there. Never blocks.
    pub fn poll(&mut self) -> Option<(Ticket, Result<Reply, Error>)> {
        if let Some(link) = &mut self.link {
            link.qp.ring();
            link.pump();
        }
        self.collect();
        self.finished.pop_front()
    }

    /// Waits for the outcome of one request; others may finish meanwhile and wait for [`poll`](Self::poll).
    pub fn wait(&mut self, ticket: Ticket) -> Result<Reply, Error> {
        let mut spins = 0u32;
        let spin_until = now() + Nanos(self.options.spin.as_nanos() as u64);
        if let Some(link) = &mut self.link {
            link.qp.ring();
        }
        loop {
            let n = self.link.as_mut().map_or(0, Link::pump);
            if n > 0 || !self.finished.is_empty() {
                self.collect();
                if let Some(at) = self.finished.iter().position(|(done, _)| *done == ticket) {
                    return self.finished.remove(at).expect("just found").1;
                }
            }
            spins += 1;
            if !spins.is_multiple_of(32) {
                std::hint::spin_loop();
                continue;
            }
            let Some(deadline) =
                self.open.iter().find(|open| open.operation == ticket.0).map(|open| open.deadline)
            else {
                return Err(Error::Invalid("no such request is open"));
            };
            self.await_more(deadline, spin_until, ticket)?;
        }
    }

    /// Between polls: sleep, reconnect, or give the request up as in doubt.
    fn await_more(&mut self, deadline: Nanos, spin_until: Nanos, ticket: Ticket) -> Result<(), Error> {
        let time = now();
        if time >= deadline {
            if let Some(open) = self.open.iter_mut().find(|open| open.operation == ticket.0) {
                open.abandoned = true;
            }
            return Err(Error::InDoubt(format!("no answer within {:?}", self.options.timeout)));
        }
        let broken = match &self.link {
            Some(link) => link.qp.state().err().map(|reason| reason.to_string()),
            None => Some("not connected".into()),
        };
        if let Some(reason) = broken {
            return self.recover(Trouble::Broken(reason), deadline).map_err(|error| match error {
                Error::Lost { reason, .. } => {
                    self.open.retain(|open| open.operation != ticket.0);
                    Error::InDoubt(reason)
                }
                other => other,
            });
        }
        if time < spin_until {
            std::thread::yield_now();
            return Ok(());
        }
        let link = self.link.as_mut().expect("not broken");
        // Short, so that a goodbye or a death is noticed within the timeout.
        link.qp.wait(std::time::Duration::from_millis(20));
        Ok(())
    }

    /// Matches answers with requests.
    fn collect(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Some(answer) = link.answers.pop_front() {
            let at = match self.open.front() {
                Some(first) if first.operation == answer.operation => Some(0),
                _ => self.open.iter().position(|open| open.operation == answer.operation),
            };
            // An answer to something given up, or answered before a reconnect: nobody waits for it.
            let Some(request) = at.and_then(|at| self.open.remove(at)) else { continue };
            if !request.abandoned {
                self.finished.push_back((Ticket(request.operation), outcome(request.kind, answer)));
            }
            if self.spare.len() < QUEUE_DEPTH && request.message.capacity() <= 4096 {
                self.spare.push(request.message);
            }
        }
    }

    /// A round trip through a worker, which anchors the lease.
    pub fn ping(&mut self) -> Result<(), Error> {
        let ticket = self.post(Request::new(RequestKind::Ping, self.next_operation))?;
        self.wait(ticket).map(|_| ())
    }

    /// The server's statistics, as JSON.
    pub fn stats(&mut self) -> Result<String, Error> {
        let ticket = self.post(Request::new(RequestKind::Stats, self.next_operation))?;
        match self.wait(ticket)? {
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
            // A hint that finds no room is lost, and nobody minds.
            let _ = link.mailbox.send(&mut link.qp, &[&request.header(), request.value]);
            link.qp.ring();
        }
        self.hints.clear();
    }
}

fn outcome(kind: RequestKind, answer: Answer) -> Result<Reply, Error> {
    match answer.status {
        Status::Ok if kind == RequestKind::Increment => Ok(Reply::Number(answer.number, answer.csn)),
        Status::Ok if kind == RequestKind::Stats => {
            Ok(Reply::Text(String::from_utf8_lossy(&answer.value).into_owned()))
        }
        Status::Ok => Ok(Reply::Done(answer.csn)),
        Status::NotFound => Ok(Reply::NotFound),
        Status::Mismatch => Ok(Reply::Mismatch((answer.csn != Csn::NONE).then_some(answer.csn))),
        Status::NotANumber => Err(Error::NotANumber),
        Status::Overflow => Err(Error::Overflow),
        Status::OutOfMemory => Err(Error::OutOfMemory),
        Status::Closing => Err(Error::Closing),
        Status::Forgotten => Err(Error::InDoubt("the server no longer remembers this operation".into())),
        Status::Invalid => Err(Error::Invalid("a limit is exceeded")),
    }
}

fn add(a: Counters, b: Counters) -> Counters {
    Counters {
        reads: a.reads + b.reads,
        torn: a.torn + b.torn,
        cache_hits: a.cache_hits + b.cache_hits,
        renewals: a.renewals + b.renewals,
        geometries: a.geometries + b.geometries,
        reconnects: a.reconnects + b.reconnects,
        requests: a.requests + b.requests,
    }
}

/// Sixty-four bits from the process's random hash keys.
fn random() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
        ^ u64::from(std::process::id()) << 32
}
