//! The check of one room, from the bytes alone.

use longarm_base::limits::LINE;
use longarm_memory::{SumKey, Words};

use super::layout;
use super::reader::{self, Entry, EntryError};

/// The content of a room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoomState<'a> {
    /// No entry: unused, abandoned, or not finished yet.
    Empty,
    /// A whole entry, and its length in bytes.
    Entry(Entry<'a>, u32),
    /// Bytes that claim to be an entry and are not.
    Broken(EntryError),
}

/// Looks at the room of `room` bytes at `offset`.
pub(crate) fn check_room<'a>(
    memory: &dyn Words,
    sums: &SumKey,
    offset: u64,
    room: u64,
    bytes: &'a mut Vec<u8>,
) -> RoomState<'a> {
    // This load comes first: all of an entry was stored before its checksum (pairs with `owner.rs: finish`).
    if memory.load(offset + layout::SUM) == 0 {
        return RoomState::Empty;
    }
    bytes.resize(LINE as usize, 0);
    memory.copy_out(offset, bytes);
    let len = match reader::total_len(bytes) {
        Ok(len) if len as u64 <= room => len,
        Ok(len) => return RoomState::Broken(EntryError::Short { need: len, have: room as u32 }),
        Err(EntryError::Empty) => return RoomState::Empty,
        Err(error) => return RoomState::Broken(error),
    };
    bytes.resize((len as usize).max(LINE as usize), 0);
    memory.copy_out(offset, bytes);
    match reader::read(bytes, offset, sums) {
        Ok(entry) => RoomState::Entry(entry, len),
        Err(EntryError::Empty) => RoomState::Empty,
        Err(error) => RoomState::Broken(error),
    }
}
