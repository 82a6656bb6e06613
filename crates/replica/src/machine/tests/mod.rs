//! What was found in the machine (`found.rs`).

mod found;
