//! Bytes of the hash table: pairs of buckets that share standby buckets, and the header between them.
//!
//! A pair is `[even bucket][header][shared buckets][odd bucket]`, so that either bucket, the header and the
//! shared buckets are one contiguous range (continuity hashing III.A, III.B), and a lookup looks at a bounded
//! number of slots (NoSQL landscape 2.5). Added shared buckets ("SBuckets", IV.B) are groups of four slots
//! from a pool behind the pairs; a pair takes at most four groups, so one 64-byte header has a bit and a
//! fingerprint for every slot. The counts come from `lab/geometry` (its table is in
//! `docs/papers/continuity-hashing.md`): the smallest READ that still fills 70 % (continuity hashing V.B)
//! before the table must grow.
//!
//! Writes: the server's workers, under the pair's lock (`owner.rs`). Reads: anyone (`reader.rs`).
//! (1) The header is one cache line, each slot lies within one cache line.
//! (2) A slot that holds no record has a zero csn word.
//! (3) Word 1 of a header is zero (never used since the memory was zeroed) or carries the id of its table.

use longarm_base::limits::{LINE, PAIR_SLOTS_MAX, TABLES_MAX};
use longarm_base::{Place, RegionId};
use longarm_memory::{Hash, bytes_equal};

/// The region that holds all tables.
pub const INDEX_REGION: RegionId = RegionId(2);

/// Slots of one added group.
pub const GROUP_SLOTS: usize = 4;
/// Groups one pair may add.
pub const GROUPS_MAX: usize = 4;
/// One pair in so many may have added groups before the table grows (continuity hashing IV.B: "1/10").
pub const EXTENDED_SHARE: u64 = 10;

/// Words of the header.
pub mod header {
    /// Occupancy bits, flags and the version count.
    pub const INDICATOR: u64 = 0;
    /// Table id in the high half, the lock of the owner's threads in the low half.
    pub const OWNER: u64 = 8;
    /// Four 32-bit numbers of added groups, each plus one; zero for none. So clients need not be told of them
    /// (as in continuity hashing IV.B).
    pub const GROUPS: u64 = 16;
    /// One fingerprint byte a slot.
    pub const FINGERPRINTS: u64 = 32;
    /// Bytes of the header.
    pub const BYTES: u64 = 64;
}

/// Bits of the indicator word (continuity hashing III.A, where it has one bit a slot and nothing else).
pub mod indicator {
    /// One bit a slot.
    pub const OCCUPIED: u64 = (1 << 32) - 1;
    /// The pair has added groups.
    pub const EXTENDED: u64 = 1 << 32;
    /// The pair's records are in the next table.
    pub const MOVED: u64 = 1 << 33;
    /// Items of the pair may stand beside the table, where only the server finds them (`spill.rs`).
    pub const SPILLED: u64 = 1 << 34;
    /// One step of the version count, which every change of the indicator takes.
    pub const STEP: u64 = 1 << 36;
}

const _: () = {
    assert!(header::BYTES == LINE);
    assert!(header::GROUPS + 4 * GROUPS_MAX as u64 == header::FINGERPRINTS);
    assert!(header::FINGERPRINTS + PAIR_SLOTS_MAX as u64 == header::BYTES);
    assert!(indicator::OCCUPIED.count_ones() as usize == PAIR_SLOTS_MAX);
    assert!(
        PairShape::INLINE.slots_max() <= PAIR_SLOTS_MAX && PairShape::POINTER.slots_max() <= PAIR_SLOTS_MAX
    );
    assert!(
        PairShape::INLINE.pair_bytes().is_multiple_of(LINE)
            && PairShape::POINTER.pair_bytes().is_multiple_of(LINE)
    );
};

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SlotKind {
    /// 64 bytes: a small key and value inline, or the place of an entry.
    Inline64,
    /// 16 bytes: version and place of an entry.
    Pointer16,
}

/// Slots and sizes of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairShape {
    /// Kind of every slot of the table.
    pub kind: SlotKind,
    /// Slots of one bucket.
    pub bucket: usize,
    /// Slots of the shared buckets.
    pub shared: usize,
}

impl PairShape {
    /// 14 slots, READ of 704 bytes, 70.7 % when it grows.
    pub const INLINE: PairShape = PairShape { kind: SlotKind::Inline64, bucket: 4, shared: 6 };
    /// 16 slots, READ of 256 bytes, 72.7 % when it grows.
    pub const POINTER: PairShape = PairShape { kind: SlotKind::Pointer16, bucket: 4, shared: 8 };

    /// The shape of a kind.
    pub const fn of(kind: SlotKind) -> PairShape {
        match kind {
            SlotKind::Inline64 => PairShape::INLINE,
            SlotKind::Pointer16 => PairShape::POINTER,
        }
    }

    /// Bytes of a slot.
    #[inline(always)]
    pub const fn slot_bytes(&self) -> u64 {
        match self.kind {
            SlotKind::Inline64 => 64,
            SlotKind::Pointer16 => 16,
        }
    }

    /// Slots of a pair without added groups.
    pub const fn base_slots(&self) -> usize {
        2 * self.bucket + self.shared
    }

    /// Slots of a pair with all groups.
    pub const fn slots_max(&self) -> usize {
        self.base_slots() + GROUPS_MAX * GROUP_SLOTS
    }

    /// Bytes of a pair.
    pub const fn pair_bytes(&self) -> u64 {
        self.base_slots() as u64 * self.slot_bytes() + header::BYTES
    }

    /// Bits of the slots of an added group.
    #[inline(always)]
    pub const fn group_mask(&self, group: usize) -> u32 {
        ((1u32 << GROUP_SLOTS) - 1) << (self.base_slots() + group * GROUP_SLOTS)
    }

    /// Bytes of one added group.
    pub const fn group_bytes(&self) -> u64 {
        GROUP_SLOTS as u64 * self.slot_bytes()
    }

    /// Bytes from the start of a pair to its header.
    #[inline(always)]
    pub const fn header_at(&self) -> u64 {
        self.bucket as u64 * self.slot_bytes()
    }

    /// Bytes of a window: a home bucket, the header and the shared buckets.
    pub const fn window_bytes(&self) -> u32 {
        ((self.bucket + self.shared) as u64 * self.slot_bytes() + header::BYTES) as u32
    }

    /// Bits of the slots a key of this parity may be in, added groups included.
    #[inline(always)]
    pub const fn home_mask(&self, odd: bool) -> u32 {
        let base = self.base_slots();
        let added = (((1u64 << self.slots_max()) - 1) as u32) & !((1u32 << base) - 1);
        let near = (1u32 << (self.bucket + self.shared)) - 1;
        if odd { (near << self.bucket) | added } else { near | added }
    }

    /// Bytes from the start of a pair to one of its own slots (not of an added group).
    #[inline(always)]
    pub const fn slot_at(&self, slot: usize) -> u64 {
        let at = slot as u64 * self.slot_bytes();
        if slot < self.bucket { at } else { at + header::BYTES }
    }
}

/// How records are replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Discipline {
    /// In their slot: volatile tables. A record is valid by its own checksum.
    InPlace,
    /// In a free slot, by one atomic store of the indicator: persistent tables (continuity hashing III.C).
    OutOfPlace,
}

impl Discipline {
    /// Its name, in the words of options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Discipline::InPlace => "in-place",
            Discipline::OutOfPlace => "out-of-place",
        }
    }
}

/// One hash table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// Never used twice by one server process, never zero.
    pub id: u32,
    /// Slots and sizes.
    pub shape: PairShape,
    /// How records are replaced.
    pub discipline: Discipline,
    /// First byte in the index region, on a cache line.
    pub base: u64,
    /// Number of pairs; buckets are twice as many.
    pub pairs: u64,
    /// Groups in the pool behind the pairs.
    pub groups: u64,
}

impl Table {
    /// Groups that a table of `pairs` pairs sets aside: a tenth of the pairs, some of which take more than
    /// one.
    pub const fn groups_for(pairs: u64) -> u64 {
        pairs / 8 + GROUPS_MAX as u64
    }

    /// Bytes of a table of `pairs` pairs, pool included.
    pub const fn bytes_for(shape: PairShape, pairs: u64) -> u64 {
        let bytes = pairs * shape.pair_bytes() + Table::groups_for(pairs) * shape.group_bytes();
        bytes.next_multiple_of(4096)
    }

    /// Bytes of this table.
    pub const fn bytes(&self) -> u64 {
        Table::bytes_for(self.shape, self.pairs)
    }

    /// Pair and parity of a key's home bucket (equation 1, without the division).
    #[inline(always)]
    pub fn home(&self, hash: Hash) -> (u64, bool) {
        let bucket = hash.below(self.pairs * 2);
        (bucket / 2, bucket % 2 == 1)
    }

    /// First byte of a pair.
    #[inline(always)]
    pub fn pair_at(&self, pair: u64) -> u64 {
        self.base + pair * self.shape.pair_bytes()
    }

    /// First byte of a pair's header.
    #[inline(always)]
    pub fn header_at(&self, pair: u64) -> u64 {
        self.pair_at(pair) + self.shape.header_at()
    }

    /// The header alone.
    #[inline(always)]
    pub fn header_place(&self, pair: u64) -> Place {
        Place::new(INDEX_REGION, self.header_at(pair), header::BYTES as u32)
    }

    /// The window of a key of this parity: home bucket, header and shared buckets.
    #[inline(always)]
    pub fn window_place(&self, pair: u64, odd: bool) -> Place {
        let from = if odd { self.shape.header_at() } else { 0 };
        Place::new(INDEX_REGION, self.pair_at(pair) + from, self.shape.window_bytes())
    }

    /// First byte of a slot of a pair whose header names these groups; `None` if the header names no such
    /// group (it was torn, or is not a header at all).
    #[inline(always)]
    pub fn slot_at(&self, pair: u64, slot: usize, groups: &[u32; GROUPS_MAX]) -> Option<u64> {
        let base = self.shape.base_slots();
        if slot < base {
            return Some(self.pair_at(pair) + self.shape.slot_at(slot));
        }
        let added = slot - base;
        let group = *groups.get(added / GROUP_SLOTS)?;
        if group == 0 || u64::from(group) > self.groups {
            return None;
        }
        let pool = self.base + self.pairs * self.shape.pair_bytes();
        let within = (added % GROUP_SLOTS) as u64 * self.shape.slot_bytes();
        Some(pool + u64::from(group - 1) * self.shape.group_bytes() + within)
    }
}

/// The tables in use, oldest first: a key is in the first whose pair has not MOVED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Grows with every change of the list.
    pub epoch: u64,
    /// The tables; the first `live` count.
    pub tables: [Option<Table>; TABLES_MAX],
    /// Key of the placing hash.
    pub hash_key: u64,
}

impl Geometry {
    /// The live tables, oldest first.
    pub fn live(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().map_while(Option::as_ref)
    }
}

/// A header, copied out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Occupancy, flags, version.
    pub indicator: u64,
    /// Id of the table, zero in a pair that was never used.
    pub table: u32,
    /// Whether a thread of the owner has the pair's lock.
    pub locked: bool,
    /// Added groups, each plus one.
    pub groups: [u32; GROUPS_MAX],
    /// Fingerprints as four words of eight bytes.
    pub fingerprints: [u64; 4],
}

impl Header {
    /// Takes a copied-out line apart.
    #[inline(always)]
    pub fn parse(line: &[u8; 64]) -> Header {
        let word = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().expect("eight bytes"));
        let (low, high) = (word(16), word(24));
        Header {
            indicator: word(0),
            table: (word(8) >> 32) as u32,
            locked: word(8) & 1 != 0,
            groups: [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32],
            fingerprints: [word(32), word(40), word(48), word(56)],
        }
    }

    /// Bits of the slots whose fingerprint is `byte`.
    #[inline(always)]
    pub fn matching(&self, byte: u8) -> u32 {
        bytes_equal(&self.fingerprints, byte)
    }

    /// Of these slots, as bits, those that a record of the hash may be in.
    #[inline(always)]
    pub fn candidates(&self, hash: Hash, among: u32) -> u32 {
        self.matching(hash.fingerprint()) & self.occupied() & among
    }

    /// Occupied slots, as bits.
    #[inline(always)]
    pub fn occupied(&self) -> u32 {
        self.indicator as u32
    }

    /// Whether the pair's records are in the next table.
    #[inline(always)]
    pub fn moved(&self) -> bool {
        self.indicator & indicator::MOVED != 0
    }

    /// Whether items of the pair may stand beside the table.
    #[inline(always)]
    pub fn spilled(&self) -> bool {
        self.indicator & indicator::SPILLED != 0
    }

    /// Slots that exist: those of the pair and of its added groups.
    pub fn existing(&self, shape: &PairShape) -> u32 {
        let base = ((1u64 << shape.base_slots()) - 1) as u32;
        let groups = self.groups.iter().enumerate().filter(|(_, group)| **group != 0);
        groups.fold(base, |slots, (at, _)| slots | shape.group_mask(at))
    }

    /// Whether the pair has added groups.
    pub fn is_extended(&self) -> bool {
        self.indicator & indicator::EXTENDED != 0
    }

    /// Whether the pair has as many added groups as it may have.
    pub fn is_whole(&self) -> bool {
        !self.groups.contains(&0)
    }
}
