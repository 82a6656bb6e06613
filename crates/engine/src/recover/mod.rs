//! An engine over an arena that others filled: an index of what is there, made when its leader begins,
//! or before, as a follower's standby index.

mod prefetch;
pub mod recovered;
mod restore;
mod standby;

pub use recovered::Recovered;
pub use restore::ENTRY as RESTORE_ENTRY;
pub use standby::Standby;
