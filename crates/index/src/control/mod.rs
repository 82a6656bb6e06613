//! The control page: what a client must know, and keep knowing, before it may trust the server's memory.
//!
//! `layout` freezes the bytes, `owner` beats and publishes, `reader` takes copies of them apart.

pub mod layout;
mod owner;
mod reader;

pub use layout::{CONTROL_REGION, GEOMETRY_PLACE, HEARTBEAT_PLACE, ServerState};
pub use owner::{Control, record};
pub use reader::{Heartbeat, geometry};

#[cfg(test)]
mod tests;
