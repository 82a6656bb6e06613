//! An engine over an arena that another leader filled. Its index is made when this node begins to lead, or
//! earlier, as a follower's standby index.

pub mod hashed_key;
mod prefetch;
pub mod recovered;
mod restore;
mod standby;

pub use recovered::Recovered;
pub use restore::ENTRY as RESTORE_ENTRY;
pub use standby::Standby;
