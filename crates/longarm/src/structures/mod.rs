//! Walks and verifies all structures of a store, in the memory of a live server.

pub mod check;
pub mod live;
