//! Regions: memory with a file behind it, which another process or a NIC can be given, or memory of this
//! process alone.
//!
//! A region is created once at its full size and never changes it. Pages cost memory when first touched, and
//! [`OwnedWords::discard`](crate::OwnedWords::discard) gives them back. A region is sealed: it can neither
//! shrink nor grow under its readers. Readers are passed a descriptor that was opened read-only
//! ([`Region::read_only_file`]), so the kernel refuses them a writable mapping. (`F_SEAL_FUTURE_WRITE` would
//! say the same of the file, but it also forbids its owner to give pages back: docs/decisions/0002.)

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

#[cfg(feature = "simulated")]
use crate::mapped::recycle;
use crate::mapped::{HUGE_PAGE, Mapped, Mapping, ReadOnly};

/// What stands behind a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// An anonymous memory file with ordinary pages, and huge ones on request
    /// ([`populate`](crate::OwnedWords::populate)) where the kernel has them.
    Memory,
    /// An anonymous memory file with ordinary pages only.
    SmallPages,
    /// An anonymous memory file with 2 MiB pages from the reserved pool (Cell 3; NoSQL landscape 3.3).
    HugePages,
    /// 2 MiB pages where enough are reserved, ordinary ones otherwise.
    HugePagesIfAvailable,
    /// No file: ordinary pages of this process, and no descriptor.
    Private,
}

/// How to create a region.
#[derive(Clone, Debug)]
pub struct RegionOptions {
    /// Shown in `/proc/PID/maps` and in errors.
    pub name: String,
    /// Size in bytes; rounded up to whole pages of the backing.
    pub bytes: u64,
    /// What stands behind it.
    pub backing: Backing,
}

/// Why a region could not be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegionError {
    /// The kernel refused; the text says which step.
    Os(&'static str, String, rustix::io::Errno),
    /// The region of this name is of this process alone, and cannot be passed to a peer.
    Private(String),
    /// A peer's file could shrink under us and kill the process: it lacks the seals.
    Unsealed,
    /// A file has another size than its description says.
    Size {
        /// Bytes expected.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
}

impl std::fmt::Display for RegionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RegionError::Os(step, name, errno) => write!(f, "region {name}: {step}: {errno}"),
            RegionError::Private(name) => write!(f, "region {name} has no file to pass to a peer"),
            RegionError::Unsealed => f.write_str("the peer's memory file is not sealed against shrinking"),
            RegionError::Size { expected, found } => {
                write!(f, "memory file has {found} bytes, expected {expected}")
            }
        }
    }
}

impl std::error::Error for RegionError {}

/// Memory, mostly with a file behind it. The creator owns it; peers open what they are passed.
pub struct Region {
    name: String,
    file: Option<Arc<OwnedFd>>,
    memory: Mapped,
    page: u64,
}

pub(crate) const SMALL_PAGE: u64 = 4096;

impl Region {
    /// Creates a region, zeroed.
    pub fn create(options: &RegionOptions) -> Result<Region, RegionError> {
        match &options.backing {
            // Memory that is used again knows what was written by its file.
            Backing::Private if !cfg!(feature = "simulated") => Region::private(options),
            Backing::Memory | Backing::SmallPages | Backing::Private => Region::memfd(options, false),
            Backing::HugePages => Region::memfd(options, true),
            Backing::HugePagesIfAvailable => {
                Region::memfd(options, true).or_else(|_| Region::memfd(options, false))
            }
        }
    }

    fn private(options: &RegionOptions) -> Result<Region, RegionError> {
        let bytes = options.bytes.next_multiple_of(SMALL_PAGE);
        let mapping = map_private(bytes).map_err(|e| RegionError::Os("map", options.name.clone(), e))?;
        Ok(Region::of(options.name.clone(), None, mapping, PageKind::Small))
    }

    fn memfd(options: &RegionOptions, huge: bool) -> Result<Region, RegionError> {
        let os = |step| {
            let name = options.name.clone();
            move |e| RegionError::Os(step, name, e)
        };
        let page = if huge { HUGE_PAGE } else { SMALL_PAGE };
        let bytes = options.bytes.next_multiple_of(page);
        #[cfg(feature = "simulated")]
        if let Some(region) = Region::recycled(options, bytes).filter(|_| !huge) {
            return Ok(region);
        }
        let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        if huge {
            flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        }
        let file = rustix::fs::memfd_create(options.name.as_str(), flags).map_err(os("create"))?;
        rustix::fs::ftruncate(&file, bytes).map_err(os("set size"))?;
        if huge {
            // Reserve now: a fault that finds the pool empty later would kill the process.
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)
                .map_err(os("reserve huge pages"))?;
        }
        let pages = match (&options.backing, huge) {
            (_, true) => PageKind::Reserved,
            (Backing::SmallPages, _) => PageKind::Small,
            _ => PageKind::OnRequest,
        };
        let file = Arc::new(file);
        let mapping = map_own(&options.name, &file, bytes, pages)?.over(Arc::clone(&file));
        #[cfg(feature = "simulated")]
        let mapping = match recycle::marks(bytes).filter(|_| !huge) {
            Some(marks) => mapping.marked(marks),
            None => mapping,
        };
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(os("seal"))?;
        // Another user who is passed a read-only descriptor must not reopen it for writing.
        let owner_only = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::fchmod(&file, owner_only).map_err(os("set mode"))?;
        Ok(Region::of(options.name.clone(), Some(file), mapping, pages))
    }

    /// A region over memory that another one had; its file has the name of the first.
    #[cfg(feature = "simulated")]
    fn recycled(options: &RegionOptions, bytes: u64) -> Option<Region> {
        let mapping = recycle::take(bytes)?;
        let file = Arc::clone(mapping.file()?);
        Some(Region::of(options.name.clone(), Some(file), mapping, PageKind::Small))
    }

    fn of(name: String, file: Option<Arc<OwnedFd>>, mapping: Mapping, pages: PageKind) -> Region {
        Region { name, file, memory: Mapped(Arc::new(mapping)), page: pages.bytes() }
    }

    /// A region over a file that is mapped already, with small pages.
    pub(crate) fn over(name: &str, file: OwnedFd, memory: Mapped) -> Region {
        Region { name: name.into(), file: Some(Arc::new(file)), memory, page: SMALL_PAGE }
    }

    /// Maps a file that a peer created and passed to us, to write into it. It must be sealed against
    /// shrinking, else the peer could kill this process by truncating it.
    pub fn open_writable(file: OwnedFd, bytes: u64) -> Result<Mapped, RegionError> {
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|_| RegionError::Unsealed)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(RegionError::Unsealed);
        }
        check_size(&file, bytes)?;
        map_file(&file, bytes, ProtFlags::READ | ProtFlags::WRITE, PageKind::Small)
            .map(|m| Mapped(Arc::new(m)))
            .map_err(|e| RegionError::Os("map a peer's region", String::new(), e))
    }

    /// Maps a file that a server created and passed to us, to look at it. A client trusts the server it chose
    /// not to truncate a plain file under it; memory files are sealed.
    pub fn open_read_only(file: OwnedFd, bytes: u64) -> Result<ReadOnly, RegionError> {
        check_size(&file, bytes)?;
        map_file(&file, bytes, ProtFlags::READ, PageKind::OnRequest)
            .map(|m| ReadOnly(Arc::new(m)))
            .map_err(|e| RegionError::Os("map a peer's region", String::new(), e))
    }

    /// Name given at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The memory, with the right to change it.
    pub fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// The file, to pass to a peer that may write the region.
    pub fn file(&self) -> Result<BorrowedFd<'_>, RegionError> {
        self.file.as_ref().map(|file| file.as_fd()).ok_or_else(|| RegionError::Private(self.name.clone()))
    }

    /// A descriptor of the file that allows reading and read-only mappings only, to pass to a reader.
    pub fn read_only_file(&self) -> Result<OwnedFd, RegionError> {
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.file()?));
        rustix::fs::open(
            path,
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .map_err(|e| RegionError::Os("reopen read-only", self.name.clone(), e))
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        crate::Words::bytes(&self.memory)
    }

    /// Bytes of a page of the backing.
    pub fn page(&self) -> u64 {
        self.page
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({}, {} bytes, {} byte pages)", self.name, self.bytes(), self.page)
    }
}

fn check_size(file: &OwnedFd, bytes: u64) -> Result<(), RegionError> {
    let os = |e| RegionError::Os("examine a peer's region", String::new(), e);
    let found = rustix::fs::fstat(file).map_err(os)?.st_size as u64;
    if found < bytes || bytes == 0 || !bytes.is_multiple_of(SMALL_PAGE) {
        return Err(RegionError::Size { expected: bytes, found });
    }
    Ok(())
}

/// Pages of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageKind {
    Small,
    OnRequest,
    Reserved,
}

impl PageKind {
    fn bytes(self) -> u64 {
        if self == PageKind::Reserved { HUGE_PAGE } else { SMALL_PAGE }
    }
}

fn map_own(name: &str, file: &OwnedFd, bytes: u64, pages: PageKind) -> Result<Mapping, RegionError> {
    map_file(file, bytes, ProtFlags::READ | ProtFlags::WRITE, pages)
        .map_err(|e| RegionError::Os("map", name.into(), e))
}

fn map_private(bytes: u64) -> Result<Mapping, rustix::io::Errno> {
    let len = usize::try_from(bytes).map_err(|_| rustix::io::Errno::NOMEM)?;
    // SAFETY: a fresh mapping at an address that the kernel picks aliases no Rust value.
    unsafe {
        let base = mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?;
        // Neighbours that the kernel joins would be given a huge page for the first byte of one of them. A
        // hint, so no error.
        let _ = rustix::mm::madvise(base, len, Advice::LinuxNoHugepage);
        Ok(Mapping::new(base.cast(), len, SMALL_PAGE, false))
    }
}

fn map_file(
    file: impl AsFd,
    bytes: u64,
    rights: ProtFlags,
    pages: PageKind,
) -> Result<Mapping, rustix::io::Errno> {
    let len = usize::try_from(bytes).map_err(|_| rustix::io::Errno::NOMEM)?;
    let huge = pages == PageKind::OnRequest && bytes >= HUGE_PAGE;
    // SAFETY: a fresh shared mapping aliases no Rust value: it is at an address that the kernel picks, or in
    // a range that it reserved for us just before. The file is ours, or sealed against shrinking
    // (check_peer_file), so the pages stay.
    unsafe {
        let base = if huge {
            // A huge page stands at a multiple of its size in the file and in memory alike.
            let spare = HUGE_PAGE as usize;
            let room = mmap_anonymous(null_mut(), len + spare, ProtFlags::empty(), MapFlags::PRIVATE)?;
            let skipped = room.align_offset(spare);
            let base = room.byte_add(skipped);
            let mapped = mmap(base, len, rights, MapFlags::SHARED | MapFlags::FIXED, file, 0);
            // What is left of the reserved range goes back; all of it if the file could not be mapped.
            let kept = mapped.map_or(0, |_| len.next_multiple_of(SMALL_PAGE as usize));
            if skipped > 0 {
                munmap(room, skipped)?;
            }
            munmap(base.byte_add(kept), len + spare - skipped - kept)?;
            let base = mapped?;
            // For faults, where the kernel is set to give them on request; a hint, so no error.
            let _ = rustix::mm::madvise(base, len, Advice::LinuxHugepage);
            base
        } else {
            mmap(null_mut(), len, rights, MapFlags::SHARED, file, 0)?
        };
        Ok(Mapping::new(base.cast(), len, pages.bytes(), huge))
    }
}
