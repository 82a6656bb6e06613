//! Words that every other crate shares: ids, places, versions, limits, time as a value, and random numbers.
//!
//! Nothing here knows what memory is, and nothing does I/O or allocates, but that the feature `mutants` reads
//! an environment variable. Limits that more than one crate rests on stand in [`limits`], with the relations
//! between them asserted at compile time.
#![forbid(unsafe_code)]

pub mod bytes;
mod entry;
pub mod limits;
mod mutant;
mod place;
pub mod random;
mod term;
mod time;
mod version;

pub use entry::EntryRef;
pub use mutant::Mutant;
pub use place::{Place, RegionId};
pub use term::{ReplicaId, Term};
pub use time::{Nanos, UnixMillis};
pub use version::Csn;
