//! The machine alone, event by event (`table.rs`), what was found in it (`found.rs`), one that rests
//! (`rest.rs`), and groups of machines in a world that is against them (`twin.rs`).

mod found;
mod rest;
mod table;
mod twin;
