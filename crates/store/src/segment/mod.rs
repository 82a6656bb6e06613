//! Segments: the table that describes them, their claims and releases, how much of each is alive, and the
//! check of a whole arena from its bytes.

pub(crate) mod block;
mod found;
mod free;
mod known;
pub mod layout;
mod owner;
mod reader;
mod tally;
mod verify;

#[cfg(test)]
mod tests;

pub use layout::{Lane, SegmentState};
pub use owner::{forget, freed_line};
pub use reader::{
    ArenaGeometry, Line, LineError, claim_number, line_bytes, line_image, replica_line, room_length,
    run_length,
};
pub use verify::{ArenaReport, SegmentReport, verify, verify_with};

pub(crate) use found::{extent, read_table};
pub(crate) use known::Phase;
pub(crate) use owner::{Claim, ClaimKind, Claimed, Ledger, Need, write_header, write_line, write_tail};
pub(crate) use tally::Tally;
