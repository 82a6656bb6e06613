//! Blocks of segments, of which each can stand in one huge page.

use longarm_base::limits::SEGMENT_BYTES;
use longarm_memory::HUGE_PAGE;

/// Segments in a block, which begins at a multiple of so many and is one huge page.
pub(crate) const BLOCK: u32 = (HUGE_PAGE / SEGMENT_BYTES) as u32;
/// Free segments that are to have memory before they are claimed.
pub(crate) const AHEAD: u32 = 2 * BLOCK;
/// Blocks in a row for which the system had no huge page, after which no other one is asked for.
const REFUSALS: u32 = 8;

/// Whether the system still has huge pages, as far as is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Supply {
    /// Blocks in a row for which it had none.
    refused: u32,
}

impl Supply {
    pub(crate) fn has_any(self) -> bool {
        self.refused < REFUSALS
    }

    pub(crate) fn note(&mut self, taken: bool) {
        self.refused = if taken { 0 } else { self.refused + 1 };
    }
}
