//! Who changes the control page.

use longarm_base::{Nanos, UnixMillis};
use longarm_memory::{OwnedWords, SumKey};

use super::layout::{GEOMETRY, GEOMETRY_WORDS, MAGIC, ServerState, beat};
use crate::hash::{Discipline, Geometry, SlotKind};

/// The server's hand on its control page.
#[derive(Clone, Debug)]
pub struct Control<M> {
    memory: M,
    sums: SumKey,
}

impl<M: OwnedWords> Control<M> {
    /// A page in state Starting, on which no heartbeat was written yet. Those of a term that this memory
    /// served before go first: its calendar may be behind that of the leaders since, and whoever took it for
    /// a bound would find items whose time is over.
    pub fn create(memory: M, boot: u64, sums: SumKey) -> Control<M> {
        memory.store(beat::STATE, ServerState::Starting.word());
        memory.store(beat::STAMP, 0);
        memory.store(beat::UNIX, 0);
        memory.store(beat::BOOT, boot);
        memory.store(beat::MAGIC, MAGIC);
        Control { memory, sums }
    }

    /// The hand on a page that somebody made, or is about to make: nothing is written now.
    pub fn of(memory: M, sums: SumKey) -> Control<M> {
        Control { memory, sums }
    }

    /// Says that the server made progress at `now`.
    pub fn beat(&self, now: Nanos, unix: UnixMillis) {
        self.memory.store(beat::UNIX, unix.0);
        self.memory.store(beat::STAMP, now.0);
    }

    /// Changes the state.
    pub fn set_state(&self, state: ServerState) {
        self.memory.store(beat::STATE, state.word());
    }

    /// Publishes a geometry: the record, then its epoch.
    pub fn publish(&self, geometry: &Geometry) {
        self.memory.copy_in(GEOMETRY, &record(geometry, &self.sums));
        self.memory.store(beat::EPOCH, geometry.epoch);
    }
}

/// The record of a geometry.
pub fn record(geometry: &Geometry, sums: &SumKey) -> [u8; GEOMETRY_WORDS * 8] {
    let mut words = [0u64; GEOMETRY_WORDS];
    words[1] = geometry.epoch;
    words[2] = geometry.hash_key;
    for (i, table) in geometry.live().enumerate() {
        let kind = u64::from(table.shape.kind == SlotKind::Pointer16);
        let discipline = u64::from(table.discipline == Discipline::OutOfPlace);
        let at = 3 + 5 * i;
        words[at] = u64::from(table.id) | kind << 32 | discipline << 40;
        words[at + 1] = table.base;
        words[at + 2] = table.pairs;
        words[at + 3] = table.groups;
    }
    let mut bytes = [0u8; GEOMETRY_WORDS * 8];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    let sum = sums.sum(GEOMETRY, &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}
