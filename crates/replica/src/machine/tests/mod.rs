//! What was found in the machine (`found.rs`), and groups of machines in a world that is against them
//! (`twin.rs`), which found it.

mod found;
mod twin;
