//! The side of a leader: one thread writes a stream, and with it the stream's line and directory.
//!
//! (1) The lines of all streams are zero, or of an older term, when a term begins.
//! (2) `written` follows the entry's word in the directory, and that follows the entry itself.
//! (3) `committed` is stored before the first slot of the index that shows one of those entries, and
//!     `applied` after the last one (decision 30). `low` follows `applied`: the stable point counts no write
//!     that `applied` does not.

use longarm_base::{Csn, Term};
use longarm_memory::{Mapped, OwnedWords, Words};

use super::layout::{self, entry_at, line, line_at, position_of, progress_word};

/// The line and the directory of one stream of one term. One thread changes them, any may look.
pub struct ProgressWords {
    memory: Mapped,
    stream: usize,
    at: u64,
    term: Term,
}

impl std::fmt::Debug for ProgressWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (written, applied) = (self.written(), self.applied());
        f.debug_struct("ProgressWords").field("written", &written).field("applied", &applied).finish()
    }
}

impl ProgressWords {
    /// The words of a stream in which nothing is written yet, in the region of its leader.
    pub fn begin(memory: Mapped, stream: usize, term: Term) -> ProgressWords {
        let at = line_at(stream);
        let words = ProgressWords { memory, stream, at, term };
        words.memory.store(at + line::LOW, 0);
        for word in [line::WRITTEN, line::COMMITTED, line::APPLIED] {
            words.set(word, 0);
        }
        words
    }

    fn set(&self, word: u64, position: u64) {
        self.memory.store(self.at + word, progress_word(self.term, position));
    }

    fn get(&self, word: u64) -> u64 {
        // A thread that still looks at the words of a term that is over finds those of the next.
        position_of(self.memory.load(self.at + word), self.term).unwrap_or(0)
    }

    /// The number of written positions: all below are whole in the arena.
    #[inline]
    pub fn written(&self) -> u64 {
        self.get(line::WRITTEN)
    }

    /// The number of applied positions: what was applied is in the index.
    #[inline]
    pub fn applied(&self) -> u64 {
        self.get(line::APPLIED)
    }

    /// Whether the entry at this position is applied.
    #[inline]
    pub fn is_applied(&self, position: u64) -> bool {
        self.applied() > position
    }

    /// At most the csn of each entry under way; `None` if there is none.
    #[inline]
    pub fn low(&self) -> Option<Csn> {
        match self.memory.load(self.at + line::LOW) {
            0 => None,
            low => Some(Csn(low)),
        }
    }

    /// Sets the bound of the csns under way.
    #[inline]
    pub fn set_low(&self, low: Option<Csn>) {
        self.memory.store(self.at + line::LOW, low.map_or(0, |low| low.0));
    }

    /// Notes that the entry at `position`, which is the next one, is whole at this offset of the arena.
    #[inline]
    pub fn wrote(&self, position: u64, offset: u64) {
        self.memory.store(entry_at(self.stream, position), layout::directory_word(position, offset));
        self.set(line::WRITTEN, position + 1);
    }

    /// Notes that all positions below are committed, before any of them is applied.
    #[inline]
    pub fn set_committed(&self, below: u64) {
        self.set(line::COMMITTED, below);
    }

    /// Notes that all positions below are applied, and the bound of the csns that are still under way.
    #[inline]
    pub fn set_applied(&self, below: u64, low: Option<Csn>) {
        self.set(line::APPLIED, below);
        self.set_low(low);
    }
}
