//! All structures of a store, walked and verified: in the memory of a live server, or as a server left them.

pub mod check;
pub mod live;
pub mod saved;
