//! Where bytes are: a region and an offset, never a pointer.

/// Names a region within the process that owns it. A peer learns the regions it may use when it connects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RegionId(pub u32);

/// What travels instead of a pointer (Cell 2.1: "All pointers consist of a region ID and offset").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The region that holds the bytes.
    pub region: RegionId,
    /// Bytes from the start of the region; a multiple of 8.
    pub offset: u64,
    /// Length in bytes; a multiple of 8.
    pub len: u32,
}

impl Place {
    /// A place in `region`.
    pub const fn new(region: RegionId, offset: u64, len: u32) -> Place {
        Place { region, offset, len }
    }

    /// First offset after the place; `None` when the sum overflows (such a place came from torn or hostile
    /// bytes).
    pub const fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.len as u64)
    }
}
