//! What the ledger knows of one segment.

use longarm_base::Nanos;

use super::reader::Line;

/// What the ledger knows of a segment. Bodies of runs follow their head.
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
    /// Dead and out of quarantine; waits until its followers have let go.
    Offered,
    /// Its pages are on their way back to the system.
    Leaving,
}

/// One segment in the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerSegment {
    pub phase: Phase,
    pub line: Line,
    /// Holds bytes of an earlier use.
    pub dirty: bool,
    /// A collector walks it.
    pub collecting: bool,
    /// Collection looks at it again only then...
    pub rest: Nanos,
    /// ...or, if there was no room for its next entry, once more segments than these were freed.
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
}
