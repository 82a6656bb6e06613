//! The header of a tree: what it is at one step, in two copies that are written in turn.
//!
//! A reader takes the newer of the copies that verify. While one is being written the other is whole; who is
//! slower than two steps may find neither, and looks again.

use longarm_base::{Csn, Term};
use longarm_memory::{OwnedWords, SumKey};

use super::layout::{HEADER_ROOM, Mark, Pointer, STEP_MAX, Unit, header, header_seed};

/// A tree at one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Drawn for each tree.
    pub incarnation: u64,
    /// Term whose streams the positions are of.
    pub term: Term,
    /// Number of the step: no node of the tree was changed by a later one.
    pub step: u64,
    /// Bytes of a place's unit.
    pub unit: Unit,
    /// The root; its level is the height less one.
    pub root: Pointer,
    /// Items, markers not counted.
    pub items: u64,
    /// Markers of deleted keys.
    pub markers: u64,
    /// Nodes of the tree.
    pub nodes: u64,
    /// Units that they take.
    pub units: u64,
    /// First unit that was never handed out.
    pub top: u64,
    /// All writes up to this csn are applied, and in the tree.
    pub stable: Csn,
    /// Positions of the term's streams up to which the tree has all entries.
    pub applied: Vec<u64>,
}

impl Header {
    /// Where the copy of a step stands.
    pub const fn copy_at(step: u64) -> u64 {
        (step & 1) * HEADER_ROOM
    }

    /// The words of its copy, with the checksum.
    pub fn pack(&self, sums: &SumKey) -> Vec<u8> {
        let mut bytes = vec![0; header::bytes(self.applied.len())];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        let streams = self.applied.len() as u64;
        put(header::INCARNATION, self.incarnation);
        put(header::TERM, self.term.bits());
        put(header::STEP, self.step | streams << 40 | u64::from(self.unit.log2()) << 56);
        put(header::ROOT, self.root.pack());
        put(header::ITEMS, self.items);
        put(header::MARKERS, self.markers);
        put(header::NODES, self.nodes);
        put(header::UNITS, self.units);
        put(header::TOP, self.top);
        put(header::STABLE, self.stable.0);
        for (i, position) in self.applied.iter().enumerate() {
            put(header::APPLIED + 8 * i, *position);
        }
        let sum = sums.sum(header_seed(Header::copy_at(self.step)), &bytes[8..]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Takes the copy apart that stands at `at`, if it verifies. There may be more bytes than it has.
    pub fn parse(bytes: &[u8], at: u64, sums: &SumKey) -> Option<Header> {
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let step = word(header::STEP)?;
        let streams = (step >> 40) as usize & 0xFFFF;
        let bytes = bytes.get(..header::bytes(streams))?;
        if word(header::CHECKSUM)? != sums.sum(header_seed(at), &bytes[8..]) {
            return None;
        }
        let parsed = Header {
            incarnation: word(header::INCARNATION)?,
            term: Term::from_bits(word(header::TERM)?)?,
            step: step & STEP_MAX,
            unit: Unit::from_log2((step >> 56) as u32)?,
            root: Pointer::unpack(word(header::ROOT)?)?,
            items: word(header::ITEMS)?,
            markers: word(header::MARKERS)?,
            nodes: word(header::NODES)?,
            units: word(header::UNITS)?,
            top: word(header::TOP)?,
            stable: Csn(word(header::STABLE)?),
            applied: (0..streams).map_while(|i| word(header::APPLIED + 8 * i)).collect(),
        };
        (Header::copy_at(parsed.step) == at).then_some(parsed)
    }

    /// The newer of two copies, given as they stand at [`header_places`](super::layout::header_places);
    /// `None` if neither verifies: look again.
    pub fn newest(copies: [&[u8]; 2], sums: &SumKey) -> Option<Header> {
        let [first, second] =
            [(copies[0], 0), (copies[1], HEADER_ROOM)].map(|(bytes, at)| Header::parse(bytes, at, sums));
        // A smaller step of another incarnation is no older; but steps go on from one to the next.
        [first, second].into_iter().flatten().max_by_key(|header| header.step)
    }

    /// Writes the copy of this step: words that changed, the checksum last.
    pub fn store(&self, memory: &impl OwnedWords, sums: &SumKey) {
        let at = Header::copy_at(self.step);
        let bytes = self.pack(sums);
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("a word")));
        for (i, word) in words.clone().enumerate().skip(1) {
            let at = at + 8 * i as u64;
            if memory.load(at) != word {
                memory.store(at, word);
            }
        }
        memory.store(at, words.into_iter().next().expect("a checksum"));
    }

    /// Clears both copies: there is no tree any more, until a step is published.
    pub fn erase(memory: &impl OwnedWords) {
        // The checksums first, so that no half of a header verifies.
        for copy in [0, HEADER_ROOM] {
            for at in (copy..copy + HEADER_ROOM).step_by(8).filter(|&at| memory.load(at) != 0) {
                memory.store(at, 0);
            }
        }
    }

    /// Whether there is no tree: nothing was ever published here, or it was erased.
    pub fn is_absent(copies: [&[u8]; 2]) -> bool {
        copies.iter().all(|copy| copy.iter().all(|&byte| byte == 0))
    }

    /// Whether a node that was accepted under this header is as it was, by its mark alone, READ after a later
    /// header: the same use of its place, and no change since.
    pub fn still_has(&self, pointer: Pointer, mark: u64) -> bool {
        let mark = Mark::unpack(mark);
        mark.generation == pointer.generation && mark.step <= self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(step: u64) -> Header {
        let root = Pointer { unit: 32, class: 0, level: 0, generation: 1 };
        Header {
            incarnation: 7,
            term: Term::ZERO,
            step,
            unit: Unit::Kib,
            root,
            items: 1,
            markers: 2,
            nodes: 3,
            units: 4,
            top: 40,
            stable: Csn(9),
            applied: vec![5, 6, 7],
        }
    }

    #[test]
    fn the_newer_copy_that_verifies_counts() {
        let sums = SumKey::new(1);
        let [even, odd] = [some(4), some(5)].map(|header| header.pack(&sums));
        assert_eq!(Header::newest([&even, &odd], &sums), Some(some(5)));
        let mut torn = odd.clone();
        torn[header::APPLIED] ^= 1;
        assert_eq!(Header::newest([&even, &torn], &sums), Some(some(4)));
        assert_eq!(Header::newest([&odd, &even], &sums), None, "not where they were written");
        assert_eq!(Header::newest([&even[..90], &[]], &sums), None);
    }
}
