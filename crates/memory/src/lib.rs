//! The only door between typed code and bytes that another party may read or write.
//!
//! - [`Words`] is the right to look, [`OwnedWords`] the right to change. Structures are written once over
//!   these traits and run on [`Mapped`] memory in production and on a [`Journal`] in tests.
//! - A [`Region`] is memory with a file behind it, so that another process (shm) or a NIC can be given it.
//! - Every record carries a keyed 64-bit checksum ([`SumKey`]); nothing relies on the order in which the
//!   lines of a READ arrive.
//!
//! # The store rule
//! A store through [`OwnedWords::store`] is visible only after every store the same thread made before it
//! (`Release`; pairs with the `Acquire` of [`Words::load`]). So the journal's order *is* the order in which
//! any reader may see an owner's changes, up to the freedom a one-sided READ has to sample each cache line
//! at another moment. The tests enumerate that freedom ([`Journal::cuts`]); see one-sided
//! reads in `docs/protocol.md`.
//!
//! This is the one crate where shared bytes meet `unsafe`. No function hands out a reference to them.

mod budget;
mod bytes;
mod cache;
mod cached;
mod checksum;
mod copied;
mod counted;
#[cfg(feature = "simulated")]
mod dimm;
mod image;
mod journal;
mod mapped;
#[cfg(feature = "simulated")]
mod marks;
mod part;
mod persistent;
mod prefetch;
mod region;
mod words;

pub use budget::Budget;
pub use bytes::{bytes_equal, short_equal};
pub use cache::Pages;
pub use cached::{Cached, PowerLost};
pub use checksum::{Hash, HashKey, SumKey};
pub use copied::CopiedWords;
pub use counted::{Counted, PersistentWrites};
#[cfg(feature = "simulated")]
pub use dimm::Dimm;
pub use image::Images;
pub use journal::{Cut, Journal};
#[cfg(feature = "simulated")]
pub use mapped::recycle::recycling;
pub use mapped::{HUGE_PAGE, Mapped, ReadOnly};
pub use part::{JournalPart, Part};
pub use persistent::{Persistence, map_persistent, map_private_copy};
pub use prefetch::prefetch;
pub use region::{Backing, Region, RegionError, RegionOptions};
pub use words::{OwnedWords, Words};

#[cfg(test)]
mod tests;
