//! An engine over an arena that others filled: an index of what is there, made when its leader begins or
//! ahead of that.

mod ahead;
pub mod findings;
mod restore;
mod soon;

pub use ahead::Ahead;
pub use findings::Findings;
pub use restore::ENTRY as RESTORE_ENTRY;
