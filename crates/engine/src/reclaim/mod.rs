//! Gives memory back: dead entries are collected, items go when their time is over or room is needed, and a
//! group frees no entry that is not accounted for.

mod account;
mod collect;
mod cursor;
pub mod deletes;
mod evict;
mod expire;
pub mod marks;
mod session_log;

pub use account::Unaccounted;
pub use collect::Relocated;
pub use cursor::Cursor;
