//! The ledger's knowledge of one segment.

use longarm_base::Nanos;

use super::reader::Line;

/// The phase of a segment in the ledger. Bodies of runs follow their head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Free,
    /// Taken over from an earlier leader, as a segment or as the head of a run, and not replayed yet.
    Adopted,
    Active,
    Sealed,
    Run,
    Body,
    /// Dead and not yet in quarantine, or in it.
    Dead,
    /// Dead and out of quarantine; waits until its followers have released it.
    Offered,
    /// Its pages are on their way back to the system.
    Leaving,
}

/// One segment in the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerSegment {
    pub phase: Phase,
    pub line: Line,
    /// Whether it holds bytes of an earlier use.
    pub dirty: bool,
    /// Whether a collector walks it.
    pub collecting: bool,
    /// The time before which collection does not look at it again.
    pub rest: Nanos,
    /// If there was no room for its next entry: collection looks at it again once more segments than these
    /// were freed.
    pub starved: Option<u64>,
}

impl LedgerSegment {
    /// A segment that was never claimed.
    pub(crate) fn fresh() -> LedgerSegment {
        LedgerSegment {
            phase: Phase::Free,
            line: Line::FREE,
            dirty: false,
            collecting: false,
            rest: Nanos::default(),
            starved: None,
        }
    }

    /// Whether it holds no entry that counts, and is on its way to be freed.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.phase, Phase::Dead | Phase::Offered | Phase::Leaving)
    }

    /// Whether no collector walks it, and the time is over for which it is left alone; `releases` segments
    /// and runs were freed so far.
    pub(crate) fn may_be_walked(&self, now: Nanos, releases: u64) -> bool {
        let rested = self.rest <= now || self.starved.is_some_and(|then| then < releases);
        !self.collecting && rested
    }
}
