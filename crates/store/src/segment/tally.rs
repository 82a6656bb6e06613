//! How much of a segment is alive: one word, so that every change is one step and death happens exactly once.
//!
//! The writer that owns the segment changes it (drafts, finishes, seals), and each worker that supersedes one
//! of its entries.
//! (1) A draft counts as pending from its room to its end; finishing turns pending into live in one step. An
//!     adopted segment counts as pending, too, until it has been replayed.
//! (2) A sealed segment gets no new drafts, so pending and live only fall. The one step that brings both to
//!     zero while sealed returns so, and its caller reports the segment dead. No other caller does, and none
//!     twice.

use crate::class::{SEGMENT_UNITS, SHARED_UNITS, class_of, stride_units};
use crate::sync::Counter;

const ENTRY: u64 = 1 << 24;
const PENDING: u64 = 1 << 40;
const SEALED: u64 = 1 << 63;

const _: () = {
    assert!(crate::object::layout::ENTRY_MAX as u64 / 64 + 1 < ENTRY, "live lines have 24 bits");
    assert!((SEGMENT_UNITS as u64) < PENDING / ENTRY, "entries have 16 bits");
};

/// So many entries are few. More than these are small ones: there is much to lose, and little to gain, where
/// they are evicted to free their segment.
const FEW: u64 = 64;

/// The tally of one segment; of a run, that of its head.
#[derive(Debug, Default)]
pub(crate) struct Tally(Counter);

/// A tally at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    /// Cache lines of live entries.
    pub units: u64,
    /// Live entries.
    pub entries: u64,
    /// Drafts in the making.
    pub pending: u64,
}

impl Load {
    /// Whether nothing is alive, or may soon be.
    pub(crate) fn is_empty(&self) -> bool {
        self.units + self.pending == 0
    }

    /// Cache lines that copies of the live entries take, if these are about equally long: whole rooms of
    /// their class, which are up to half larger than large entries.
    pub(crate) fn units_of_copies(&self) -> u64 {
        match self.units.div_ceil(self.entries.max(1)) as u32 {
            length @ 1..=SHARED_UNITS => self.entries * u64::from(stride_units(class_of(length))),
            _ => self.units,
        }
    }

    /// Whether few entries are alive in a segment, and none may soon be.
    pub(crate) fn is_few(&self) -> bool {
        self.pending == 0 && self.entries <= FEW
    }

    /// Whether few entries are alive, on less than half of the segment.
    pub(crate) fn is_little(&self) -> bool {
        self.is_few() && self.units < SEGMENT_UNITS as u64 / 2
    }
}

impl Tally {
    pub(crate) fn load(&self) -> Load {
        let word = self.0.get();
        Load { units: word % ENTRY, entries: word / ENTRY % (1 << 16), pending: word / PENDING % (1 << 16) }
    }

    /// Starts over, for a segment that was claimed; a run is sealed from the start.
    pub(crate) fn reset(&self, sealed: bool) {
        self.0.set(if sealed { SEALED } else { 0 });
    }

    pub(crate) fn drafted(&self) {
        self.0.add(PENDING);
    }

    pub(crate) fn finished(&self, units: u32) {
        self.0.add((ENTRY + units as u64).wrapping_sub(PENDING));
    }

    /// Counts an entry that was there before.
    pub(crate) fn found(&self, units: u32) {
        self.0.add(ENTRY + units as u64);
    }

    /// Counts entries that were there before, and their cache lines.
    pub(crate) fn presumed(&self, entries: u64, units: u64) {
        self.0.add(entries * ENTRY + units);
    }

    /// `true` if this was the death of the segment.
    #[must_use]
    pub(crate) fn abandoned(&self) -> bool {
        self.0.add(PENDING.wrapping_neg()) == SEALED
    }

    /// `true` if this was the death of the segment.
    #[must_use]
    pub(crate) fn superseded(&self, units: u32) -> bool {
        self.0.add((ENTRY + units as u64).wrapping_neg()) == SEALED
    }

    /// `true` if this was the death of the segment.
    #[must_use]
    pub(crate) fn sealed(&self) -> bool {
        self.0.add(SEALED) == SEALED
    }
}
