//! Huge pages for the segments of an arena, where the system has them: taken ahead of the claims, and for
//! segments in use a block at a time. In small pages each random look at an entry costs most of a page walk,
//! and the writer of a new segment takes 256 page faults.

use std::ops::Range;

use longarm_base::Nanos;
use longarm_base::limits::SEGMENT_BYTES;
use longarm_memory::{HUGE_PAGE, OwnedWords, SumKey};

use crate::segment::Line;
use crate::segment::block::{AHEAD, BLOCK, Supply};
use crate::segment::layout::segment_at;
use crate::write_window::WriteWindow;
use crate::{ArenaView, Store};

/// How much longer than the system took for a block a caller waits for the next one, at least. A block takes
/// a fraction of a millisecond, and ten times that in a virtual machine whose memory is touched for the
/// first time.
const REST: u64 = 3;

/// Windows in a row in which little was written, after which a caller begins: a writer that comes to a block
/// while its pages are copied waits, and what is written comes in bursts, with pauses between them.
const QUIET: u32 = 10;

/// When a caller may ask for the next block: while little is written, and so that all of them together take a
/// quarter of a core's time at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePace {
    at: Nanos,
    /// From the first time that the caller asked.
    window: Option<WriteWindow>,
    /// Windows in a row before that one, in each of which little was written.
    quiet: u32,
}

impl HugePace {
    /// Whether it is time for the next block. `written` counts the entries so far.
    pub fn is_due(&mut self, now: Nanos, written: u64) -> bool {
        let window = self.window.get_or_insert(WriteWindow::begin(now, written));
        if let Some(ended) = window.end(now, written) {
            self.quiet = if ended.little { self.quiet.saturating_add(1) } else { 0 };
        }
        self.quiet >= QUIET && now >= self.at
    }

    /// Notes when a block was asked for, and when it was there.
    pub fn took(&mut self, begun: Nanos, ended: Nanos) {
        self.at = ended + Nanos(ended.since(begun).0 * REST);
    }
}

impl<M: OwnedWords> Store<M> {
    /// Has one more block stand in a huge page: one that nobody uses if few free segments have memory, else
    /// one that is in use. `true` if it took some time. The caller decides how much time that may be.
    pub fn populate_some(&self) -> bool {
        let Some(first) = self.ledger.lock().next_block(&self.budget) else { return false };
        // Segments of the block may be claimed, written and freed meanwhile: taking memory changes no byte.
        let taken = self.memory.populate(segment_at(first), HUGE_PAGE) == HUGE_PAGE;
        self.ledger.lock().populated(first, taken);
        true
    }
}

/// How much of a follower's arena stands in huge pages. Leaders claim the lowest free segments first, so the
/// follower keeps a little ahead of the highest that was ever claimed from there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Populated {
    /// The blocks below this segment were asked for.
    until: u32,
    supply: Supply,
}

impl Populated {
    /// Has one more block of the arena stand in a huge page. `true` if it took some time.
    pub fn advance<M: OwnedWords>(&mut self, memory: &M, sums: &SumKey) -> bool {
        let block = self.until..self.until + BLOCK;
        let whole = u64::from(block.end) * SEGMENT_BYTES <= memory.bytes();
        let reached =
            || was_claimed(ArenaView { memory, sums }, block.start.saturating_sub(AHEAD)..block.end);
        if !self.supply.has_any() || !whole || !reached() {
            return false;
        }
        self.until = block.end;
        self.supply.note(memory.populate(segment_at(block.start), HUGE_PAGE) == HUGE_PAGE);
        true
    }
}

/// Whether a leader ever claimed one of these segments.
fn was_claimed(ArenaView { memory, sums }: ArenaView<'_>, segments: Range<u32>) -> bool {
    let mut lines = segments.map(|segment| Line::read(memory, sums, segment));
    lines.any(|line| line.is_ok_and(|line| line != Line::FREE))
}
