//! An arena on a disk: one file of fixed size with the bytes of the arena's segments at the same distances,
//! its segment table, and notes of how much of the arena the file holds.
//!
//! The segments are the log: an entry is written once, where it stands in the arena, and verifies itself. So
//! the file of a replica that lost its memory is what the memory of a follower is after the WRITEs of a
//! leader that is gone, and is adopted in the same way.
//!
//! - [`layout`] is the file, byte by byte. [`Note`] is what is written of a moment.
//! - [`Medium`] is what a file does: [`FileMedium`], [`PersistentMedium`] where it is persistent memory, and
//!   [`SectorMedium`] of which tests take all states that a loss of power may leave.
//! - [`ArenaDisk`] is the file as a whole: who writes it keeps the order of lines, entries and notes, and
//!   says when to sync. After the first failure of the medium nothing is written any more. [`Scribe`] does
//!   that for a leader.
#![forbid(unsafe_code)]

mod arena_disk;
mod error;
mod file;
pub mod layout;
mod medium;
mod note;
mod persistent;
mod prewriter;
mod scribe;
mod sectors;
mod sequence;
mod table;

pub use arena_disk::{ArenaDisk, Found, Shape};
pub use error::DiskError;
pub use file::FileMedium;
pub use medium::Medium;
pub use note::{Note, covers};
pub use persistent::{MediumKind, PersistentMedium, persistent_region};
pub use scribe::{Mark, Scribe};
pub use sectors::{Fault, SectorMedium};
pub use table::Line;
