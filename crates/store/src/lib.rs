//! The entry and segment store: the place of keys and values that do not fit a slot (LoLKV 3.1, 4.1).
//!
//! An arena is one region of equal segments. The first of them hold the segment table, one cache line a
//! segment; all others hold entries. An entry is written once, verifies itself, and is named by an
//! [`EntryRef`](longarm_base::EntryRef) and its csn; only its superseded bit ever changes.
//!
//! - [`object`]: one entry: bytes, writing, one-sided reading, checking.
//! - [`segment`]: segments: the table, claims, live bytes, and the check of a whole arena.
//! - [`Store`] is shared by the workers, a [`Writer`] belongs to one of them, and a [`Collector`] finds
//!   entries to move so that dead segments can be reused.
//! - [`progress`]: how far each stream is, for parties that follow it by READs.
//! - A follower's arena, filled by a leader's one-sided WRITEs, has no store: [`format()`] lays it out,
//!   [`survey()`] says what came (not all at once: [`Settled`]), and [`Store::adopt`] takes it over.
//!
//! The crate does not know the index, draws no csn, reads no clock and does no I/O. Its callers decide who
//! may name an entry, and when; `store.rs` states the order that they must keep.
#![forbid(unsafe_code)]

mod adopt;
mod arena;
mod class;
mod collect;
mod huge;
pub mod object;
mod options;
pub mod progress;
mod reopen;
pub mod segment;
mod settled;
mod store;
mod stream;
mod survey;
mod sync;
mod write_window;
mod writer;
mod written;

#[cfg(test)]
mod tests;

pub use adopt::Visit;
pub use arena::ArenaView;
pub use collect::{Collector, Work};
pub use huge::{HugePace, Populated};
pub use object::{Draft, Entry, EntryError, EntryKind, EntryMeta, OperationId, Stored};
pub use options::{CreateStoreError, DraftError, FillError, StoreFull, StoreOptions};
pub use segment::{ArenaReport, verify, verify_with};
pub use settled::{Settled, SettledWatcher};
pub use store::{Store, StoreCounters, format};
pub use survey::{
    Room, SegmentUse, StreamSurvey, Survey, entries, segment_entries, survey, void, whole_entry,
};
pub use write_window::{EndedWindow, WriteWindow};
pub use writer::Writer;
pub use written::Scratch;
