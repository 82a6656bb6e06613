//! The version of an entry.

use crate::limits::CSN_MAX;

/// Commit sequence number: one 64-bit counter a group, which orders all its writes (LoLKV 3.3.3,
/// where it is a counter a group of keys, which begins anew with each term). Zero names no write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Csn(pub u64);

impl Csn {
    /// No write: an empty slot, or the version of a key that does not exist.
    pub const NONE: Csn = Csn(0);

    /// Whether the number can name a write and fits into a slot.
    pub const fn is_valid(self) -> bool {
        self.0 != 0 && self.0 <= CSN_MAX
    }
}
