//! An arena together with what is needed to check the entries in it.

use longarm_memory::{SumKey, Words};
use longarm_store::ArenaView;
use longarm_store::segment::{ArenaGeometry, Line, LineError};

use crate::OWN_HEADER;

/// The memory of an arena, and the key of its checksums.
#[derive(Clone)]
pub struct CheckedArena<M> {
    /// The memory.
    pub memory: M,
    /// The key.
    pub sums: SumKey,
}

impl<M: Words> CheckedArena<M> {
    /// The same, to be read.
    pub(crate) fn view(&self) -> ArenaView<'_> {
        ArenaView { memory: &self.memory, sums: &self.sums }
    }

    /// Checks that no line is a mixture of two WRITEs, when nothing is written there: entries under it would
    /// be lost. A WRITE of a whole line lands whole, or not at all, once its queue pair is revoked.
    pub(crate) fn check_lines(&self) {
        let geometry = ArenaGeometry::read(&self.memory, &self.sums).expect(OWN_HEADER);
        for segment in geometry.table..geometry.segments {
            let line = Line::read(&self.memory, &self.sums, segment);
            assert!(line != Err(LineError::Torn), "the line of segment {segment} is of several WRITEs");
        }
    }
}
