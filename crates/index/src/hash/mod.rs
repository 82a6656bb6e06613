//! Continuity hash table: one contiguous READ fetches every place a key can be in (continuity hashing III.A).
//!
//! `layout` freezes the bytes, `slot` packs records, `owner` changes a pair under its lock, `groups` gives a
//! pair more slots, `places` says where else an inline item stands, `spill` keeps what has no slot, `resize`
//! moves pairs to a larger table, `reopen` goes on from tables that outlived their server, `reader` is the
//! one-sided search as a value, `verify` checks a whole table.

mod compact;
mod found;
mod groups;
pub mod layout;
mod owner;
mod pair;
mod places;
mod reader;
mod reopen;
mod resize;
mod slot;
mod spill;
mod verify;

pub use found::Found;
pub use layout::{Discipline, Geometry, PairShape, SlotKind, Table};
pub use owner::{Entries, Full, NoRoom, Options, Owner};
pub use pair::{IndexGuard, LockedPair};
pub use reader::{InlineItem, ReadGranularity, Search, SearchStep};
pub use reopen::{ReopenError, Reopened};
pub use resize::Moved;
pub use slot::{INLINE_MAX, Record, SlotView};
pub use verify::{IndexReport, LookedAt, has_moved, items, verify};

#[cfg(test)]
mod tests;
