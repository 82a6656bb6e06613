//! Progress: how far each stream of a leader is, and where its entries are, for parties that follow the
//! leader's streams by READs alone (HiStore 4.2 has the entries in a log; here they lie in segments).
//!
//! `layout` freezes the bytes, `owner` is the side of the thread that writes a stream, `reader` takes apart
//! what was READ, `feed` says which entries come next. Each word verifies itself by the term that it names,
//! so there is nothing else to verify.

mod feed;
pub mod layout;
mod owner;
mod reader;
#[cfg(test)]
mod tests;

pub use feed::{Feed, Gap, LANDING_TIME, Next};
pub use owner::ProgressWords;
pub use reader::{DirectoryRange, StreamMarks};
