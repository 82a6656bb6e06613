//! The disks of servers that keep their data: sectors that outlive the machine's memory, and that a loss of
//! power leaves in one of the states that it may.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::random::SplitMix64;
use longarm_disk::layout::{HEADER_BYTES, file_bytes};
use longarm_disk::{ArenaDisk, DiskError, Found, Medium, SectorMedium, Shape};
use longarm_host::Mutex;
use longarm_server::{DiskSource, Durability, ReplicaDisk, Scrubbing};

/// What a seed draws of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPlan {
    /// What an acknowledged write outlives.
    pub durability: Durability,
    /// A sync takes less than this, mostly.
    pub sync: Nanos,
    /// One sync in some takes less than this.
    pub stall: Nanos,
    /// Files are looked over all the time; else never.
    pub scrubs: bool,
    /// They are on persistent memory.
    pub is_memory: bool,
}

/// What a fence takes, mostly, and when the memory has much to do.
const FENCE: Nanos = Nanos(1_000);
const FENCE_STALL: Nanos = Nanos(100_000);
/// One sync in so many stalls.
const STALLS: u64 = 16;

impl DiskPlan {
    /// Draws one: of servers that lose nothing, or of those that lose the writes of a window.
    pub fn draw(loses: bool, chance: &mut SplitMix64) -> DiskPlan {
        let window = Duration::from_millis(10 + chance.below(60));
        DiskPlan {
            durability: if loses { Durability::Async { window } } else { Durability::Sync },
            sync: Nanos(20_000 + chance.below(2_000_000)),
            stall: Nanos(1 + chance.below(200_000_000)),
            scrubs: false,
            is_memory: false,
        }
    }

    /// The same servers on persistent memory, if they lose nothing: a sync is a fence.
    pub fn on_memory(self) -> DiskPlan {
        match self.durability {
            Durability::Async { .. } => self,
            Durability::Sync => DiskPlan { sync: FENCE, stall: FENCE_STALL, is_memory: true, ..self },
        }
    }

    /// The time within which the writes were taken that a loss of power loses; none if it loses none.
    pub fn window(&self) -> Option<Nanos> {
        self.durability.window().map(|window| Nanos(window.as_nanos() as u64))
    }
}

/// The disk of a server.
pub struct Drive {
    plan: DiskPlan,
    state: Arc<Mutex<State>>,
}

struct State {
    sectors: Option<SectorMedium>,
    chance: SplitMix64,
    /// Bytes that changed by themselves: where, and what they are then.
    rots: Vec<(u64, u8)>,
}

impl Drive {
    /// An empty disk.
    pub fn new(plan: DiskPlan, seed: u64) -> Drive {
        Drive {
            plan,
            state: Arc::new(Mutex::new(State {
                sectors: None,
                chance: SplitMix64::new(seed),
                rots: Vec::new(),
            })),
        }
    }

    /// What an acknowledged write outlives.
    pub fn durability(&self) -> Durability {
        self.plan.durability
    }

    /// How the file is looked over.
    pub fn scrubbing(&self) -> Scrubbing {
        match self.plan.scrubs {
            true => Scrubbing { rate: 64 << 20, every: Duration::from_millis(50) },
            false => Scrubbing::NONE,
        }
    }

    /// A byte changes by itself. Whether there is one.
    pub fn rot(&self, seed: u64) -> bool {
        let State { sectors: Some(sectors), rots, .. } = &mut *self.state.lock() else { return false };
        let mut chance = SplitMix64::new(seed);
        let from = HEADER_BYTES + chance.below(sectors.bytes() - HEADER_BYTES);
        let Some(at) = sectors.find_synced(from, SEGMENT_BYTES) else { return false };
        rots.push((at, sectors.rot(at, 1 << chance.below(8))));
        true
    }

    /// Whether such a byte is still what it became.
    pub fn is_rotten(&self) -> bool {
        let State { sectors: Some(sectors), rots, .. } = &mut *self.state.lock() else { return false };
        rots.retain(|(at, byte)| sectors.synced(*at) == *byte);
        !rots.is_empty()
    }

    /// Whether the file is between two start sets, and can give neither: it counts as lost, if the power is.
    pub fn is_mixed(&self) -> bool {
        let sectors = self.state.lock().sectors.clone();
        let found = sectors.and_then(|sectors| ArenaDisk::look(sectors).ok());
        found.and_then(|(_, found, _)| found.note).is_some_and(|note| note.mixed)
    }

    /// An empty disk is in its place. No server runs from it.
    pub fn reformat(&self) {
        let state = &mut *self.state.lock();
        state.sectors = None;
        state.rots.clear();
    }

    /// The power is lost.
    pub fn lose_power(&self) {
        let State { sectors, chance, .. } = &mut *self.state.lock();
        if let Some(sectors) = sectors {
            sectors.lose_power(chance.draw());
        }
    }
}

impl DiskSource for Drive {
    fn open(&self, shape: Shape) -> Result<(ReplicaDisk, Found), DiskError> {
        let known = self.state.lock().sectors.clone();
        let bytes = file_bytes(shape.segments.into(), shape.table.into());
        let made = || match self.plan.is_memory {
            false => SectorMedium::new(bytes),
            true => SectorMedium::new(bytes).in_lines(),
        };
        let sectors = known.clone().unwrap_or_else(made);
        let platter = Platter { plan: self.plan, sectors: sectors.clone(), state: self.state.clone() };
        if known.is_some() {
            return ArenaDisk::open(platter, shape).map(|(disk, found)| (disk.boxed(), found));
        }
        let disk = ArenaDisk::create(platter, shape, 1)?;
        // A file that is not complete has no name.
        self.state.lock().sectors = Some(sectors);
        Ok((disk.boxed(), Found { medium: 1, note: None }))
    }
}

/// Sectors whose syncs take their time.
struct Platter {
    plan: DiskPlan,
    sectors: SectorMedium,
    state: Arc<Mutex<State>>,
}

impl Medium for Platter {
    fn path(&self) -> &Path {
        Path::new("drive")
    }

    fn bytes(&self) -> u64 {
        self.sectors.bytes()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.sectors.write(at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        let takes = {
            let chance = &mut self.state.lock().chance;
            let most = if chance.once_in(STALLS) { self.plan.stall } else { self.plan.sync };
            chance.below(most.0)
        };
        longarm_host::sleep(Duration::from_nanos(takes));
        self.sectors.sync()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.sectors.read(at, into)
    }
}
