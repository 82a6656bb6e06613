//! What all threads of a server share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longarm_base::{Nanos, RegionId, Term, UnixMillis};
use longarm_fabric::{Grant, Rights};
use longarm_host::{Mutex, random};
use longarm_index::control::{CONTROL_REGION, Control};
use longarm_index::hash::layout::INDEX_REGION;
use longarm_memory::{Budget, Mapped, OwnedWords, Region, SumKey};
use longarm_wire::ARENA_REGION;

use crate::clock::Clock;
use crate::group::Standing;
use crate::options::{ServerOptions, StartError};
use crate::pulse::Pulse;
use longarm_engine::Moment;
use longarm_engine::reclaim::Unaccounted;
use longarm_engine::recover::Ahead;
use longarm_engine::recover::Findings;
use longarm_engine::session::Sessions;
use longarm_engine::stream::At;
use longarm_engine::{Engine, EngineOptions};

/// Added to the quarantine for the granularity of clocks and scheduling.
const MARGIN: Duration = Duration::from_millis(10);

/// Where the server is in its life. It only ever goes forward.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    /// Of a group's new leader: followers are brought in line, clients are not let in yet.
    Forming,
    /// Serving.
    Serving,
    /// Nobody is let in; what has arrived is answered, what comes later is told that the server closes.
    Draining,
    /// It said goodbye: connections end.
    Closing,
}

/// One connected client, for statistics.
#[derive(Debug)]
pub(crate) struct Client {
    pub name: String,
    pub peer: String,
    pub transport: String,
    pub requests: AtomicU64,
}

/// The regions lent to every client.
pub(crate) struct Lent {
    pub control: Arc<Region>,
    pub index: Arc<Region>,
    pub arena: Arc<Region>,
}

impl Lent {
    /// To look at.
    pub fn grants(&self) -> Vec<Grant> {
        let regions =
            [(CONTROL_REGION, &self.control), (INDEX_REGION, &self.index), (ARENA_REGION, &self.arena)];
        let grant = |(id, region): (RegionId, &Arc<Region>)| Grant {
            id,
            region: region.clone(),
            rights: Rights::READ,
        };
        regions.into_iter().map(grant).collect()
    }
}

/// Everything that threads share.
pub(crate) struct Shared {
    pub options: ServerOptions,
    pub clock: Clock,
    pub engine: Engine<Mapped>,
    pub control: Control<Mapped>,
    pub lent: Arc<Lent>,
    pub boot: u64,
    pub sum_key: u64,
    pub sessions: Sessions,
    pub pulses: Vec<Arc<Pulse>>,
    pub addresses: OnceLock<Vec<longarm_fabric::Address>>,
    /// Of a group's leader: what its replica says of itself.
    pub replica: OnceLock<Arc<Mutex<Standing>>>,
    pub beats: AtomicU64,
    pub withheld: AtomicU64,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    seats: AtomicUsize,
    next_client: AtomicU64,
    phase: AtomicU8,
    /// When the drain must be over, once it began.
    deadline: AtomicU64,
    /// Writes wait: a leader hands over.
    held: AtomicBool,
    grow_failed: AtomicBool,
}

/// A client's place among those allowed at once.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    number: u64,
}

/// What an engine of a server with these options is like; of a group's leader, in its term.
pub(crate) fn engine_options(options: &ServerOptions, hash_key: u64, term: Option<Term>) -> EngineOptions {
    // A client's lease, on a clock that may run 1 % slow, plus the longest READ that it still accepts.
    let quarantine = options.lease + options.lease / 100 + options.read_bound + MARGIN;
    EngineOptions {
        workers: options.workers as u16,
        slots: options.slots,
        expected_items: options.expected_items,
        found_items: 0,
        populate: true,
        hash_key,
        eviction: options.eviction,
        quarantine: Nanos(quarantine.as_nanos() as u64),
        term,
    }
}

/// An engine over what the arena holds, its index empty.
fn engine(
    options: &ServerOptions,
    lent: &Lent,
    sum_key: u64,
    engine_options: EngineOptions,
) -> Result<Engine<Mapped>, StartError> {
    let sums = SumKey::new(sum_key);
    let control = Control::of(lent.control.memory().clone(), sums.clone());
    let memory = (lent.index.memory().clone(), lent.arena.memory().clone());
    Ok(Engine::create(memory, control, sums, Arc::new(Budget::new(options.memory)), engine_options)?)
}

impl Shared {
    /// Of a server of its own, over fresh memory.
    pub fn alone(
        options: ServerOptions,
        lent: Arc<Lent>,
        boot: u64,
        (sum_key, hash_key): (u64, u64),
    ) -> Result<Shared, StartError> {
        let engine = engine(&options, &lent, sum_key, engine_options(&options, hash_key, None))?;
        Ok(Shared::new((options, Clock::start(UnixMillis(0))), lent, boot, sum_key, engine))
    }

    /// Of a group's leader, over the start set of its term, in which so many items are to be expected, from a
    /// calendar on that is no earlier than leaders before it had; what was restored of it ahead, if anything
    /// was.
    pub fn of_term(
        options: ServerOptions,
        lent: Arc<Lent>,
        (sum_key, hash_key): (u64, u64),
        (term, items, least): (Term, u64, UnixMillis),
        ahead: Option<Ahead<Mapped>>,
    ) -> Result<Shared, StartError> {
        let [boot] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let engine_options = engine_options(&options, hash_key, Some(term));
        let engine_options = EngineOptions { found_items: items, ..engine_options };
        let (engine, found) = match ahead {
            Some(ahead) => ahead.engine(SumKey::new(sum_key), engine_options)?,
            None => {
                // An index of an earlier term of ours.
                lent.index.memory().discard(0, lent.index.bytes());
                (engine(&options, &lent, sum_key, engine_options)?, Findings::default())
            }
        };
        let shared = Shared::new((options, Clock::start(least)), lent, boot, sum_key, engine);
        shared.engine.restore(&shared.sessions, shared.moment(), found);
        Ok(shared)
    }

    fn new(
        (options, clock): (ServerOptions, Clock),
        lent: Arc<Lent>,
        boot: u64,
        sum_key: u64,
        engine: Engine<Mapped>,
    ) -> Shared {
        let control = Control::create(lent.control.memory().clone(), boot, SumKey::new(sum_key));
        let keep = Nanos(options.keep_sessions.as_nanos() as u64);
        Shared {
            sessions: Sessions::new(2 * options.max_clients, keep),
            pulses: (0..options.workers).map(|_| Arc::new(Pulse::default())).collect(),
            options,
            clock,
            engine,
            control,
            lent,
            boot,
            sum_key,
            addresses: OnceLock::new(),
            replica: OnceLock::new(),
            beats: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
            clients: Mutex::default(),
            seats: AtomicUsize::new(0),
            next_client: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Serving as u8),
            deadline: AtomicU64::new(u64::MAX),
            held: AtomicBool::new(false),
            grow_failed: AtomicBool::new(false),
        }
    }

    pub fn log(&self, line: &str) {
        (self.options.log)(line);
    }

    #[inline]
    pub fn moment(&self) -> Moment {
        self.clock.moment()
    }

    #[inline]
    pub fn phase(&self) -> Phase {
        // Acquire: the deadline was stored before the phase; pairs with `enter`.
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Forming,
            1 => Phase::Serving,
            2 => Phase::Draining,
            _ => Phase::Closing,
        }
    }

    /// Clients may trust the memory for a lease from `stamp` on.
    pub fn vouch(&self, stamp: Nanos, moment: Moment) {
        self.control.beat(stamp, moment.unix);
    }

    /// Of a group's leader: its own lease lasts until then.
    pub fn set_lease(&self, end: Nanos) {
        self.engine.set_lease(end);
    }

    /// Whether new writes are to wait.
    pub fn hold_writes(&self, hold: bool) {
        // Relaxed: who sees it late takes some writes more, as if they had come sooner.
        self.held.store(hold, Ordering::Relaxed);
    }

    /// Whether they do.
    #[inline]
    pub fn holds_writes(&self) -> bool {
        // Relaxed: as in `hold_writes`.
        self.held.load(Ordering::Relaxed)
    }

    /// Whether what was just seen here may be told to a client: it is the newest there is. In a group that
    /// takes a lease which holds after the look.
    #[inline]
    pub fn may_tell(&self) -> bool {
        self.engine.leads(longarm_host::now)
    }

    /// Whether the entry at this position of a stream is applied.
    pub fn is_applied(&self, at: At) -> bool {
        self.engine.progress()[at.stream as usize].is_applied(at.position)
    }

    pub fn enter(&self, phase: Phase, deadline: Nanos) {
        // Relaxed: published by the store of the phase.
        self.deadline.store(deadline.0, Ordering::Relaxed);
        // Release: pairs with `phase`.
        self.phase.store(phase as u8, Ordering::Release);
    }

    pub fn deadline(&self) -> Nanos {
        // Relaxed: read after `phase`.
        Nanos(self.deadline.load(Ordering::Relaxed))
    }

    /// A seat, unless all are taken.
    pub fn take_seat(self: &Arc<Shared>) -> Option<Seat> {
        let max = self.options.max_clients;
        // Relaxed: counters that publish nothing.
        let taken =
            self.seats.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < max).then_some(n + 1));
        taken.ok()?;
        // Relaxed: as above.
        let number = self.next_client.fetch_add(1, Ordering::Relaxed);
        Some(Seat { shared: self.clone(), number })
    }

    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.clients.lock().values().cloned().collect()
    }

    /// A segment stays, because something in it is not accounted for. Keys may be secret: their hash is told.
    pub fn hold_back(&self, segment: u32, missing: &Unaccounted) {
        // Relaxed: a counter.
        self.engine.counts.held_back.fetch_add(1, Ordering::Relaxed);
        let (hash, csn) = (self.engine.hash(&missing.key).0, missing.csn.0);
        self.log(&format!(
            "segment {segment} is dead by the counts, but it holds version {csn} of the key with hash \
             {hash:016x}, which the index does not know and nothing replaced: it is kept everywhere. This is \
             a fault of Longarm: please report it with this log, and have another replica lead"
        ));
    }

    /// `true` the first time only: a limit that was reached is logged once.
    pub fn first_grow_failure(&self) -> bool {
        // Relaxed: only which of several lines is logged depends on it.
        !self.grow_failed.swap(true, Ordering::Relaxed)
    }
}

impl Seat {
    /// Lists the client that sits here.
    pub fn seat(&self, client: Arc<Client>) {
        let mut clients = self.shared.clients.lock();
        clients.insert(self.number, client);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.clients.lock().remove(&self.number);
        // Relaxed: as in `take_seat`.
        self.shared.seats.fetch_sub(1, Ordering::Relaxed);
    }
}
