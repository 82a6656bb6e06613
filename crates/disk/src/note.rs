//! What is written of a moment: how much of the arena is surely in the file.
//!
//! Words of a note, from the first byte of its block:
//! ```text
//!   0  checksum of the words behind it, seeded with the note's place in the file
//!   8  number: the higher, the newer
//!  16  term, as its bits
//!  24  stable: each entry of a version up to this one is in the file, and what it replaced may be gone
//!  32  ceiling: no version beyond this one was drawn
//!  40  bit 0: the server ended in order behind this note; bit 1: nothing was acknowledged before it was in the
//!      file; bit 2: parts of another start set may be in the file
//!  48  the leader's calendar, in unix milliseconds
//!  56  items in the leader's index, about
//!  64  segments that were freed in the term, and that the file has as free
//!  72  streams, then for each its floor: all positions below it are in the file
//! ```
//! A note is written behind the sync of what it says, and counts once it is synced itself.

use longarm_base::{Csn, Mutant, Term};
use longarm_memory::SumKey;

use crate::layout::{NOTE_BYTES, SUM_KEY, note_at};

/// Bytes before the floors.
const HEAD: usize = 80;
/// Streams that a note has room for.
pub const FLOORS_MAX: usize = (NOTE_BYTES as usize - HEAD) / 8;

/// What the file surely holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Note {
    /// The higher, the newer.
    pub number: u64,
    /// The term whose entries the floors count.
    pub term: Term,
    /// All entries up to this version are in the file.
    pub stable: Csn,
    /// No version beyond this one was drawn.
    pub ceiling: Csn,
    /// The server ended in order: nothing was written behind this note.
    pub ended: bool,
    /// Nothing was acknowledged before it was in the file, so entries beyond the floors may count.
    pub sync: bool,
    /// The file is being given the start set of another term, parts of which may be there.
    pub mixed: bool,
    /// The leader's calendar, in unix milliseconds.
    pub unix: u64,
    /// Items in the leader's index, about: how large the next one should be made.
    pub items: u64,
    /// Segments that were freed in the term, and that the file has as free.
    pub reclaimed: u64,
    /// By stream: all positions below are in the file.
    pub floors: Vec<u64>,
}

/// Whether these floors cover all positions below those that were written, by stream.
pub fn covers(floors: &[u64], written: &[u64]) -> bool {
    let floors = floors.iter().copied().chain(std::iter::repeat(0));
    written.iter().zip(floors).all(|(&written, floor)| written <= floor)
}

impl Note {
    /// Whether it says that all of this is in the file: the positions that were written at some moment, and
    /// all versions that had been drawn by then.
    pub fn covers(&self, written: &[u64], csn: Csn) -> bool {
        let covers = self.stable >= csn && covers(&self.floors, written);
        covers || Mutant::ReuseEarly.is_on()
    }

    /// The bytes at the start of its block.
    ///
    /// # Panics
    /// If there are more than [`FLOORS_MAX`] floors.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.floors.len() <= FLOORS_MAX, "{} floors do not fit a note", self.floors.len());
        let flags = u64::from(self.ended) | u64::from(self.sync) << 1 | u64::from(self.mixed) << 2;
        let moment = [self.number, self.term.bits(), self.stable.0, self.ceiling.0, flags];
        let leader = [self.unix, self.items, self.reclaimed, self.floors.len() as u64];
        let words = moment.into_iter().chain(leader).chain(self.floors.iter().copied());
        let body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let sum = SumKey::new(SUM_KEY).sum(note_at(self.number), &body);
        [&sum.to_le_bytes()[..], &body].concat()
    }

    /// The note in the block at this place of the file, if one is there as it was written.
    pub fn decode(at: u64, block: &[u8]) -> Option<Note> {
        let word = |i: usize| {
            let bytes = block.get(8 * i..8 * i + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        };
        let floors = usize::try_from(word(9)?).ok().filter(|floors| *floors <= FLOORS_MAX)?;
        let body = block.get(8..HEAD + 8 * floors)?;
        if SumKey::new(SUM_KEY).sum(at, body) != word(0)? {
            return None;
        }
        Some(Note {
            number: word(1)?,
            term: Term::from_bits(word(2)?)?,
            stable: Csn(word(3)?),
            ceiling: Csn(word(4)?),
            ended: word(5)? & 1 != 0,
            sync: word(5)? & 2 != 0,
            mixed: word(5)? & 4 != 0,
            unix: word(6)?,
            items: word(7)?,
            reclaimed: word(8)?,
            floors: (0..floors).map(|i| word(10 + i)).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::ReplicaId;
    use proptest::prelude::*;

    use super::*;

    fn note(number: u64, floors: Vec<u64>) -> Note {
        let term = Term::new(7, ReplicaId(3));
        let (stable, ceiling) = (Csn(90), Csn(1 << 20));
        let (ended, sync, mixed, unix, items, reclaimed) = (true, false, true, 5, 6, 7);
        Note { number, term, stable, ceiling, ended, sync, mixed, unix, items, reclaimed, floors }
    }

    #[test]
    fn a_note_comes_back_with_all_the_floors_that_fit() {
        for floors in [vec![], vec![5, 0, u64::MAX], vec![1; FLOORS_MAX]] {
            let note = note(9, floors);
            let bytes = note.encode();
            assert!(bytes.len() as u64 <= NOTE_BYTES);
            assert_eq!(Note::decode(note_at(9), &bytes), Some(note.clone()));
            assert_eq!(Note::decode(note_at(8), &bytes), None, "in the other block");
        }
    }

    proptest! {
        #[test]
        fn bytes_that_were_not_written_are_no_note(
            at in 0usize..104,
            flip in 1u8..,
            cut in 0usize..104,
            rubbish in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let whole = note(4, vec![1, 2, 3]).encode();
            prop_assert_eq!(whole.len(), 104);
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            prop_assert_eq!(Note::decode(note_at(4), &bytes), None);
            prop_assert_eq!(Note::decode(note_at(4), &whole[..cut]), None);
            prop_assert_eq!(Note::decode(note_at(4), &rubbish), None);
        }
    }
}
