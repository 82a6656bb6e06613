//! What the threads that serve from one engine share: the threads of a server without replicas, or those of a
//! leader in its term.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use longarm_base::{Csn, Nanos, Term, UnixMillis};
use longarm_engine::persistent::root::CALENDAR_AHEAD;
use longarm_engine::reclaim::Unaccounted;
use longarm_engine::recover::{Recovered, Standby};
use longarm_engine::session::{Sessions, ToldAges};
use longarm_engine::stream::{Stream, StreamPosition};
use longarm_engine::{Engine, EngineOptions, Eviction, PersistentMemory, ReopenEngineError, Timestamps};
use longarm_host::random;
use longarm_index::control::Control;
use longarm_index::hash::{Discipline, Reopened, SlotKind};
use longarm_memory::{Budget, Mapped, OwnedWords, Region, SumKey};
use longarm_wire::GroupTimes;

use crate::clock::Clock;
use crate::durable::gate::DiskGate;
use crate::durable::options::{Durability, medium_name};
use crate::durable::served::PersistentData;
use crate::keys::Keys;
use crate::log::{Log, Notice};
use crate::options::{GroupOptions, StartError};
use crate::pulse::Pulse;
use crate::stats::DiskStats;

/// What the quarantine is longer by, for the granularity of clocks and scheduling.
const MARGIN: Duration = Duration::from_millis(10);

/// When a follower keeps its standby index up to date, with up to a quarter of a core (decision 14). What it
/// has not looked at when it becomes the leader is looked at then, while no client is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeepUp {
    /// While a core of its machine is idle, or little is written; otherwise it takes a hundredth of a core.
    WhileIdle,
    /// Always: the next leader serves at once, and writes are slower where all cores are busy.
    Always,
}

/// The options of a server that an engine and its threads go by.
#[derive(Clone)]
pub struct CoreOptions {
    /// The number of threads that execute writes.
    pub workers: usize,
    /// The limit on the bytes of index and arena together.
    pub memory: u64,
    /// How long a heartbeat vouches for the memory.
    pub lease: Duration,
    /// How long a worker may make no progress before heartbeats stop.
    pub stall: Duration,
    /// How long the longest one-sided READ may take that a client accepts.
    pub read_bound: Duration,
    /// The kind of index slots.
    pub slots: SlotKind,
    /// How the index replaces records.
    pub discipline: Discipline,
    /// The number of items that the index has room for before it first grows.
    pub expected_items: u64,
    /// What a full memory does to a write.
    pub eviction: Eviction,
    /// The number of clients' sessions that are remembered.
    pub sessions: usize,
    /// How long completions of a client that left are remembered.
    pub keep_sessions: Duration,
    /// When a follower keeps its standby index up to date.
    pub standby: KeepUp,
    /// Where lines go that say what happens.
    pub log: Log,
}

impl CoreOptions {
    /// How long outcomes are kept for clients that may repeat.
    pub(crate) fn keep(&self) -> Nanos {
        Nanos(self.keep_sessions.as_nanos() as u64)
    }

    /// The options of the engine; a group's leader has a term.
    pub(crate) fn engine(&self, hash_key: u64, term: Option<Term>) -> EngineOptions {
        // A client's lease, on a clock that may run 1 % slow, plus the longest READ that the client accepts.
        let quarantine = self.lease + self.lease / 100 + self.read_bound + MARGIN;
        EngineOptions {
            workers: self.workers as u16,
            slots: self.slots,
            discipline: self.discipline,
            expected_items: self.expected_items,
            found_items: 0,
            populate: true,
            hash_key,
            eviction: self.eviction,
            quarantine: Nanos(quarantine.as_nanos() as u64),
            term,
            progress: None,
        }
    }
}

/// The regions of an engine, lent to every client to READ.
pub struct Lent {
    /// The control page.
    pub control: Arc<Region>,
    /// The index.
    pub index: Arc<Region>,
    /// The arena.
    pub arena: Arc<Region>,
    /// Of a group's replica: how far its streams are while it leads. Not lent to clients.
    pub progress: Option<Arc<Region>>,
}

/// The times that all replicas of a group have alike.
pub(crate) fn group_times(group: &GroupOptions, core: &CoreOptions) -> GroupTimes {
    GroupTimes { promise: group.timing.promise, keep: core.keep() }
}

/// What a leader's core goes on from, of the terms before its own.
#[derive(Clone, Copy)]
pub struct TermStart {
    /// The leader's term.
    pub term: Term,
    /// The number of items to expect in the start set.
    pub items: u64,
    /// The earliest time at which the calendar of the term may begin: no calendar of an earlier leader was
    /// ahead of it.
    pub calendar: UnixMillis,
    /// What an earlier leader told this replica of the ages of versions.
    pub ages: ToldAges,
    /// No version up to this one is drawn again.
    pub ceiling: Csn,
}

/// Where a server is in its life. A server only goes forward in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// A group's new leader waits for followers to catch up, and lets no client in yet.
    Forming,
    /// The server serves.
    Serving,
    /// The server lets no client in. Requests that had arrived are answered, and later ones are told that the
    /// server closes.
    Draining,
    /// The server has said goodbye, and ends its connections.
    Closing,
}

/// An engine, and what its threads share.
pub struct Core {
    /// The options that it was made with.
    pub options: CoreOptions,
    /// The engine, which executes requests.
    pub engine: Engine<Mapped>,
    /// The control page, which vouches for the memory.
    pub control: Control<Mapped>,
    /// The memory.
    pub lent: Arc<Lent>,
    /// A number drawn when the core was made, which every heartbeat repeats.
    pub boot: u64,
    /// The key of the checksums.
    pub sum_key: u64,
    /// The clients' sessions, with what came of their operations.
    pub sessions: Sessions,
    /// The pulses of the workers, by worker.
    pub pulses: Vec<Arc<Pulse>>,
    /// The number of heartbeats.
    pub beats: AtomicU64,
    /// The number of heartbeats withheld because a worker made no progress.
    pub withheld: AtomicU64,
    /// The disk behind the memory, if there is one.
    pub disk: Option<Arc<DiskGate>>,
    /// The memory that outlives this core, if it is such memory.
    data: Option<PersistentData>,
    clock: Clock,
    life: Life,
}

/// Where a server is in its life. Workers look at it in each round, and it hardly ever changes: the alignment
/// keeps it from sharing a cache line with counters that other threads change all the time.
#[derive(Debug)]
#[repr(align(128))]
struct Life {
    phase: AtomicU8,
    /// When the drain must be over, once it has begun.
    deadline: AtomicU64,
    /// Whether new writes wait, since the leader hands over.
    held: AtomicBool,
}

/// An engine over what the arena holds, with an empty index.
fn engine(
    options: &CoreOptions,
    lent: &Lent,
    sum_key: u64,
    engine_options: EngineOptions,
) -> Result<Engine<Mapped>, StartError> {
    let sums = SumKey::new(sum_key);
    let control = Control::of(lent.control.memory().clone(), sums.clone());
    let (index, arena) = (lent.index.memory().clone(), lent.arena.memory().clone());
    let budget = Arc::new(Budget::new(options.memory));
    Ok(Engine::create(index, arena, control, sums, budget, engine_options)?)
}

impl Core {
    /// The core of a server without replicas, over fresh memory.
    pub fn alone(options: CoreOptions, lent: Arc<Lent>, boot: u64, keys: Keys) -> Result<Core, StartError> {
        let engine = engine(&options, &lent, keys.sum, options.engine(keys.hash, None))?;
        Ok(Core::new(options, Clock::start(UnixMillis(0)), lent, boot, keys.sum, engine))
    }

    /// The core of a server without replicas over memory that is persistent: over what its last life left,
    /// which the report is of, or over fresh memory.
    pub fn persistent(
        options: CoreOptions,
        lent: Arc<Lent>,
        boot: u64,
        data: PersistentData,
    ) -> Result<(Core, Option<Reopened>), ReopenEngineError> {
        let (keys, sums) = (data.keys, SumKey::new(data.keys.sum));
        let control = Control::of(lent.control.memory().clone(), sums.clone());
        let [root, index, arena] = [&data.root, &data.index, &data.arena].map(|it| it.memory().clone());
        let budget = Arc::new(Budget::new(options.memory));
        let memory = PersistentMemory { root, index, arena };
        let (engine, found) =
            Engine::persistent(memory, control, sums, budget, options.engine(keys.hash, None))?;
        let calendar = engine.root.as_ref().expect("persistent memory has a root").calendar();
        let clock = Clock::start_after(calendar, CALENDAR_AHEAD);
        let core = Core::new(options, clock, lent, boot, keys.sum, engine);
        Ok((Core { data: Some(data), ..core }, found))
    }

    /// The figures of what outlives the memory, or of memory that outlives its process.
    pub fn disk_stats(&self) -> Option<DiskStats> {
        let persistent = |data: &PersistentData| {
            let on = Some(data.persistence);
            DiskStats {
                durability: Durability::Sync.name_on(on),
                medium: medium_name(on),
                ..Default::default()
            }
        };
        let disk = self.disk.as_ref().map(|disk| disk.stats());
        disk.or_else(|| self.data.as_ref().map(persistent))
    }

    /// Ends the life of persistent memory in order: no thread writes any more.
    pub fn end_life(&self) {
        if let Some(root) = &self.engine.root {
            root.end(self.engine.csn(), self.clock.timestamps().unix);
        }
    }

    /// The core of a group's leader, over the start set of its term, with its standby index, if it has one.
    pub fn of_term(
        options: CoreOptions,
        lent: Arc<Lent>,
        keys: Keys,
        start: TermStart,
        standby: Option<Standby<Mapped>>,
    ) -> Result<Core, StartError> {
        let [boot] = random().map_err(|e| StartError::Os("draw random numbers", e))?;
        let engine_options = EngineOptions {
            found_items: start.items,
            progress: lent.progress.as_ref().map(|progress| progress.memory().clone()),
            ..options.engine(keys.hash, Some(start.term))
        };
        let (engine, found) = match standby {
            Some(standby) => standby.engine(SumKey::new(keys.sum), engine_options)?,
            None => {
                // The memory may hold the index of an earlier term of this replica.
                lent.index.memory().discard(0, lent.index.bytes());
                (engine(&options, &lent, keys.sum, engine_options)?, Recovered::default())
            }
        };
        let core = Core::new(options, Clock::start(start.calendar), lent, boot, keys.sum, engine);
        let times = core.timestamps();
        core.sessions.go_on(times.now, start.ages);
        core.engine.restore(&core.sessions, times, found);
        core.engine.go_on_above(start.ceiling);
        Ok(core)
    }

    fn new(
        options: CoreOptions,
        clock: Clock,
        lent: Arc<Lent>,
        boot: u64,
        sum_key: u64,
        engine: Engine<Mapped>,
    ) -> Core {
        let control = Control::create(lent.control.memory().clone(), boot, SumKey::new(sum_key));
        Core {
            sessions: Sessions::new(options.sessions, options.keep()),
            pulses: (0..options.workers).map(|_| Arc::new(Pulse::default())).collect(),
            options,
            clock,
            engine,
            control,
            lent,
            boot,
            sum_key,
            beats: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
            disk: None,
            data: None,
            life: Life {
                phase: AtomicU8::new(Phase::Serving as u8),
                deadline: AtomicU64::new(u64::MAX),
                held: AtomicBool::new(false),
            },
        }
    }

    /// Logs what happened.
    pub fn log(&self, line: &str) {
        self.options.log.say(line);
    }

    /// Reads both clocks. That the time may be told is persistent, where memory is.
    #[inline]
    pub fn timestamps(&self) -> Timestamps {
        let times = self.clock.timestamps();
        if let Some(root) = &self.engine.root {
            root.allow_time(times.unix);
        }
        times
    }

    /// When the core was made.
    pub fn started(&self) -> Nanos {
        self.clock.started()
    }

    /// Where the server is in its life.
    #[inline]
    pub fn phase(&self) -> Phase {
        // Acquire: the deadline was stored before the phase; pairs with `enter`.
        match self.life.phase.load(Ordering::Acquire) {
            0 => Phase::Forming,
            1 => Phase::Serving,
            2 => Phase::Draining,
            _ => Phase::Closing,
        }
    }

    /// Tells clients that they may trust the memory for a lease from `stamp` on.
    pub fn vouch(&self, stamp: Nanos, times: Timestamps) {
        self.control.beat(stamp, times.unix);
    }

    /// Sets when the lease of a group's leader ends.
    pub fn set_lease(&self, end: Nanos) {
        self.engine.set_lease(end);
    }

    /// Sets whether new writes are to wait.
    pub fn hold_writes(&self, hold: bool) {
        // Relaxed: a worker that sees it late takes some writes more, as if they had come sooner. Pairs with
        // `holds_writes`.
        self.life.held.store(hold, Ordering::Relaxed);
    }

    /// Whether new writes are to wait.
    #[inline]
    pub fn holds_writes(&self) -> bool {
        // Relaxed: as in `hold_writes`.
        self.life.held.load(Ordering::Relaxed)
    }

    /// Whether the disk, if there is one, lets the thread that has this stream write more now.
    #[inline]
    pub fn may_write(&self, stream: Option<&Stream>, now: Nanos) -> bool {
        let (Some(disk), Some(stream)) = (&self.disk, stream) else { return true };
        disk.takes_writes(stream.number.into(), stream.written(), self.engine.csn(), now)
    }

    /// Whether the disk failed: no write can be kept.
    #[inline]
    pub fn has_no_disk(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.has_failed())
    }

    /// Whether a worker may tell a client what it just saw in the engine, since it is the newest there is. In
    /// a group that takes a lease which holds after the look.
    #[inline]
    pub fn may_tell(&self) -> bool {
        self.engine.leads(longarm_host::now)
    }

    /// Whether the entry at this position of a stream is applied.
    pub fn is_applied(&self, at: StreamPosition) -> bool {
        self.engine.progress()[at.stream as usize].is_applied(at.position)
    }

    /// Begins the next phase; a drain is to be over by `deadline`.
    pub fn enter(&self, phase: Phase, deadline: Nanos) {
        // Relaxed: published by the store of the phase.
        self.life.deadline.store(deadline.0, Ordering::Relaxed);
        // Release: pairs with `phase`.
        self.life.phase.store(phase as u8, Ordering::Release);
    }

    /// When the drain must be over.
    pub fn deadline(&self) -> Nanos {
        // Relaxed: read after `phase`.
        Nanos(self.life.deadline.load(Ordering::Relaxed))
    }

    /// Counts and logs a segment that stays because an entry in it is not accounted for. A key may be secret,
    /// so the log has its hash.
    pub fn hold_back(&self, segment: u32, missing: &Unaccounted) {
        // Relaxed: a counter.
        self.engine.counts.held_back.fetch_add(1, Ordering::Relaxed);
        let (hash, csn) = (self.engine.hash(&missing.key).0, missing.csn.0);
        let text = format!(
            "segment {segment} is dead by the counts, but it holds version {csn} of the key with hash \
             {hash:016x}, which the index does not know and nothing replaced: it is kept everywhere. This is \
             a fault of Longarm: please report it with this log, and have another replica lead"
        );
        self.options.log.tell(Notice::Fault, &text);
    }
}
