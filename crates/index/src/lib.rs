//! Indexes over entries, and the control page that says where they are.
//!
//! [`hash`] is the continuity hash table that GETs read one-sidedly; [`tree`] keeps keys in order;
//! [`control`] is the page with the lease stamp and the geometry, which a client reads before it trusts
//! anything else. This crate knows neither fabrics nor entries: an entry is a place and a version.
#![forbid(unsafe_code)]

pub mod control;
pub mod hash;
pub mod tree;
