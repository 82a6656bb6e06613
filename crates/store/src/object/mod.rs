//! One entry: its bytes, its writer, the judgement of a one-sided reader, and the check of a room.

mod follower;
mod image;
pub mod layout;
mod owner;
mod reader;
mod stored;
mod verify;

#[cfg(test)]
mod tests;

pub use follower::{Age, age_at, set_superseded};
pub use image::EntryImage;
pub use layout::{EntryKind, OperationId};
pub use owner::{Draft, EntryMeta};
pub(crate) use reader::covered_len;
pub use reader::{Entry, EntryError, read, total_len};
pub use stored::Stored;

pub(crate) use owner::{NewEntry, Returns, Room, begin, fill, finish, supersede};
pub(crate) use stored::own;
pub(crate) use verify::{RoomState, check_room};
