//! A file as memory: what was stored, [flushed](crate::OwnedWords::flush) and
//! [fenced](crate::OwnedWords::fence) outlives a loss of power where the file is on persistent memory.

use std::fs::File;
use std::ptr::null_mut;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

#[cfg(feature = "simulated")]
use crate::cache::Pages;
#[cfg(feature = "simulated")]
use crate::dimm::Dimm;
use crate::mapped::{Mapped, Mapping};
use crate::region::{Region, SMALL_PAGE};
#[cfg(feature = "simulated")]
use crate::words::OwnedWords;

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
    Ok((Mapped(Arc::new(mapping)), persistence))
}

/// Maps a file of so many bytes for this process alone: what is stored goes nowhere.
pub fn map_private_copy(file: &File, bytes: u64) -> std::io::Result<Mapped> {
    let len = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
    // SAFETY: a fresh private mapping at an address that the kernel picks aliases no Rust value.
    let base =
        unsafe { mmap(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE, file, 0) }?;
    // SAFETY: as in `map_persistent`.
    let mapping = unsafe { Mapping::new(base.cast(), len, SMALL_PAGE, false) };
    let memory = Mapped(Arc::new(mapping));
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

#[cfg(feature = "simulated")]
impl Region {
    /// Makes this region, which is new, the part of a module that begins there: it holds what the module
    /// does.
    pub fn of_dimm(&self, dimm: &Arc<Dimm>, from: u64, words: &Pages) {
        let bytes = self.bytes();
        let within = words.words().skip_while(|(at, _)| *at < from).take_while(|(at, _)| *at - from < bytes);
        within.for_each(|(at, word)| self.memory().store(at - from, word));
        assert!(self.memory().0.dimm.set((dimm.clone(), from)).is_ok(), "a region is of one module");
    }
}

#[cfg(all(test, feature = "simulated"))]
mod tests {
    use std::collections::BTreeSet;

    use longarm_base::random::SplitMix64;

    use super::*;
    use crate::region::{Backing, RegionOptions};
    use crate::words::Words;

    const BYTES: u64 = 1 << 16;

    fn regions(dimm: &Arc<Dimm>, words: &Pages) -> [Region; 2] {
        [0, BYTES].map(|from| {
            let options = RegionOptions { name: "part".into(), bytes: BYTES, backing: Backing::Memory };
            let region = Region::create(&options).expect("memory");
            region.of_dimm(dimm, from, words);
            region
        })
    }

    #[test]
    fn regions_keep_what_was_written_back_and_perhaps_the_rest() {
        let words = Pages::of(&[5]);
        let dimm = Dimm::new(words.clone(), || {});
        let [first, second] = regions(&dimm, &words);
        let (first, second) = (first.memory(), second.memory());
        assert_eq!((first.load(0), second.load(0)), (5, 0));
        first.copy_in(64, &[1; 16]);
        second.store(8, 2);
        first.flush(64, 16);
        // A fence is of both.
        second.flush(8, 8);
        second.fence();
        assert_eq!(second.fetch_add(8, 1), 2);
        assert_eq!(first.compare_exchange(0, 5, 6), Ok(()));
        first.discard(64, 8);
        let mut random = SplitMix64::new(1);
        let mut left = || {
            let left = dimm.left_by(&mut random);
            [0, 64, 72, BYTES + 8].map(|at| left.load(at))
        };
        let word = u64::from_le_bytes([1; 8]);
        let all: BTreeSet<_> = (0..200).map(|_| left()).collect();
        let may_be = [5, 6].iter().flat_map(|first| {
            [word, 0].into_iter().flat_map(move |copied| [2, 3].map(|last| [*first, copied, word, last]))
        });
        assert_eq!(all, may_be.collect());
    }
}
