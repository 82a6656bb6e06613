//! Protection domains, registered memory, and buffers that are nothing else.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bindings as b;
use crate::library::verb;
use crate::{Context, Error};

/// A protection domain: queue pairs reach only memory of their own.
#[derive(Debug)]
pub struct ProtectionDomain {
    pub(crate) raw: *mut b::ibv_pd,
    context: Arc<Context>,
}

// SAFETY: verbs may be called on one domain from every thread.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// A new domain of the device.
    pub fn new(context: &Arc<Context>) -> Result<Arc<ProtectionDomain>, Error> {
        // SAFETY: a live context.
        let raw = unsafe { verb!(alloc_pd(context.raw)) };
        if raw.is_null() {
            return Err(Error::last("alloc_pd", context.name()));
        }
        Ok(Arc::new(ProtectionDomain { raw, context: context.clone() }))
    }

    /// Its device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: ours, freed once; everything made from it holds it alive.
        unsafe { verb!(dealloc_pd(self.raw)) };
    }
}

/// What the device may do with a registration. Never relaxed ordering: readers here parse what they poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Access(pub(crate) u32);

impl Access {
    /// Only sends from it.
    pub const LOCAL_READ: Access = Access(0);
    /// The device may store into it on our own behalf: receives, and READs of ours.
    pub const LOCAL_WRITE: Access = Access(b::IBV_ACCESS_LOCAL_WRITE);
    /// Peers may READ.
    pub const REMOTE_READ: Access = Access(b::IBV_ACCESS_REMOTE_READ);
    /// Peers may WRITE (which implies local writes).
    pub const REMOTE_WRITE: Access = Access(b::IBV_ACCESS_REMOTE_WRITE | b::IBV_ACCESS_LOCAL_WRITE);
    /// Peers may CAS and FAA (which implies local writes).
    pub const REMOTE_ATOMIC: Access = Access(b::IBV_ACCESS_REMOTE_ATOMIC | b::IBV_ACCESS_LOCAL_WRITE);

    /// Both sets together.
    pub const fn and(self, more: Access) -> Access {
        Access(self.0 | more.0)
    }
    /// Only what concerns peers, as queue pairs want it.
    pub(crate) const fn remote(self) -> u32 {
        self.0 & (b::IBV_ACCESS_REMOTE_READ | b::IBV_ACCESS_REMOTE_WRITE | b::IBV_ACCESS_REMOTE_ATOMIC)
    }
}

/// Bytes that this process has registered.
static REGISTERED: AtomicU64 = AtomicU64::new(0);

/// Bytes that this process has registered with its devices. Memory registered twice counts twice.
pub fn registered_bytes() -> u64 {
    // Relaxed: a statistic.
    REGISTERED.load(Ordering::Relaxed)
}

/// Memory that the device may access.
#[derive(Debug)]
pub struct MemoryRegion {
    pub(crate) raw: *mut b::ibv_mr,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: verbs may be called on one registration from every thread; the handle itself never changes.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Registers `bytes` bytes at `address`. Every page is brought in and locked, which takes its time.
    ///
    /// # Safety
    /// The range stays mapped, to the same pages, as long as the registration lives. Nobody holds a Rust
    /// reference to bytes that the device may change meanwhile.
    pub unsafe fn register(
        domain: &Arc<ProtectionDomain>,
        address: *mut u8,
        bytes: usize,
        access: Access,
    ) -> Result<MemoryRegion, Error> {
        // SAFETY: the caller's promise, and a live domain.
        let raw = unsafe { verb!(reg_mr(domain.raw, address.cast(), bytes, access.0 as i32)) };
        if !raw.is_null() {
            // Relaxed: a statistic.
            REGISTERED.fetch_add(bytes as u64, Ordering::Relaxed);
            return Ok(MemoryRegion { raw, _domain: domain.clone() });
        }
        let error = Error::last("reg_mr", domain.context.name());
        // EPERM: the limit is nothing at all.
        let wants_memory =
            |source: &std::io::Error| matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::EPERM));
        match (&error, memory_lock()) {
            (Error::Verb { source, .. }, Some(limit)) if wants_memory(source) => {
                Err(Error::MemoryLock { device: domain.context.name().into(), bytes, limit })
            }
            _ => Err(error),
        }
    }

    /// Names it in our own requests.
    pub fn local_key(&self) -> u32 {
        // SAFETY: alive, and never changed.
        unsafe { (*self.raw).lkey }
    }

    /// Names it in the peer's requests.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: alive, and never changed.
        unsafe { (*self.raw).rkey }
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: alive, and never changed.
        let bytes = unsafe { (*self.raw).length };
        // Relaxed: a statistic.
        REGISTERED.fetch_sub(bytes as u64, Ordering::Relaxed);
        // SAFETY: ours, freed once. After this the device does not touch the memory any more.
        let code = unsafe { verb!(dereg_mr(self.raw)) };
        debug_assert_eq!(code, 0, "dereg_mr of our own registration");
    }
}

/// The limit on locked memory, if there is one, for people.
fn memory_lock() -> Option<String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place for the answer.
    let code = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (code == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then(|| format!("{} KiB", limit.rlim_cur >> 10))
}

const PAGE: usize = 4096;

/// Zeroed memory of its own pages, registered.
#[derive(Debug)]
pub struct Buffer {
    /// Before `memory` is freed it must be gone: fields drop in this order.
    region: MemoryRegion,
    memory: Pages,
}

#[derive(Debug)]
struct Pages {
    address: *mut u8,
    bytes: usize,
    layout: Layout,
}

// SAFETY: a plain allocation; access rules are `Buffer`'s.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Buffer {
    /// `bytes` bytes (at least 1), which the device may access so.
    pub fn new(domain: &Arc<ProtectionDomain>, bytes: usize, access: Access) -> Result<Buffer, Error> {
        let layout = Layout::from_size_align(bytes.max(1).next_multiple_of(PAGE), PAGE).expect("a size");
        // SAFETY: the layout is not empty.
        let address = unsafe { std::alloc::alloc_zeroed(layout) };
        if address.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        let memory = Pages { address, bytes, layout };
        // A child would share the pages until one side stores; the device would go on with the wrong ones.
        memory.in_children(libc::MADV_DONTFORK);
        // SAFETY: the pages are freed after the registration (the order of the fields), and references to
        // their bytes are made under the promise of `bytes` only.
        let region = unsafe { MemoryRegion::register(domain, address, bytes.max(1), access)? };
        Ok(Buffer { region, memory })
    }

    /// Its size.
    pub fn len(&self) -> usize {
        self.memory.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.memory.bytes == 0
    }

    /// Address of byte `at`.
    pub fn address(&self, at: usize) -> u64 {
        self.memory.address as u64 + at as u64
    }

    /// The registration.
    pub fn region(&self) -> &MemoryRegion {
        &self.region
    }

    /// Bytes of it.
    ///
    /// # Safety
    /// As long as the reference lives, neither the device nor a peer changes these bytes.
    pub unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.len() && len <= self.len() - at, "bytes {at}+{len} of a buffer of {}", self.len());
        // SAFETY: in bounds, initialised (zeroed at first), and still by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.memory.address.add(at), len) }
    }

    /// Copies bytes in.
    ///
    /// # Safety
    /// No reference to these bytes is alive, and the device does not access them meanwhile.
    pub unsafe fn fill(&self, at: usize, from: &[u8]) {
        assert!(at <= self.len() && from.len() <= self.len() - at, "the bytes fit");
        // SAFETY: in bounds; exclusive by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.memory.address.add(at), from.len()) }
    }

    /// A word of it, which the device or a peer may change at any time. `at` is a multiple of 8.
    pub fn word(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len(), "word {at} of a buffer of {}", self.len());
        // SAFETY: in bounds and aligned; concurrent change is what volatile is for.
        u64::from_le(unsafe { self.memory.address.add(at).cast::<u64>().read_volatile() })
    }
}

impl Pages {
    /// Whether children of a fork have the pages, too. A hint; newer kernels copy such pages at the fork.
    fn in_children(&self, advice: i32) {
        // SAFETY: whole pages of our own allocation; nothing in this process changes.
        let _ = unsafe { libc::madvise(self.address.cast(), self.layout.size(), advice) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Others get the pages now.
        self.in_children(libc::MADV_DOFORK);
        // SAFETY: allocated by us with this layout; the registration is gone.
        unsafe { std::alloc::dealloc(self.address, self.layout) }
    }
}
