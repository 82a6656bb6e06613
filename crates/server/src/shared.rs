//! What all threads of a server share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use longarm_base::{Nanos, RegionId};
use longarm_fabric::{Grant, Rights};
use longarm_host::Mutex;
use longarm_index::control::{CONTROL_REGION, Control};
use longarm_index::hash::layout::INDEX_REGION;
use longarm_memory::{Mapped, Region};
use longarm_wire::ARENA_REGION;

use crate::clock::{Clock, Moment};
use crate::engine::Engine;
use crate::options::ServerOptions;
use crate::pulse::Pulse;
use crate::session::Sessions;

/// Where the server is in its life. It only ever goes forward.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
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
    pub lent: Lent,
    pub boot: u64,
    pub sum_key: u64,
    pub sessions: Sessions,
    pub pulses: Vec<Arc<Pulse>>,
    pub addresses: OnceLock<Vec<longarm_fabric::Address>>,
    pub beats: AtomicU64,
    pub withheld: AtomicU64,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    seats: AtomicUsize,
    next_client: AtomicU64,
    phase: AtomicU8,
    /// When the drain must be over, once it began.
    deadline: AtomicU64,
    grow_failed: AtomicBool,
}

/// A client's place among those allowed at once.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    number: u64,
}

impl Shared {
    pub fn new(
        options: ServerOptions,
        clock: Clock,
        engine: Engine<Mapped>,
        control: Control<Mapped>,
        lent: Lent,
        boot: u64,
        sum_key: u64,
        pulses: Vec<Arc<Pulse>>,
    ) -> Shared {
        let keep = Nanos(options.keep_sessions.as_nanos() as u64);
        Shared {
            sessions: Sessions::new(2 * options.max_clients, keep),
            options,
            clock,
            engine,
            control,
            lent,
            boot,
            sum_key,
            pulses,
            addresses: OnceLock::new(),
            beats: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
            clients: Mutex::default(),
            seats: AtomicUsize::new(0),
            next_client: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Serving as u8),
            deadline: AtomicU64::new(u64::MAX),
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
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::Closing,
        }
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
