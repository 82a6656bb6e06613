//! What the fuzz targets do with their bytes, one module a target.
//!
//! Each is a function from bytes to nothing that panics when an oracle fails. The bytes are a little program:
//! [`Input`] takes it apart, commands act on the code under test and on a model of it. So the same functions
//! replay the seeds, and every input that once failed, on any toolchain (`cargo test` here).
#![forbid(unsafe_code)]

pub mod control_page;
pub mod entry_reader;
pub mod handshake;
pub mod hash_reader;
mod input;
mod memory;
pub mod ring;
pub mod scan_messages;
pub mod shm_queue;
pub mod tcp_frame;
pub mod tree_reader;

pub use input::Input;
pub use memory::Flat;

/// Commands one input may give; the rest of it is ignored.
pub const COMMANDS_MAX: usize = 400;

#[cfg(test)]
mod tests;
