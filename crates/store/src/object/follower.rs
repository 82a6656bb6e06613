//! A follower's reads of, and notes at, entries that a leader wrote, while other WRITEs of the leader land.
//!
//! It writes the superseded bit of entries that were whole, by compare-and-swap of a mark that names their
//! use: an entry of another use that lands meanwhile is left alone. No other party sets bits on a follower.

use longarm_base::Term;
use longarm_memory::{OwnedWords, Words};

use super::layout;
use super::reader::Entry;
use crate::segment::Line;

/// The age of a copy. Of copies of one version, the greater age is the younger copy: collection frees the
/// original first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Age {
    moved: bool,
    term: Term,
    position: u64,
}

impl Age {
    /// The age as a number, in the same order.
    pub fn bits(self) -> u128 {
        u128::from(self.moved) << 127 | u128::from(self.term.bits()) << 64 | u128::from(self.position)
    }
}

impl Entry<'_> {
    /// The age of this copy.
    pub fn age(&self) -> Age {
        Age { moved: self.moved, term: self.term, position: self.position }
    }
}

/// The age of the entry at this offset, if there is one.
pub fn age_at(memory: &dyn Words, offset: u64) -> Age {
    let (_, _, flags) = layout::split_version(memory.load(offset + layout::VERSION));
    let (term, _) = layout::split_mark(memory.load(offset + layout::MARK));
    Age { moved: flags & layout::MOVED != 0, term, position: memory.load(offset + layout::POSITION) }
}

/// Sets or clears the superseded bit of an entry of this use of its segment. `true` if the entry is still
/// there and the bit was different.
pub fn set_superseded<M: OwnedWords>(memory: &M, offset: u64, line: &Line, superseded: bool) -> bool {
    let marks = [line.mark(), line.mark() | layout::SUPERSEDED];
    let [from, to] = if superseded { marks } else { [marks[1], marks[0]] };
    memory.compare_exchange(offset + layout::MARK, from, to).is_ok()
}
