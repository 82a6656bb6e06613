//! What others READ of a leader's progress. No I/O: ranges to READ go out, bytes come in.

use longarm_base::{Place, Term};

use super::layout::{self, DIRECTORY, PROGRESS_REGION, entry_at, line, line_at, position_of};

/// How far one stream was when its line was READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamMarks {
    /// Positions written.
    pub written: u64,
    /// Positions committed.
    pub committed: u64,
    /// Positions applied.
    pub applied: u64,
}

impl StreamMarks {
    /// The place of the lines of so many streams.
    pub fn place(streams: usize) -> Place {
        Place::new(PROGRESS_REGION, 0, line_at(streams) as u32)
    }

    /// Takes the bytes of one line apart; `None` if a word of it is of another term than this.
    pub fn parse(bytes: &[u8], term: Term) -> Option<StreamMarks> {
        let word = |at: u64| {
            let bytes = bytes.get(at as usize..at as usize + 8)?;
            position_of(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), term)
        };
        let (written, committed) = (word(line::WRITTEN)?, word(line::COMMITTED)?);
        Some(StreamMarks { written, committed, applied: word(line::APPLIED)? })
    }
}

/// Words of a stream's directory that lie together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryRange {
    /// The stream.
    pub stream: usize,
    /// The first position.
    pub from: u64,
    /// The number of positions.
    pub count: u64,
}

impl DirectoryRange {
    /// The words of positions from `from` up to `to`, as far as they lie together and are at most `most`.
    pub fn of(stream: usize, from: u64, to: u64, most: u64) -> DirectoryRange {
        let together = DIRECTORY - from % DIRECTORY;
        DirectoryRange { stream, from, count: to.saturating_sub(from).min(together).min(most) }
    }

    /// What to READ.
    pub fn place(&self) -> Place {
        Place::new(PROGRESS_REGION, entry_at(self.stream, self.from), 8 * self.count as u32)
    }

    /// The offset of each entry, in order; `None` for one whose word is that of another position by now.
    pub fn offsets(self, bytes: &[u8]) -> impl Iterator<Item = Option<u64>> {
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        (self.from..self.from + self.count)
            .zip(words)
            .map(|(position, word)| layout::offset_of(word, position))
    }
}
