//! Items on their way into a store, or out of it: from which sources they come, how they are sent, and in
//! which forms they stand in files.

pub mod described;
pub mod difference;
pub mod digest;
pub mod escape;
pub mod item;
pub mod record;
pub mod send;
pub mod tree;
