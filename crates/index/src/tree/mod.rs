//! Ordered tree: keys in order with version and place, in nodes that verify themselves. A B-link tree (Cell
//! 2.2).
//!
//! `layout` freezes the bytes, `record`, `node`, `edit` and `encode` are pure functions of one node, `header`
//! of the header; `rules` says what an entry does to its key. `owner` has steps of changes, with `places`,
//! `huge`, `cache`, `lines`, `path`, `way`, `grow`, `sweep` and `walk`; `build` makes a tree of sorted keys.
//! `reader` is the one-sided walk as a value, `range` what it and the owner go through, `verify` checks a
//! whole tree.

mod build;
mod cache;
mod edit;
mod encode;
mod grow;
mod header;
mod huge;
pub mod layout;
mod lines;
mod node;
mod owner;
mod path;
mod places;
mod range;
mod reader;
mod record;
mod rules;
mod sweep;
mod verify;
mod walk;
mod way;

pub use build::Builder;
pub use header::Header;
pub use layout::{Mark, Pointer, Unit};
pub use node::{NodeView, SplitKey};
pub use owner::{Owner, Standing, Step, Swept, TreeCounts, TreeFull, TreeOptions};
pub use range::TreeRange;
pub use reader::{Sight, TreeStep, TreeWalk, is_node};
pub use record::LeafRecord;
pub use rules::{Ages, EntryKind, TreeEntry};
pub use verify::{TreeReport, newest_header, verify};
pub use walk::{Page, PageItem, PageLimits, TreeItem};

#[cfg(test)]
mod tests;
