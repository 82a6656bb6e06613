//! Which entries of a leader's streams come next, as a value: no I/O, and time is an argument.
//!
//! (1) Entries of a stream are taken in the order of their positions, and none is passed over: what cannot be
//!     found any more is a [`Gap`], and the tree is built anew.
//! (2) The caller says how far it takes: an ordered index no entry before the leader has applied it, the disk
//!     of a follower whatever is written.
//! (3) An entry that is not here yet is waited for. Once this replica surely has it, as its floor says, and
//!     [`LANDING_TIME`] went by since, it was reclaimed before it was taken.

use std::collections::VecDeque;

use super::DirectoryRange;
use super::layout::DIRECTORY;
use longarm_base::{EntryRef, Nanos};

/// How long a WRITE may take to land after it has completed.
pub const LANDING_TIME: Nanos = Nanos::from_millis(20);

/// An entry that the leader applied was reclaimed before it was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The stream.
    pub stream: usize,
    /// The position of the entry.
    pub position: u64,
}

/// An entry that comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// Its position.
    pub position: u64,
    /// Where it is in the arena.
    pub offset: u64,
}

#[derive(Debug, Default)]
struct StreamFeed {
    /// All positions below are taken.
    taken: u64,
    /// Offsets of the positions from `taken` on.
    known: VecDeque<u64>,
    /// Since when the next position is missing though its floor covers it.
    missing: Option<Nanos>,
}

impl StreamFeed {
    /// The places of all positions below are known.
    fn known_to(&self) -> u64 {
        self.taken + self.known.len() as u64
    }
}

/// How much is taken of each stream of a term.
#[derive(Debug)]
pub struct Feed {
    streams: Vec<StreamFeed>,
}

impl Feed {
    /// Takes the positions from these on.
    pub fn new(from: &[u64]) -> Feed {
        let at = |&taken: &u64| StreamFeed { taken, ..StreamFeed::default() };
        Feed { streams: from.iter().map(at).collect() }
    }

    /// The number of streams.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// By stream, all positions below are taken.
    pub fn taken(&self) -> Vec<u64> {
        self.streams.iter().map(|stream| stream.taken).collect()
    }

    /// Words of a directory that are to be READ so that the places of all positions below these, by stream,
    /// are known, at most `most` of them; `None` if they are known. An error names a position whose word is
    /// overwritten.
    pub fn wants(
        &self,
        below: impl IntoIterator<Item = u64>,
        most: u64,
    ) -> Result<Option<DirectoryRange>, Gap> {
        for (number, (stream, below)) in self.streams.iter().zip(below).enumerate() {
            let known = stream.known_to();
            if below <= known {
                continue;
            }
            if below - known > DIRECTORY {
                return Err(Gap { stream: number, position: known });
            }
            return Ok(Some(DirectoryRange::of(number, known, below, most)));
        }
        Ok(None)
    }

    /// Learns what was READ at [`wants`](Self::wants).
    pub fn learn(&mut self, range: DirectoryRange, bytes: &[u8]) -> Result<(), Gap> {
        let stream = &mut self.streams[range.stream];
        for (position, offset) in (range.from..).zip(range.offsets(bytes)) {
            let offset = offset.ok_or(Gap { stream: range.stream, position })?;
            stream.known.push_back(offset);
        }
        Ok(())
    }

    /// Learns places of a stream that a survey of the replica's arena found, in the order of positions;
    /// whether one of them was not known.
    pub fn recall(&mut self, stream: usize, found: &[(u64, EntryRef)]) -> bool {
        let stream = &mut self.streams[stream];
        let known = stream.known_to();
        let new = found.iter().filter(|(position, _)| *position >= known);
        let before = stream.known.len();
        stream.known.extend(new.map(|(_, place)| place.offset));
        stream.known.len() > before
    }

    /// The places of all positions of a stream below are known.
    pub fn known(&self, stream: usize) -> u64 {
        self.streams[stream].known_to()
    }

    /// The entry of a stream that is so many positions behind the next to take, if its place is known.
    pub fn ahead(&self, stream: usize, after: u64) -> Option<Next> {
        let it = &self.streams[stream];
        let offset = *it.known.get(after as usize)?;
        Some(Next { position: it.taken + after, offset })
    }

    /// The next entry of a stream is taken.
    pub fn take(&mut self, stream: usize) {
        let stream = &mut self.streams[stream];
        stream.known.pop_front().expect("the place of what is taken was known");
        stream.taken += 1;
        stream.missing = None;
    }

    /// The next entry of a stream is not here; this replica surely has all positions below `floor`, except
    /// reclaimed ones.
    pub fn miss(&mut self, stream: usize, floor: u64, now: Nanos) -> Result<(), Gap> {
        let it = &mut self.streams[stream];
        if floor <= it.taken {
            return Ok(());
        }
        let since = *it.missing.get_or_insert(now);
        if now.since(since) >= LANDING_TIME {
            return Err(Gap { stream, position: it.taken });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::directory_word;
    use super::*;

    fn words(range: &DirectoryRange) -> Vec<u8> {
        let word = |position: u64| directory_word(position, 64 * (position + 1));
        (range.from..range.from + range.count).flat_map(|position| word(position).to_le_bytes()).collect()
    }

    #[test]
    fn entries_come_in_the_order_of_their_positions_in_pieces_of_the_directory() {
        let mut feed = Feed::new(&[0, DIRECTORY - 2]);
        let below = [3, DIRECTORY + 3];
        let mut reads = Vec::new();
        while let Some(range) = feed.wants(below, 2).expect("no gap") {
            reads.push((range.stream, range.from, range.count));
            feed.learn(range, &words(&range)).expect("no gap");
        }
        // The directory wraps at its end.
        let second = [(1, DIRECTORY - 2, 2), (1, DIRECTORY, 2), (1, DIRECTORY + 2, 1)];
        assert_eq!(reads, [[(0, 0, 2), (0, 2, 1)].as_slice(), &second].concat());
        for position in 0..3 {
            assert_eq!(feed.ahead(0, 0), Some(Next { position, offset: 64 * (position + 1) }));
            feed.take(0);
        }
        assert_eq!((feed.ahead(0, 0), feed.taken()), (None, vec![3, DIRECTORY - 2]));
        assert_eq!(feed.ahead(1, 4).map(|next| next.position), Some(DIRECTORY + 2));
    }

    #[test]
    fn what_the_directory_has_forgotten_is_a_gap() {
        let mut feed = Feed::new(&[5]);
        let gap = Gap { stream: 0, position: 5 };
        assert_eq!(feed.wants([5 + DIRECTORY + 1], 8), Err(gap));
        let range = feed.wants([7], 8).expect("near enough").expect("two positions");
        let later = DirectoryRange { from: range.from + DIRECTORY, ..range };
        assert_eq!(feed.learn(range, &words(&later)), Err(gap), "the words are of another round");
    }

    #[test]
    fn what_is_missing_is_waited_for_until_it_must_have_landed() {
        let mut feed = Feed::new(&[5]);
        let at = |millis| Nanos::from_millis(millis);
        assert_eq!(feed.miss(0, 5, at(1)), Ok(()));
        assert_eq!(feed.miss(0, 5, at(900)), Ok(()), "nobody says that it is here");
        assert_eq!(feed.miss(0, 6, at(1_000)), Ok(()));
        assert_eq!(feed.miss(0, 6, at(1_019)), Ok(()));
        assert_eq!(feed.miss(0, 6, at(1_020)), Err(Gap { stream: 0, position: 5 }));
    }
}
