//! The disk of a replica: what of its arena outlives a loss of power, and a restart of its process.
//!
//! - [`options`]: how durable a group is, and where a replica's files are. [`directory`]: a directory with
//!   them.
//! - [`kept`]: what a replica starts with. [`load`]: the file, back in memory: what of it counts, and what
//!   was cut off or is damaged.
//! - [`feed`]: what the streams of a term wrote, named to the [`scribe`], the thread that has it written.
//! - [`gate`]: what that thread and the threads of the term share: how much is on disk, and until when more
//!   may be written.

pub(crate) mod directory;
mod feed;
pub(crate) mod gate;
pub(crate) mod kept;
pub(crate) mod load;
pub(crate) mod options;
pub(crate) mod scribe;
#[cfg(test)]
mod tests;
