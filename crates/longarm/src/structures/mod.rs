//! Walks and verifies all structures of a store, in the memory of a live server or as a server left them.

pub mod check;
pub mod live;
pub mod saved;
