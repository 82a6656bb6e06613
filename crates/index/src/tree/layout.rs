//! Bytes of an ordered tree: nodes that verify themselves, and the header that names the root.
//!
//! The tree is a B-link tree (Lehman and Yao: Efficient locking for concurrent operations on B-trees, TODS
//! 1981, section 3): each node has a right neighbour and says which keys it covers, so that who comes by an
//! old pointer goes right instead of wrong. A node is one contiguous range, which one READ fetches, and shows
//! by its checksum that it is whole (Cell 2.3). What points to a node is a place in units, a generation and a
//! level (Cell 2.1: a region and an offset, never an address).
//!
//! Node, little-endian words, `u` units of 1 KiB long (256 bytes in tests), `u` being 1, 2, 4 or 8:
//! ```text
//!  0 checksum    of all bytes behind it, seeded with incarnation and offset
//!  8 mark        step 40 | generation 24                                       (low bits left)
//! 16 shape       level 8 | class 2 | 0: 6 | count 16 | heap at 16 | prefix length 16
//! 24 right       pointer of the right neighbour, 0 for the last node of a level
//! 32 fences      low at 16 | low length 16 | high at 16 | high length 16
//! 40 first child pointer, of inner nodes: covers the keys from the low fence up to the first separator
//! 48 zero        (before-image and its step)
//! 64 slots       8 bytes each, in the order of keys: at 16 | suffix length 16 | head 32
//!    heap        up to the end: records, fences, and the prefix as the very last bytes
//! ```
//! A leaf's record is `csn 51 | marker 1 | expires 1`, then `offset/64: 34 | length/64: 14 | 0: 16`, then the
//! expiry if there is one, then the suffix; an inner node's is a pointer and the suffix. Records are not
//! aligned: nothing but a whole node is ever looked at.
//! A pointer is `unit 30 | class 2 | level 8 | generation 24`.
//!
//! (1) A key is prefix and suffix; the prefix is what all keys of the node have in common. The head is the
//!     suffix's first four bytes, big-endian, zeroes behind a shorter one: heads are ordered as keys are, and
//!     only equal heads need a look at the heap.
//! (2) Fences: low inclusive, high exclusive. Length 0 means none, as no key is empty.
//! (3) The generation of a place grows when a node takes it and when it leaves it, in the node's mark, too:
//!     what is no longer part of the tree has a generation that no pointer ever has.
//! (4) A place of `u` units begins at a multiple of `u` units.
//!
//! Header: two copies, written in turn, the step's lowest bit saying which; see [`header`].

use longarm_base::limits::{KEY_MAX, LINE, TREE_HEIGHT_MAX, TREE_STREAMS_MAX};
use longarm_base::random::mix64;
use longarm_base::{Place, RegionId};

/// The region that holds a tree.
pub const TREE_REGION: RegionId = RegionId(6);

/// Words of a node's first line, in bytes from its start.
pub mod node {
    /// Checksum of all bytes behind it.
    pub const CHECKSUM: usize = 0;
    /// [`Mark`](super::Mark).
    pub const MARK: usize = 8;
    /// [`Shape`](super::Shape).
    pub const SHAPE: usize = 16;
    /// Right neighbour.
    pub const RIGHT: usize = 24;
    /// Where the fences are, and their lengths.
    pub const FENCES: usize = 32;
    /// First child of an inner node.
    pub const FIRST: usize = 40;
    /// First slot.
    pub const SLOTS: usize = 64;
    /// Bytes of a slot.
    pub const SLOT: usize = 8;
}

/// Words of a header, in bytes from the start of its copy.
pub mod header {
    /// Checksum of what follows, up to the last stream; seeded with the offset of the copy.
    pub const CHECKSUM: usize = 0;
    /// Drawn for each tree: the nodes' checksums are seeded with it.
    pub const INCARNATION: usize = 8;
    /// Term whose streams the positions are of, as bits.
    pub const TERM: usize = 16;
    /// `step 40 | streams 16 | logarithm of the bytes of a unit 8`, low bits first.
    pub const STEP: usize = 24;
    /// Pointer of the root.
    pub const ROOT: usize = 32;
    /// Items, markers not counted.
    pub const ITEMS: usize = 40;
    /// Markers of deleted keys.
    pub const MARKERS: usize = 48;
    /// Nodes of the tree.
    pub const NODES: usize = 56;
    /// Units that they take.
    pub const UNITS: usize = 64;
    /// First unit that was never handed out.
    pub const TOP: usize = 72;
    /// All writes up to this csn are applied, and in the tree.
    pub const STABLE: usize = 80;
    /// Applied positions, one a stream.
    pub const APPLIED: usize = 96;
    /// Bytes of a copy with so many streams.
    pub const fn bytes(streams: usize) -> usize {
        APPLIED + 8 * streams
    }
}

/// Bytes set aside for one copy of the header.
pub const HEADER_ROOM: u64 = 16 << 10;
/// First byte of the nodes.
pub const NODES_AT: u64 = 2 * HEADER_ROOM;
/// Classes of nodes: class `c` has `1 << c` units.
pub const CLASSES: u8 = 4;
/// Units of the largest node, the block by which places are taken.
pub const BLOCK_UNITS: u64 = 1 << (CLASSES - 1);
/// Bits of a step.
pub const STEP_BITS: u32 = 40;
/// Largest step: thousand steps a second for thirty years.
pub const STEP_MAX: u64 = (1 << STEP_BITS) - 1;
/// Bits of a generation.
pub const GENERATION_BITS: u32 = 24;
/// Bits of a pointer's unit.
pub const UNIT_BITS: u32 = 30;

/// Bytes of the smallest node of a tree, and so of a place's unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Unit {
    /// 256 bytes: for tests, where trees shall be high with few keys.
    Small,
    /// 1 KiB.
    Kib,
}

impl Unit {
    /// Logarithm of the bytes, as the header has it.
    pub const fn log2(self) -> u32 {
        match self {
            Unit::Small => 8,
            Unit::Kib => 10,
        }
    }

    /// The unit of this logarithm.
    pub const fn from_log2(log2: u32) -> Option<Unit> {
        match log2 {
            8 => Some(Unit::Small),
            10 => Some(Unit::Kib),
            _ => None,
        }
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.log2()
    }

    /// Bytes of a node of this class.
    pub const fn node_bytes(self, class: u8) -> usize {
        (self.bytes() << class) as usize
    }

    /// The first unit that a node can have.
    pub const fn first(self) -> u64 {
        NODES_AT / self.bytes()
    }

    /// Longest key: the largest node holds at least four of them beside its fences.
    pub const fn key_max(self) -> usize {
        let bytes = self.bytes() as usize;
        if bytes < KEY_MAX { bytes } else { KEY_MAX }
    }
}

const _: () = {
    assert!(node::SLOTS as u64 == LINE);
    assert!(header::bytes(TREE_STREAMS_MAX) as u64 <= HEADER_ROOM);
    assert!(HEADER_ROOM.is_multiple_of(LINE) && NODES_AT.is_multiple_of(Unit::Kib.bytes() * BLOCK_UNITS));
    assert!(UNIT_BITS + 2 + 8 + GENERATION_BITS == 64 && STEP_BITS + GENERATION_BITS == 64);
    assert!(CLASSES as u32 <= 1 << 2 && TREE_HEIGHT_MAX < 1 << 8);
    assert!(Unit::Kib.node_bytes(CLASSES - 1) <= u16::MAX as usize);
    assert!(four_keys_fit(Unit::Small) && four_keys_fit(Unit::Kib));
    assert!(Unit::Kib.key_max() == KEY_MAX);
};

/// Whether four records with the longest keys and two such fences fit into the largest node; a split of one
/// more then always finds two halves that fit.
const fn four_keys_fit(unit: Unit) -> bool {
    let record = node::SLOT + PAYLOAD_MAX + unit.key_max();
    node::SLOTS + 4 * record + 2 * unit.key_max() <= unit.node_bytes(CLASSES - 1)
}

/// Bytes of the longest record without its suffix.
pub const PAYLOAD_MAX: usize = 24;

/// What names a node: where it is, how long, on which level, and in which use of the place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pointer {
    /// Offset in units from the start of the region.
    pub unit: u64,
    /// Class: `1 << class` units.
    pub class: u8,
    /// Level, leaves being 0.
    pub level: u8,
    /// Use of the place.
    pub generation: u32,
}

impl Pointer {
    /// The word; never zero, as no node is at offset 0.
    pub const fn pack(self) -> u64 {
        self.unit
            | (self.class as u64) << UNIT_BITS
            | (self.level as u64) << (UNIT_BITS + 2)
            | (self.generation as u64) << (64 - GENERATION_BITS)
    }

    /// The pointer of a word; `None` for zero.
    pub const fn unpack(word: u64) -> Option<Pointer> {
        if word == 0 {
            return None;
        }
        Some(Pointer {
            unit: word & ((1 << UNIT_BITS) - 1),
            class: (word >> UNIT_BITS) as u8 & (CLASSES - 1),
            level: (word >> (UNIT_BITS + 2)) as u8,
            generation: (word >> (64 - GENERATION_BITS)) as u32,
        })
    }

    /// First byte of the node.
    pub const fn at(self, unit: Unit) -> u64 {
        self.unit * unit.bytes()
    }

    /// Bytes of the node.
    pub const fn bytes(self, unit: Unit) -> usize {
        unit.node_bytes(self.class)
    }

    /// Units of the node.
    pub const fn units(self) -> u64 {
        1 << self.class
    }

    /// What to READ for the node, if a region of `bytes` bytes has it at all.
    pub const fn place(self, unit: Unit, bytes: u64) -> Option<Place> {
        let (at, len) = (self.at(unit), self.bytes(unit) as u64);
        if at < NODES_AT || !self.unit.is_multiple_of(self.units()) || at + len > bytes {
            return None;
        }
        Some(Place::new(TREE_REGION, at, len as u32))
    }

    /// What to READ to see by its [`Mark`] whether the node has changed since.
    pub const fn mark_place(self, unit: Unit) -> Place {
        Place::new(TREE_REGION, self.at(unit) + node::MARK as u64, 8)
    }
}

/// Which use of its place a node is, and the step that changed it last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Use of the place.
    pub generation: u32,
    /// Step of the last change.
    pub step: u64,
}

impl Mark {
    /// The word.
    pub const fn pack(self) -> u64 {
        self.step | (self.generation as u64) << STEP_BITS
    }

    /// The mark of a word.
    pub const fn unpack(word: u64) -> Mark {
        Mark { generation: (word >> STEP_BITS) as u32, step: word & STEP_MAX }
    }
}

/// Form of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Level, leaves being 0.
    pub level: u8,
    /// Class: `1 << class` units.
    pub class: u8,
    /// Slots.
    pub count: u16,
    /// First byte of the heap.
    pub heap: u16,
    /// Bytes that all keys begin with.
    pub prefix: u16,
}

impl Shape {
    /// The word.
    pub const fn pack(self) -> u64 {
        self.level as u64
            | (self.class as u64) << 8
            | (self.count as u64) << 16
            | (self.heap as u64) << 32
            | (self.prefix as u64) << 48
    }

    /// The shape of a word.
    pub const fn unpack(word: u64) -> Shape {
        Shape {
            level: word as u8,
            class: (word >> 8) as u8 & (CLASSES - 1),
            count: (word >> 16) as u16,
            heap: (word >> 32) as u16,
            prefix: (word >> 48) as u16,
        }
    }
}

/// Where a run of bytes is within its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// First byte.
    pub at: u16,
    /// Length.
    pub len: u16,
}

impl Span {
    /// First byte behind it.
    pub const fn end(self) -> usize {
        self.at as usize + self.len as usize
    }
}

/// Word of the two fences.
pub const fn pack_fences(low: Span, high: Span) -> u64 {
    low.at as u64 | (low.len as u64) << 16 | (high.at as u64) << 32 | (high.len as u64) << 48
}

/// Low and high fence of a word.
pub const fn unpack_fences(word: u64) -> [Span; 2] {
    let low = Span { at: word as u16, len: (word >> 16) as u16 };
    [low, Span { at: (word >> 32) as u16, len: (word >> 48) as u16 }]
}

/// Where a record is, how long its suffix is, and the suffix's first four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// First byte of the record.
    pub at: u16,
    /// Bytes of the suffix.
    pub suffix: u16,
    /// The suffix's head, see [`head`].
    pub head: u32,
}

impl Slot {
    /// The word.
    pub const fn pack(self) -> u64 {
        self.at as u64 | (self.suffix as u64) << 16 | (self.head as u64) << 32
    }

    /// The slot of a word.
    pub const fn unpack(word: u64) -> Slot {
        Slot { at: word as u16, suffix: (word >> 16) as u16, head: (word >> 32) as u32 }
    }
}

/// The first four bytes of a suffix as a number that is ordered as the bytes are; zeroes behind a shorter
/// one.
#[inline(always)]
pub fn head(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(first) => u32::from_le_bytes(*first).swap_bytes(),
        None => suffix.iter().enumerate().fold(0, |head, (i, byte)| head | u32::from(*byte) << (24 - 8 * i)),
    }
}

/// Seed of a node's checksum: a node verifies only where it was written, and in its own tree.
#[inline(always)]
pub const fn seed(incarnation: u64, at: u64) -> u64 {
    mix64(incarnation) ^ at
}

/// Seed of the checksum of a header's copy at this offset. No node is there.
pub const fn header_seed(at: u64) -> u64 {
    mix64(at)
}

/// The two places of a header with room for so many streams, of which the newer that verifies counts.
pub const fn header_places(streams: usize) -> [Place; 2] {
    let len = header::bytes(streams) as u32;
    [Place::new(TREE_REGION, 0, len), Place::new(TREE_REGION, HEADER_ROOM, len)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_packed() {
        let pointer = Pointer {
            unit: (1 << UNIT_BITS) - 8,
            class: 3,
            level: 11,
            generation: (1 << GENERATION_BITS) - 1,
        };
        assert_eq!(Pointer::unpack(pointer.pack()), Some(pointer));
        assert_eq!(Pointer::unpack(0), None);
        let mark = Mark { generation: 5, step: STEP_MAX };
        assert_eq!(Mark::unpack(mark.pack()), mark);
        let shape = Shape { level: 3, class: 2, count: 900, heap: 8190, prefix: 1024 };
        assert_eq!(Shape::unpack(shape.pack()), shape);
        let fences = [Span { at: 7000, len: 1024 }, Span { at: 6000, len: 1 }];
        assert_eq!(unpack_fences(pack_fences(fences[0], fences[1])), fences);
        let slot = Slot { at: 8000, suffix: 1024, head: u32::MAX };
        assert_eq!(Slot::unpack(slot.pack()), slot);
    }

    #[test]
    fn heads_are_ordered_as_keys_are() {
        let keys: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"ab", b"abcd", b"abcde", b"b"];
        assert!(keys.windows(2).all(|pair| head(pair[0]) <= head(pair[1])));
        assert_eq!(head(b"abcdx"), 0x6162_6364);
    }

    #[test]
    fn a_place_outside_the_region_is_none() {
        let node = |unit, class| Pointer { unit, class, level: 0, generation: 1 };
        let first = Unit::Kib.first();
        assert!(node(first, 0).place(Unit::Kib, NODES_AT + 1024).is_some());
        assert!(node(first, 1).place(Unit::Kib, NODES_AT + 1024).is_none());
        assert!(node(first + 1, 1).place(Unit::Kib, 1 << 30).is_none(), "not a multiple of its length");
        assert!(node(first - 1, 0).place(Unit::Kib, 1 << 30).is_none());
    }
}
