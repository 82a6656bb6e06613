//! A file as memory: what was stored, [flushed](crate::OwnedWords::flush) and
//! [fenced](crate::OwnedWords::fence) outlives a loss of power where the file is on persistent memory.

use std::fs::File;
use std::ptr::null_mut;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::mapped::{Mapped, Mapping};
use crate::region::{Region, SMALL_PAGE};

/// What a file that is mapped outlives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// A loss of power: the file system maps the medium itself, and its own records of the file are synced
    /// before a page can be written (`MAP_SYNC`, of a file system mounted with `dax`).
    Power,
    /// The end of the process: the pages are those of the system's cache, or of a disk in memory.
    Process,
}

/// Maps a file of so many bytes, all of which it has. The caller's lock keeps other servers from it; whoever
/// cuts it off meanwhile, all the same, kills the process.
pub fn map_persistent(file: &File, bytes: u64) -> std::io::Result<(Mapped, Persistence)> {
    let len = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
    let map = |flags| {
        // SAFETY: a fresh shared mapping at an address that the kernel picks aliases no Rust value.
        unsafe { mmap(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0) }
    };
    let (base, persistence) = match map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
        Ok(base) => (base, Persistence::Power),
        // The file system has none, or the kernel knows no such mapping.
        Err(Errno::OPNOTSUPP | Errno::INVAL) => (map(MapFlags::SHARED)?, Persistence::Process),
        Err(error) => return Err(error.into()),
    };
    // SAFETY: the mapping is live, of this extent, and nobody else's. That its file does not shrink is the
    // caller's word.
    let mapping = unsafe { Mapping::new(base.cast(), len, SMALL_PAGE, false) };
    Ok((Mapped(std::sync::Arc::new(mapping)), persistence))
}

/// Maps a file of so many bytes for this process alone: what is stored goes nowhere.
pub fn map_private_copy(file: &File, bytes: u64) -> std::io::Result<Mapped> {
    let len = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
    // SAFETY: a fresh private mapping at an address that the kernel picks aliases no Rust value.
    let base =
        unsafe { mmap(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE, file, 0) }?;
    // SAFETY: as in `map_persistent`.
    let mapping = unsafe { Mapping::new(base.cast(), len, SMALL_PAGE, false) };
    let memory = Mapped(std::sync::Arc::new(mapping));
    // No page is to go back: the file would show through again.
    memory.pin();
    Ok(memory)
}

impl Region {
    /// A region over a file of so many bytes, all of which it has, as [`map_persistent`] maps it. Its pages
    /// stay: what is discarded is zeroed, so that a full disk is met before anything is stored.
    pub fn persistent(name: &str, file: File, bytes: u64) -> std::io::Result<(Region, Persistence)> {
        let (memory, persistence) = map_persistent(&file, bytes)?;
        memory.pin();
        Ok((Region::over(name, file.into(), memory), persistence))
    }
}
