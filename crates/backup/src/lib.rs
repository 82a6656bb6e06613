//! Backups: what a leader held at one version, copied while it serves, and what becomes of it.
//!
//! - [`Copying`] makes a backup of a leader, step by step: which segments, in which order, and when it lets
//!   go of each. It is told how to READ and to ask by a [`Source`], a
//!   [`Leader`] mostly, and knows no connection, thread or clock.
//! - A [`Frame`] is what a backup has of a segment. A [`Target`] takes frames, in parts of 8 MiB with a sum
//!   each, in a directory or on a stream; the [`Manifest`] comes last.
//! - [`Chain`] reads a backup, with the older ones that it rests on. [`restore()`] makes a data directory of
//!   it, [`check()`] looks at every byte.
//!
//! A backup has no key of the store that it is of: its sums are SHA-256, and whoever knows the keys of a
//! cluster could forge entries.
#![forbid(unsafe_code)]

mod chain;
mod copying;
mod error;
mod frame;
mod leader;
mod manifest;
mod parts;
mod restore;
mod target;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Checked, check};
pub use copying::{CopyError, Copying, Source, Start, Step};
pub use error::BackupError;
pub use frame::{BackedEntry, Frame};
pub use leader::Leader;
pub use manifest::{Contents, Manifest, Part, Since, UseName};
pub use restore::{Origin, Restored, Whose, restore};
pub use target::Target;
