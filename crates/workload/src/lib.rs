//! What simulator, torture, demo and benchmark load a store with, as far as it is the same for several.
//! What is of one of them alone is there: names of keys, mixes of operations, lengths of values.
#![forbid(unsafe_code)]

pub mod random;
pub mod values;
