//! The disk of a replica: what of its arena outlives a loss of power, and a restart of its process.
//!
//! - [`options`]: how durable a group is, and where a replica's files are. [`directory`]: a directory with
//!   those of a server alone, [`replica_directory`] with that of a replica of a cluster. [`owner_file`]: the
//!   file in either that says whose it is.
//! - [`kept`]: what a replica starts with. [`load`]: the file, back in memory: what of it counts, and what
//!   was cut off or is damaged.
//! - [`settle`]: the file becomes that of another term. [`slot`]: where it is while no thread has it.
//! - [`feed`]: what the streams of a term wrote, named to the leader's [`scribe`], the thread that has it
//!   written. [`follow`]: the scribe of a follower, which reports at the leader's [`desk`].
//! - [`new_directory`]: a directory that is made of a backup. [`look`]: a directory that is looked at, and
//!   not changed.
//! - [`served`]: the files of a server that serves from persistent memory, and has no copy.
//!   [`look_served`] looks at them.
//! - [`scrub`]: the scribes look over what is in the file, and write again what is not there any more.
//! - [`gate`]: what these threads and those of the term share: how much is on disk, and until when more may
//!   be written; by [`coverage`], how far the disks of the group are, and by [`looks`], which
//!   moment that is. [`trim`]: a memory goes back to what
//!   its disk has.

mod coverage;
pub(crate) mod desk;
pub(crate) mod directory;
mod feed;
pub(crate) mod follow;
pub(crate) mod gate;
pub(crate) mod kept;
pub(crate) mod load;
pub(crate) mod look;
pub(crate) mod look_served;
mod looks;
pub(crate) mod new_directory;
pub(crate) mod options;
pub(crate) mod owner_file;
pub(crate) mod replica_directory;
pub(crate) mod scribe;
pub(crate) mod scrub;
pub(crate) mod served;
pub(crate) mod settle;
pub(crate) mod slot;
#[cfg(test)]
mod tests;
pub(crate) mod trim;
