//! One connection: the queue pair, the message rings, the landing areas of READs, the lease and the geometry.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Csn, Nanos, Place, UnixMillis, limits};
use longarm_fabric::ring::Mailbox;
use longarm_fabric::{
    Address, Completion, Completions, ConnectRequest, Grant, Op, PostError, QueuePair, Rights, SetupError,
    Ticket, Transport, WorkError, spin_and_wait,
};
use longarm_host::observe::{Observation, observe};
use longarm_host::{AdaptiveSpin, now};
use longarm_index::hash::layout::INDEX_REGION;
use longarm_index::hash::{Geometry, ReadGranularity};
use longarm_memory::{Backing, HashKey, Region, RegionOptions, SumKey};
use longarm_store::progress::layout::PROGRESS_REGION;
use longarm_wire::{ARENA_REGION, Hello, MESSAGE_MAX, RING_REGION, Response, Status, Welcome};

use crate::calendar::Calendar;
use crate::deadline::Deadline;
use crate::fallback::Fallback;
use crate::lease::ClientLease;
use crate::lookup::View;
use crate::options::Options;

/// Lookups in flight at once.
pub(crate) const BATCH: usize = 64;
/// Landing bytes of one lookup: a segment, or an entry of up to this size.
pub(crate) const SLOT: u32 = 4096;
/// The distance of two landing areas: one line more, or the first lines of all areas would share one set of
/// the first-level cache.
const STRIDE: u32 = SLOT + limits::LINE as u32;
pub(crate) const CONTROL_AT: u32 = 0;
const SLOTS_AT: u32 = SLOT;
/// Landing lines of lookups that READ one line. They stand together, on few pages: with 64 in flight that was
/// measured to be faster (decision 40).
const LINES_AT: u32 = SLOTS_AT + BATCH as u32 * STRIDE;
/// Landing bytes for entries that are fetched in pieces.
const LARGE_AT: u32 = LINES_AT + BATCH as u32 * limits::LINE as u32;
const LARGE_PIECES: u32 = 4;
const LANDING: u32 = LARGE_AT + LARGE_PIECES * limits::READ_MAX;

/// The shortest and the longest sleep of a client that waits for a server. What comes wakes it, and so does
/// the end of the connection.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_secs(1);

/// Why a step on the connection failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection is broken: connect again.
    Broken(String),
    /// The connection could not be made again within the deadline.
    Lost(String),
    /// The deadline came first.
    Late,
    /// The server makes no progress.
    Unresponsive,
    /// No READ completes within a lease (an overloaded machine, or a slow network), or an item may be about
    /// to expire: the server can answer.
    NoLease,
}

impl Trouble {
    /// The error of the trouble while a connection is made.
    fn at_setup(self, address: &Address) -> SetupError {
        match self {
            Trouble::Late => SetupError::Timeout(address.to_string()),
            trouble => SetupError::Protocol(format!("{trouble:?}")),
        }
    }
}

/// The counters of a client, for people and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCounters {
    /// READs posted, heartbeats included.
    pub reads: u64,
    /// GETs that had to start again because bytes were of different moments.
    pub torn: u64,
    /// GETs answered from a remembered place.
    pub cache_hits: u64,
    /// Looks at the server's heartbeat.
    pub renewals: u64,
    /// Times the geometry was fetched.
    pub geometries: u64,
    /// Connections made after the first.
    pub reconnects: u64,
    /// Requests sent.
    pub requests: u64,
    /// GETs that the server answered, since READs could not settle them.
    pub served: u64,
    /// Pages of scans, and parts of counts, that replicas answered.
    pub pages: u64,
    /// Pages and parts that were asked for again, since the answer did not count or did not come.
    pub pages_again: u64,
    /// Pages of scans that the client made itself, by READs.
    pub walks: u64,
    /// Pages that it began to make, and asked for then, as they changed meanwhile or could not be had so.
    pub walks_left: u64,
}

/// An answer, copied out of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RingAnswer {
    pub(crate) status: Status,
    pub(crate) operation: u64,
    pub(crate) csn: Csn,
    pub(crate) number: i64,
    pub(crate) value: Vec<u8>,
}

/// The session that a client names when it connects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionHello {
    pub(crate) session: u64,
    /// The first operation that was never sent.
    pub(crate) fresh: u64,
    /// Each unanswered operation got a higher version than this one, if it was executed.
    pub(crate) since: Csn,
}

impl SessionHello {
    fn hello(self, options: &Options, ring_bytes: u64) -> Vec<u8> {
        let SessionHello { session, fresh, since: Csn(since) } = self;
        let (group, name) = (options.group, options.name.clone());
        Hello { session, ring_bytes, group, fresh, since, name }.encode()
    }
}

pub(crate) struct Link<Q> {
    pub(crate) qp: Q,
    pub(crate) mailbox: Mailbox,
    pub(crate) welcome: Welcome,
    pub(crate) sums: SumKey,
    pub(crate) hasher: HashKey,
    pub(crate) geometry: Geometry,
    pub(crate) granularity: ReadGranularity,
    pub(crate) lease: ClientLease,
    pub(crate) index_bytes: u64,
    arena_bytes: u64,
    /// Bytes of the region that says how far the leader's streams are; zero if it is not lent.
    progress_bytes: u64,
    pub(crate) calendar: Calendar,
    done: Completions,
    /// When the server last did something that the client waited for, or when the wait began.
    heard: Nanos,
    reads_open: usize,
    failed: Option<WorkError>,
    /// The server sent what cannot be read: nothing more of it is taken.
    foul: Option<String>,
    pub(crate) answers: VecDeque<RingAnswer>,
    /// When each unanswered request was sent, the oldest first: the oldest is the anchor of the lease.
    /// Questions without a number have zero.
    pub(crate) sent_at: VecDeque<(u64, Nanos)>,
    /// The highest version that the server told: a request that is sent now gets a higher one.
    pub(crate) seen: Csn,
    pub(crate) counters: ClientCounters,
    /// How long it looks for an answer before it sleeps.
    pub(crate) spin: AdaptiveSpin,
    pub(crate) fallback: Fallback,
}

/// Checks that the server remembers a request as long as the client repeats it, until the client's timeout is
/// over, also if the server's clock is fast and the client's slow.
fn check_timeout(timeout: Duration, remembers: Duration) -> Result<(), SetupError> {
    let drift = timeout / (1_000_000 / (2 * limits::DRIFT_PPM as u32) - 1);
    if timeout + drift <= remembers {
        return Ok(());
    }
    let text = format!(
        "a timeout of {timeout:?}: the server remembers what came of a request for {remembers:?}, and the \
         client repeats it for as long as its timeout; choose a shorter one"
    );
    Err(SetupError::Refused(text.into()))
}

/// Whether the request ring that the server lent is one, and as long as the server says.
pub(crate) fn check_ring(granted: u64, ring_bytes: u64) -> Result<(), SetupError> {
    if granted < ring_bytes || ring_bytes < 4096 || !ring_bytes.is_multiple_of(64) {
        return Err(SetupError::Protocol("the request ring has an impossible size".into()));
    }
    Ok(())
}

impl<Q: QueuePair> Link<Q> {
    /// Connects within `limit`, learns the geometry, and takes a first lease.
    pub(crate) fn connect<T: Transport<Qp = Q>>(
        transport: &T,
        address: &Address,
        options: &Options,
        limit: Duration,
        coming: SessionHello,
    ) -> Result<Link<Q>, SetupError> {
        let ring_bytes = options.ring_bytes.next_multiple_of(4096).max(8192);
        let backing = if matches!(address, Address::Tcp(_)) { Backing::Private } else { Backing::Memory };
        let ring = RegionOptions { name: "longarm-answers".into(), bytes: ring_bytes, backing };
        let ring = Arc::new(Region::create(&ring)?);
        let request = ConnectRequest {
            hello: &coming.hello(options, ring_bytes),
            grants: vec![Grant { id: RING_REGION, region: ring.clone(), rights: Rights::WRITE }],
            landing: LANDING,
            login: options.login.clone(),
            timeout: limit,
        };
        let sent = now();
        let connected = transport.connect(address, request)?;
        let answered = now();
        let welcome =
            Welcome::decode(&connected.welcome).map_err(|bad| SetupError::Protocol(bad.to_string()))?;
        check_timeout(options.timeout, Duration::from_nanos(welcome.keep_sessions))?;
        let granted = |id| {
            let found = connected.qp.granted().iter().find(|granted| granted.id == id);
            found
                .map(|granted| granted.bytes)
                .ok_or_else(|| SetupError::Protocol(format!("{id:?} was not granted")))
        };
        let (index_bytes, arena_bytes) = (granted(INDEX_REGION)?, granted(ARENA_REGION)?);
        let progress_bytes = granted(PROGRESS_REGION).unwrap_or(0);
        check_ring(granted(RING_REGION)?, welcome.ring_bytes)?;
        let stamp = Nanos(welcome.stamp);
        let mut lease = ClientLease::new(Nanos(welcome.lease));
        lease.anchor(sent, stamp);
        let local = matches!(address, Address::Shm(_));
        if local && sent <= stamp && stamp <= answered {
            lease.same_clock();
        }
        let sums = SumKey::new(welcome.sum_key);
        let mut link = Link {
            mailbox: Mailbox::new(ring.memory().clone(), RING_REGION, welcome.ring_bytes, MESSAGE_MAX),
            qp: connected.qp,
            welcome,
            sums,
            hasher: HashKey::new(0),
            geometry: Geometry { epoch: 0, tables: [None; limits::TABLES_MAX], hash_key: 0 },
            granularity: if local { ReadGranularity::Lines } else { ReadGranularity::Window },
            lease,
            index_bytes,
            arena_bytes,
            progress_bytes,
            calendar: Calendar::default(),
            done: Completions::new(limits::QUEUE_DEPTH),
            heard: answered,
            reads_open: 0,
            failed: None,
            foul: None,
            answers: VecDeque::new(),
            sent_at: VecDeque::new(),
            seen: Csn(welcome.csn),
            counters: ClientCounters::default(),
            spin: AdaptiveSpin::new(Nanos(options.spin.as_nanos() as u64)),
            fallback: Fallback::new(),
        };
        let deadline = &Deadline::at(answered + Nanos(limit.as_nanos() as u64));
        link.look_at_heartbeat(deadline).map_err(|trouble| trouble.at_setup(address))?;
        Ok(link)
    }

    /// The state that lookups need to know.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        View { geometry: &self.geometry, sums: &self.sums, arena_bytes: self.arena_bytes, slot_max: SLOT }
    }

    /// Landing area of lookup `i`, for a READ of so many bytes.
    #[inline(always)]
    pub(crate) fn landing_of(i: usize, len: u32) -> u32 {
        if u64::from(len) <= limits::LINE { LINES_AT + i as u32 * limits::LINE as u32 } else { Self::slot(i) }
    }

    /// Landing area of lookup `i`, whatever it READs.
    #[inline(always)]
    pub(crate) fn slot(i: usize) -> u32 {
        SLOTS_AT + i as u32 * STRIDE
    }

    /// One READ, complete on return.
    #[inline(always)]
    pub(crate) fn read(&mut self, from: Place, into: u32, deadline: &Deadline) -> Result<(), Trouble> {
        if self.reads_open == 0 && self.qp.read_now(from, into) {
            self.counters.reads += 1;
            return Ok(());
        }
        self.post_read(from, into, deadline)?;
        self.finish_reads(deadline)
    }

    /// READs how far the leader's streams are; `None` if it does not lend that.
    pub(crate) fn progress(&mut self, from: Place, deadline: &Deadline) -> Result<Option<&[u8]>, Trouble> {
        if from.offset + u64::from(from.len) > self.progress_bytes || from.len > limits::READ_MAX {
            return Ok(None);
        }
        self.read(from, LARGE_AT, deadline)?;
        Ok(Some(self.qp.landing(LARGE_AT, from.len)))
    }

    /// Posts a READ; [`finish_reads`](Self::finish_reads) ends it. If requests in flight fill the queue, or
    /// READs its window, it waits until some are complete.
    #[inline]
    pub(crate) fn post_read(&mut self, from: Place, into: u32, deadline: &Deadline) -> Result<(), Trouble> {
        self.counters.reads += 1;
        if self.reads_open == 0 && self.in_group() {
            self.heard = now();
        }
        loop {
            match self.qp.post(Op::Read { from, into }, Ticket(into as u64)) {
                Ok(()) => {
                    self.reads_open += 1;
                    return Ok(());
                }
                Err(PostError::Full) => {
                    self.qp.ring();
                    if self.pump() == 0 {
                        self.wait_a_little(deadline)?;
                    }
                }
                Err(error) => return Err(self.broken(&error.to_string())),
            }
        }
    }

    /// Rings the doorbell and waits until every READ posted is complete.
    #[inline]
    pub(crate) fn finish_reads(&mut self, deadline: &Deadline) -> Result<(), Trouble> {
        if self.reads_open == 0 {
            return Ok(());
        }
        self.qp.ring();
        loop {
            // A look just after the doorbell would mostly be in vain, and is a call of the system on some
            // transports. The deadline counts once there was a wait: what completes at once is never late.
            self.rest(Duration::MAX, |now| deadline.end(now));
            self.pump();
            if self.reads_open == 0 {
                break;
            }
            self.check(deadline)?;
        }
        match self.failed.take() {
            None => Ok(()),
            Some(error) => Err(self.broken(&error.to_string())),
        }
    }

    /// Whether another replica may lead by now, if this one is silent.
    #[inline]
    pub(crate) fn in_group(&self) -> bool {
        self.welcome.group != 0
    }

    /// How long a server may do nothing that the client waits for, before the client looks whether it is
    /// there, and for another leader if it is one.
    pub(crate) fn silence(&self) -> Nanos {
        let silence = self.patience() + self.patience();
        if self.in_group() { silence } else { silence.min(Nanos(REST_MAX.as_nanos() as u64)) }
    }

    /// Since when the server has done nothing that the client waited for. Of a server alone: when the client
    /// last looked for this reason, as reading the clock with each answer would cost time.
    pub(crate) fn heard(&self) -> Nanos {
        self.heard
    }

    /// Notes that a wait begins.
    pub(crate) fn listen(&mut self) {
        self.heard = now();
    }

    /// Why the connection is of no use any more, if it is not.
    pub(crate) fn state(&self) -> Result<(), String> {
        match &self.foul {
            Some(why) => Err(why.clone()),
            None => self.qp.state().map_err(|reason| reason.to_string()),
        }
    }

    pub(crate) fn broken(&self, what: &str) -> Trouble {
        Trouble::Broken(self.state().err().unwrap_or_else(|| what.to_string()))
    }

    /// Waits until there is something to poll, or to look at: the deadline is over, or the leader of a group
    /// has been silent for long; for `most` at most. A client that asks beside thousands of others waits for
    /// long as a rule, and each look in vain would take the time of those who are answered. Room for the rest
    /// of a long message may come back silently.
    pub(crate) fn rest(&mut self, most: Duration, deadline: impl FnOnce(Nanos) -> Nanos) {
        let silent = if self.in_group() { self.heard + self.silence() } else { Nanos(u64::MAX) };
        let longest = if self.mailbox.is_sending() { REST_MIN } else { most.min(REST_MAX) };
        spin_and_wait(&mut self.qp, &mut self.spin, Nanos(0), |now| {
            let left = deadline(now).min(silent).since(now);
            Duration::from_nanos(left.0).clamp(REST_MIN, longest)
        });
    }

    /// Waits until something happens, for at most a millisecond, and checks the deadline.
    pub(crate) fn wait_a_little(&mut self, deadline: &Deadline) -> Result<(), Trouble> {
        self.check(deadline)?;
        spin_and_wait(&mut self.qp, &mut self.spin, Nanos(0), |_| REST_MIN);
        Ok(())
    }

    /// Whether it makes sense to wait on.
    fn check(&self, deadline: &Deadline) -> Result<(), Trouble> {
        self.state().map_err(Trouble::Broken)?;
        let time = now();
        if deadline.is_over(time) {
            return Err(Trouble::Late);
        }
        if self.in_group() && time.since(self.heard) > self.silence() {
            return Err(Trouble::Broken("the leader shows no sign of life".into()));
        }
        Ok(())
    }

    /// Takes completions and arrivals; returns how many there were.
    #[inline]
    pub(crate) fn pump(&mut self) -> usize {
        let n = self.qp.poll(&mut self.done);
        // A long message also continues when nothing was reported: room may have come back silently.
        if n == 0 && !self.mailbox.is_sending() {
            return 0;
        }
        if n > 0 && self.in_group() {
            self.heard = now();
        }
        let mut arrived = false;
        for i in 0..self.done.as_slice().len() {
            match self.done.as_slice()[i] {
                Completion::Done(ticket, outcome) => {
                    if ticket != Ticket::SILENT {
                        self.reads_open -= 1;
                    }
                    if let Err(error) = outcome {
                        self.failed = Some(error);
                    }
                }
                Completion::Arrived { imm, len } => {
                    arrived = true;
                    self.take_answer(imm, len);
                }
                Completion::Message { buffer, .. } => self.qp.release(buffer),
            }
        }
        self.done.clear();
        if arrived || self.mailbox.is_sending() {
            let _ = self.mailbox.pump(&mut self.qp);
            self.qp.ring();
        }
        n
    }

    fn take_answer(&mut self, imm: u32, len: u32) {
        if self.foul.is_some() {
            return;
        }
        let response = match self.mailbox.receive(imm, len) {
            Ok(false) => return,
            Ok(true) => Response::decode(self.mailbox.message()).map_err(|bad| bad.to_string()),
            Err(bad) => Err(bad.to_string()),
        };
        let response = match response {
            Ok(response) => response,
            Err(bad) => {
                self.foul = Some(format!("the server sent an answer that cannot be read: {bad}"));
                self.failed = Some(WorkError::Flushed);
                return;
            }
        };
        while let Some((operation, sent)) = self.sent_at.pop_front() {
            if operation == response.operation {
                self.lease.anchor(sent, response.stamp);
                break;
            }
        }
        self.seen = self.seen.max(response.csn);
        self.answers.push_back(RingAnswer {
            status: response.status,
            operation: response.operation,
            csn: response.csn,
            number: response.number,
            value: response.value.to_vec(),
        });
        self.mailbox.shrink();
    }

    /// Whether results that are complete at `now` count.
    #[inline(always)]
    pub(crate) fn trusted(&self, begin: Nanos, end: Nanos) -> bool {
        let trusted = self.lease.valid(end) && end.since(begin).0 <= self.welcome.read_bound;
        if trusted {
            observe(|| Observation::Relied { boot: self.welcome.boot, at: end });
        }
        trusted
    }

    pub(crate) fn wants_anchor(&mut self, now: Nanos) -> bool {
        self.lease.wants_anchor(now)
    }

    #[inline(always)]
    pub(crate) fn should_renew(&self, now: Nanos) -> bool {
        self.lease.should_renew(now)
    }

    /// How long to look for a valid lease before the server is asked instead.
    pub(crate) fn patience(&self) -> Nanos {
        Nanos(self.welcome.lease.saturating_mul(2)).max(Nanos::from_millis(20))
    }

    pub(crate) fn has_lease(&self, now: Nanos) -> bool {
        self.lease.valid(now)
    }

    /// Whether the server surely led at a moment that has passed.
    pub(crate) fn led_at(&self, at: Nanos) -> bool {
        let led = self.lease.valid(at);
        if led {
            observe(|| Observation::Relied { boot: self.welcome.boot, at });
        }
        led
    }

    /// The server's calendar now, or a little earlier.
    pub(crate) fn unix_now(&self, now: Nanos) -> UnixMillis {
        self.calendar.least(now)
    }

    /// Whether an item with this expiry is surely there, by the server's calendar.
    #[inline(always)]
    pub(crate) fn is_in_time(&self, expiry: UnixMillis, now: Nanos) -> bool {
        self.calendar.is_in_time(expiry, now)
    }

    /// Fetches bytes in pieces, several READs in flight.
    pub(crate) fn fetch(
        &mut self,
        whole: Place,
        into: &mut Vec<u8>,
        deadline: &Deadline,
    ) -> Result<(), Trouble> {
        into.clear();
        into.reserve(whole.len as usize);
        let mut at = 0;
        while at < whole.len {
            let mut pieces = 0;
            let first = at;
            while at < whole.len && pieces < LARGE_PIECES {
                let piece = (whole.len - at).min(limits::READ_MAX);
                let from = Place::new(whole.region, whole.offset + u64::from(at), piece);
                self.post_read(from, LARGE_AT + pieces * limits::READ_MAX, deadline)?;
                at += piece;
                pieces += 1;
            }
            self.finish_reads(deadline)?;
            let mut copied = first;
            for piece in 0..pieces {
                let part = (at - copied).min(limits::READ_MAX);
                into.extend_from_slice(self.qp.landing(LARGE_AT + piece * limits::READ_MAX, part));
                copied += part;
            }
        }
        Ok(())
    }
}
