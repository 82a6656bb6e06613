//! The client itself: its connection, and the way to a new connection.

use std::collections::VecDeque;
use std::time::Duration;

use longarm_base::{Csn, Nanos};
use longarm_fabric::{Address, Any, QueuePair, SetupError, Transport};
use longarm_host::now;
use longarm_wire::RefusalCode;

use crate::batch::{Batch, BatchLimit};
use crate::cache::Cache;
use crate::deadline::{Deadline, Earlier};
use crate::error::{Error, refusal};
use crate::flight::{InFlight, Reply, RequestId};
use crate::link::{ClientCounters, Link, SessionHello, Trouble};
use crate::options::Options;
use crate::scan::Scans;
use crate::side::Selector;
use crate::targets::Targets;

/// The pause between two rounds of tries to connect: least, most, and as a share of the time that went by. So
/// a client that waits for a new leader waits little longer than it must, and does not keep the leader from
/// its work.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
const PAUSE_SHARE: u64 = 8;
/// The number of remembered places, if a round trip costs more than a cache line.
const CACHE_ENTRIES: usize = 65_536;

/// A connection to one server, for one thread.
pub struct Client<T: Transport = Any> {
    pub(crate) transport: T,
    targets: Targets,
    pub(crate) options: Options,
    pub(crate) link: Option<Link<T::Qp>>,
    session: u64,
    /// The group that its leader named; zero for a server of its own.
    group: u64,
    pub(crate) boot: u64,
    pub(crate) next_operation: u64,
    /// Requests without an answer, in the order of their numbers.
    pub(crate) open: VecDeque<InFlight>,
    /// The number of the first open request that this connection has yet to carry; `None` if it carried all.
    pub(crate) unsent: Option<u64>,
    /// Polls that found nothing, while a request was under way.
    pub(crate) idle_polls: u32,
    pub(crate) spare: Vec<Vec<u8>>,
    /// Outcomes that were not fetched; submit adds no request to so many as may be open.
    pub(crate) finished: VecDeque<(RequestId, Result<Reply, Error>)>,
    pub(crate) counters: ClientCounters,
    pub(crate) cache: Cache,
    pub(crate) large: Vec<u8>,
    pub(crate) batch: Batch,
    pub(crate) batch_limit: BatchLimit,
    pub(crate) earlier: Earlier,
    pub(crate) hint_in: u32,
    pub(crate) hints: Vec<u8>,
    pub(crate) scans: Scans<T::Qp>,
    /// Who looks up keys, if nobody has decided.
    pub(crate) gets: Selector,
}

impl Client<Any> {
    /// Connects over the transport the address names.
    pub fn connect(address: &Address, options: Options) -> Result<Client<Any>, Error> {
        Client::connect_over(Any::default(), address, options)
    }

    /// Connects to the leader of a group's replicas.
    pub fn connect_group(addresses: &[Address], options: Options) -> Result<Client<Any>, Error> {
        Client::connect_group_over(Any::default(), addresses, options)
    }
}

impl<T: Transport> Client<T> {
    /// Connects over a transport with settings of its own.
    pub fn connect_over(transport: T, address: &Address, options: Options) -> Result<Client<T>, Error> {
        Client::connect_group_over(transport, std::slice::from_ref(address), options)
    }

    /// Connects to the leader of a group's replicas over a transport with settings of its own. A replica that
    /// does not lead names the leader, if it knows it. If several addresses are given, all are tried until
    /// `Options::connect_timeout` is over.
    ///
    /// # Panics
    /// If no address is given.
    pub fn connect_group_over(
        transport: T,
        addresses: &[Address],
        options: Options,
    ) -> Result<Client<T>, Error> {
        let drawn = longarm_host::random().map_err(|e| SetupError::Os("draw a random number", e));
        let [session] = drawn?;
        let mut targets = Targets::new(addresses, options.connect_timeout);
        let deadline = now() + Nanos(options.connect_timeout.as_nanos() as u64);
        let coming = SessionHello { session, fresh: 1, since: Csn::NONE };
        let (link, begun) = loop {
            let begun = now();
            match Link::connect(&transport, targets.current(), &options, targets.limit(), coming) {
                Ok(link) => break (link, begun),
                Err(error) => {
                    let elsewhere = options.follow
                        && refusal(&error).is_some_and(|why| why.code == RefusalCode::NotLeader);
                    let at_once = targets.failed(&error);
                    if (addresses.len() == 1 && !elsewhere) || now() >= deadline {
                        return Err(error.into());
                    }
                    if !at_once {
                        longarm_host::sleep(PAUSE_MIN);
                    }
                }
            }
        };
        targets.reached(now().since(begun));
        let local = matches!(targets.current(), Address::Shm(_));
        let entries = options.cache.unwrap_or(if local { 0 } else { CACHE_ENTRIES });
        Ok(Client {
            transport,
            targets,
            session,
            group: link.welcome.group,
            boot: link.welcome.boot,
            next_operation: 1,
            open: VecDeque::new(),
            unsent: None,
            idle_polls: 0,
            spare: Vec::new(),
            finished: VecDeque::new(),
            counters: ClientCounters::default(),
            cache: Cache::new(entries),
            large: Vec::new(),
            batch: Batch::default(),
            batch_limit: BatchLimit::default(),
            earlier: Earlier::default(),
            hint_in: options.hint_every * u32::from(link.welcome.wants_hints != 0),
            hints: Vec::new(),
            scans: Scans::new(session),
            gets: Selector::by_times(session),
            link: Some(link),
            options,
        })
    }

    /// The transport really in use and its peer.
    pub fn describe(&self) -> String {
        match &self.link {
            Some(link) => link.qp.describe(),
            None => format!("{} (not connected)", self.address()),
        }
    }

    /// The address to which it is connected, or connects next.
    pub fn address(&self) -> &Address {
        self.targets.current()
    }

    /// The addresses of the group that are known, of which one is the leader's.
    pub(crate) fn known(&self) -> &[Address] {
        self.targets.all()
    }

    /// The bound on one try to connect, of an operation that has so long left.
    pub(crate) fn connect_limit(&self, left: Duration) -> Duration {
        self.targets.limit_within(left)
    }

    /// The group that the server leads; zero for a server of its own.
    pub fn group(&self) -> u64 {
        self.group
    }

    /// Process id of the server.
    pub fn server_pid(&self) -> Option<u32> {
        self.link.as_ref().and_then(|link| u32::try_from(link.welcome.pid).ok())
    }

    /// The counters of this client so far.
    pub fn counters(&self) -> ClientCounters {
        let now = self.link.as_ref().map_or(ClientCounters::default(), |link| link.counters);
        add(self.counters, now)
    }

    /// Requests whose outcome is still to come.
    pub fn in_flight(&self) -> usize {
        self.open.iter().filter(|open| !open.abandoned).count()
    }

    /// The deadline of an operation that begins.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::within(self.options.timeout)
    }

    pub(crate) fn link(&mut self) -> Result<&mut Link<T::Qp>, Error> {
        let address = self.targets.current();
        self.link
            .as_mut()
            .ok_or_else(|| Error::Lost { address: address.to_string(), reason: "not connected".into() })
    }

    #[inline(always)]
    pub(crate) fn connected(&mut self) -> Result<&mut Link<T::Qp>, Trouble> {
        self.link.as_mut().ok_or_else(|| Trouble::Broken("not connected".into()))
    }

    pub(crate) fn unresponsive(&self) -> Error {
        Error::Unresponsive { address: self.address().to_string(), waited: self.options.timeout }
    }

    /// The caller's error for trouble that is not dealt with.
    pub(crate) fn failed(&self, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Broken(reason) | Trouble::Lost(reason) => {
                Error::Lost { address: self.address().to_string(), reason }
            }
            Trouble::Late | Trouble::Unresponsive | Trouble::NoLease => self.unresponsive(),
        }
    }

    /// The error of an unanswered request that would have changed nothing: it leaves no doubt.
    pub(crate) fn unanswered(&self, error: Error) -> Error {
        match error {
            Error::InDoubt(reason) if self.link.is_none() => {
                Error::Lost { address: self.address().to_string(), reason }
            }
            Error::InDoubt(_) => self.unresponsive(),
            other => other,
        }
    }

    /// Deals with trouble: connects again if that helps and the deadline allows, and sends all unanswered
    /// requests again.
    #[cold]
    pub(crate) fn recover(&mut self, trouble: Trouble, deadline: &Deadline) -> Result<(), Error> {
        let reason = match trouble {
            Trouble::Broken(reason) => reason,
            trouble => return Err(self.failed(trouble)),
        };
        if let Some(link) = self.link.take() {
            self.counters = add(self.counters, link.counters);
            // The server is there, but says nothing or has no lease, so another address is tried.
            if link.state().is_ok() {
                self.targets.leave();
            }
        }
        self.cache.clear();
        let lost = now();
        let since = self.open.front().map_or(Csn::NONE, |oldest| oldest.since);
        let coming = SessionHello { session: self.session, fresh: self.next_operation, since };
        deadline.end(lost);
        loop {
            let begun = now();
            let limit = self.targets.limit_within(deadline.left(begun));
            match Link::connect(&self.transport, self.targets.current(), &self.options, limit, coming) {
                Ok(link) => {
                    self.targets.reached(now().since(begun));
                    self.counters.reconnects += 1;
                    self.adopt(link);
                    return Ok(());
                }
                Err(error) if deadline.is_over(now()) => {
                    self.targets.failed(&error);
                    let reason = format!("{reason}; then: {error}");
                    return Err(Error::Lost { address: self.address().to_string(), reason });
                }
                Err(SetupError::Login(why)) => return Err(Error::Connect(SetupError::Login(why))),
                Err(error) => {
                    if !self.targets.failed(&error) {
                        let pause = Duration::from_nanos(now().since(lost).0 / PAUSE_SHARE);
                        longarm_host::sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX));
                    }
                }
            }
        }
    }

    /// Takes a new connection into use. The same server, and the next leader of its group, get the unanswered
    /// requests again; another server cannot know them.
    fn adopt(&mut self, link: Link<T::Qp>) {
        self.hint_in = self.options.hint_every * u32::from(link.welcome.wants_hints != 0);
        let of_group = link.welcome.group != 0 && link.welcome.group == self.group;
        let same = link.welcome.boot == self.boot || of_group;
        self.group = link.welcome.group;
        self.boot = link.welcome.boot;
        // The versions of a new leader may begin below what the lost one told.
        self.open.iter_mut().for_each(|request| request.since = request.since.min(link.seen));
        self.link = Some(link);
        if !same {
            for request in self.open.drain(..).filter(|request| !request.abandoned) {
                let why = "the server lost its memory before it answered";
                let outcome = Err(Error::InDoubt(why.into()));
                self.finished.push_back((RequestId(request.operation), outcome));
            }
        }
        self.unsent = self.open.front().map(|oldest| oldest.operation);
        self.send_again();
    }
}

pub(crate) fn add(a: ClientCounters, b: ClientCounters) -> ClientCounters {
    ClientCounters {
        reads: a.reads + b.reads,
        torn: a.torn + b.torn,
        cache_hits: a.cache_hits + b.cache_hits,
        renewals: a.renewals + b.renewals,
        geometries: a.geometries + b.geometries,
        reconnects: a.reconnects + b.reconnects,
        requests: a.requests + b.requests,
        served: a.served + b.served,
        pages: a.pages + b.pages,
        pages_again: a.pages_again + b.pages_again,
        walks: a.walks + b.walks,
        walks_left: a.walks_left + b.walks_left,
    }
}
