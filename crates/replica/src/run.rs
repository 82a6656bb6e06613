//! Neighbours of a stream that are neighbours in the arena: they go to a follower in one WRITE.

use longarm_base::limits::{LINE, SEGMENT_BYTES};

/// Cells this far apart still go in one WRITE: the bytes between cost less than another packet.
const GAP: u64 = 4 * LINE;

/// Entries of a stream at positions `first..until`, which lie within `from..end` of one segment of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Position of the first entry.
    pub first: u64,
    /// Position behind the last one.
    pub until: u64,
    /// Offset in the arena of the first byte.
    pub from: u64,
    /// Offset behind the last one, a multiple of 8.
    pub end: u64,
}

impl Run {
    /// The run that begins at position `first`, of `most` bytes at most unless the first entry is longer;
    /// `entry` says of a position where its entry lies and how long that is. `None`: there is none at
    /// `first`.
    pub fn at(first: u64, most: u64, entry: impl Fn(u64) -> Option<(u64, u32)>) -> Option<Run> {
        let bounds =
            |position| entry(position).map(|(at, len)| (at, at + u64::from(len).next_multiple_of(8)));
        let (from, mut end) = bounds(first)?;
        let mut until = first + 1;
        while let Some((next, next_end)) = bounds(until) {
            let near = next >= end && next - end <= GAP;
            if !near || next / SEGMENT_BYTES != from / SEGMENT_BYTES || next_end - from > most {
                break;
            }
            (end, until) = (next_end, until + 1);
        }
        Some(Run { first, until, from, end })
    }

    /// The segment that its bytes are in, or begin in.
    pub fn segment(&self) -> u32 {
        (self.from / SEGMENT_BYTES) as u32
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.end - self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, entries: &[(u64, u32)]) -> Option<Run> {
        Run::at(first, 1000, |position| entries.get(position as usize).copied())
    }

    #[test]
    fn neighbours_of_one_segment_go_together_as_far_as_one_write_reaches() {
        let far = SEGMENT_BYTES - 64;
        let entries =
            [(64, 60), (128, 64), (192 + GAP, 64), (8000, 60), (8064, 900), (far, 64), (far + 64, 8)];
        assert_eq!(run(0, &entries), Some(Run { first: 0, until: 3, from: 64, end: 256 + GAP }));
        assert_eq!(run(1, &entries).map(|run| (run.until, run.from)), Some((3, 128)));
        assert_eq!(run(3, &entries).map(|run| run.until), Some(5), "964 bytes of 1,000");
        assert_eq!(run(5, &entries).map(|run| run.until), Some(6), "the next lies in another segment");
        assert_eq!(run(6, &entries).map(|run| (run.segment(), run.bytes())), Some((1, 8)));
        assert_eq!(run(7, &entries), None);
        assert_eq!(run(0, &[(64, 60), (0, 8)]).map(|run| run.until), Some(1), "back");
        assert_eq!(run(0, &[(0, 5000), (5000, 8)]).map(|run| run.bytes()), Some(5000), "alone, in pieces");
    }
}
