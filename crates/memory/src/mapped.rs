//! Production memory: words of a mapping that other processes, and NICs, may share.
//!
//! Writes: the one owner of the region, through [`Mapped`]. Reads: anyone, through [`ReadOnly`] or a NIC.
//! (1) Every access is an atomic word access or an opaque copy by the CPU; no reference to the bytes exists.
//! (2) The mapping outlives every `Mapped`/`ReadOnly` of it (they hold it alive).
//! (3) Bounds are checked on every access; the length of a mapping never changes.

#[cfg(feature = "simulated")]
pub(crate) mod recycle;
mod write_back;

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
#[cfg(feature = "simulated")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

#[cfg(feature = "simulated")]
use crate::dimm::Dimm;
#[cfg(feature = "simulated")]
use crate::marks::{PAGE, WrittenPages};
use crate::prefetch::prefetch_at;
use crate::words::{OwnedWords, Words};

/// Copies of at least this many bytes use the CPU's string copy; shorter ones go word by word.
/// Measured here (Sapphire Rapids, fast short string copies): the two meet between 256 and 512 bytes.
const STRING_COPY_MIN: usize = if cfg!(target_arch = "x86_64") { 512 } else { usize::MAX };

/// Bytes of a cache line, which most READs of an index fetch.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// How often the system is asked for a huge page that it cannot give at the moment. One call takes less than
/// a millisecond, and about every second one is in vain while a table is filled.
const COLLAPSE_TRIES: u32 = 5;

/// Bytes of a huge page.
pub const HUGE_PAGE: u64 = 2 << 20;

/// One mmap, unmapped when the last user is gone.
pub(crate) struct Mapping {
    base: *mut u8,
    len: usize,
    page: u64,
    /// Huge pages may be asked for.
    huge: bool,
    /// A NIC knows the pages: they stay.
    pinned: AtomicBool,
    /// The memory file behind it, if it is asked which pages were never written.
    file: Option<Arc<OwnedFd>>,
    /// It is used again, and so it knows itself which pages were written.
    #[cfg(feature = "simulated")]
    marks: Option<WrittenPages>,
    /// The module of persistent memory that it is of, and where it begins there.
    #[cfg(feature = "simulated")]
    pub(crate) dimm: OnceLock<(Arc<Dimm>, u64)>,
}

// SAFETY: the mapping is plain shared memory; every access below is atomic or opaque, from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// # Safety
    /// `base` must be the page-aligned start of a live mapping of `len` bytes that nobody else unmaps and
    /// whose file cannot shrink (sealed, or owned by us).
    pub(crate) unsafe fn new(base: *mut u8, len: usize, page: u64, huge: bool) -> Mapping {
        assert!(
            (base as usize).is_multiple_of(4096) && len.is_multiple_of(8),
            "mapping is page aligned and whole words"
        );
        Mapping {
            base,
            len,
            page,
            huge,
            pinned: AtomicBool::new(false),
            file: None,
            #[cfg(feature = "simulated")]
            marks: None,
            #[cfg(feature = "simulated")]
            dimm: OnceLock::new(),
        }
    }

    /// The same; `file` is the memory file behind it.
    pub(crate) fn over(mut self, file: Arc<OwnedFd>) -> Mapping {
        self.file = Some(file);
        self
    }

    /// The same; it is used again. Its pages stay, and are of one size.
    #[cfg(feature = "simulated")]
    pub(crate) fn marked(mut self, marks: WrittenPages) -> Mapping {
        self.huge = false;
        self.marks = Some(marks);
        self
    }

    /// The memory file behind it, if it is a memory file's.
    #[cfg(feature = "simulated")]
    pub(crate) fn file(&self) -> Option<&Arc<OwnedFd>> {
        self.file.as_ref()
    }

    /// So many bytes from there on were written, or are about to be.
    #[inline(always)]
    fn mark(&self, _at: u64, _len: usize) {
        #[cfg(feature = "simulated")]
        if let Some(marks) = &self.marks {
            marks.mark(_at, _len as u64);
        }
    }

    /// So many bytes from there on were stored.
    #[inline(always)]
    fn stored(&self, _at: u64, _len: usize) {
        #[cfg(feature = "simulated")]
        if let Some((dimm, from)) = self.dimm.get() {
            for at in (_at.._at + _len as u64).step_by(8) {
                // Relaxed: what is simulated is of one thread.
                dimm.store(from + at, u64::from_le(self.word(at).load(Ordering::Relaxed)));
            }
        }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(
            at.is_multiple_of(8) && at < self.len as u64,
            "word {at:#x} outside a region of {:#x} bytes",
            self.len
        );
        // SAFETY: in bounds (at is a multiple of 8 below len, itself a multiple of 8), aligned, alive while
        // `self` is; AtomicU64 permits concurrent change by other threads and processes.
        unsafe { &*(self.base.add(at as usize) as *const AtomicU64) }
    }

    /// The lower half of a word, for the system to look at.
    fn half(&self, at: u64) -> &AtomicU32 {
        let word = std::ptr::from_ref(self.word(at));
        // SAFETY: the first half of a word that is alive while `self` is, and aligned; this process only
        // passes its address to the system, which reads it as other threads and processes do.
        unsafe { &*word.cast() }
    }

    /// A word whose bounds the caller has checked.
    ///
    /// # Safety
    /// `at` is a multiple of 8 and less than `len`.
    #[inline(always)]
    unsafe fn word_in_bounds(&self, at: u64) -> &AtomicU64 {
        // SAFETY: the caller's promise; otherwise as in `word`.
        unsafe { &*(self.base.add(at as usize) as *const AtomicU64) }
    }

    #[inline(always)]
    fn check(&self, at: u64, len: usize) {
        assert!(
            at.is_multiple_of(8) && at <= self.len as u64 && len as u64 <= self.len as u64 - at,
            "bytes {at:#x}+{len:#x} outside a region of {:#x} bytes",
            self.len
        );
    }

    #[inline(always)]
    fn copy_out(&self, at: u64, into: &mut [u8]) {
        self.check(at, into.len());
        #[cfg(target_arch = "x86_64")]
        if let Ok(line) = <&mut [u8; LINE]>::try_from(&mut *into) {
            // SAFETY: source checked just above, destination is exclusively ours and as long; no overlap.
            return unsafe { line_copy(self.base.add(at as usize), line) };
        }
        let (whole, rest) = into.split_at_mut(into.len() & !7);
        if whole.len() >= STRING_COPY_MIN {
            // SAFETY: source checked just above, destination is exclusively ours and as long; they do not
            // overlap (no reference to the mapping exists, and `into` is a reference).
            unsafe { string_copy(self.base.add(at as usize), whole.as_mut_ptr(), whole.len() / 8) };
        } else {
            for (i, chunk) in whole.chunks_exact_mut(8).enumerate() {
                // Relaxed: a copy promises nothing between its words; records verify themselves.
                // SAFETY: `check` covered the whole range, of which this is a full word.
                let word = unsafe { self.word_in_bounds(at + i as u64 * 8) }.load(Ordering::Relaxed);
                chunk.copy_from_slice(&word.to_le_bytes());
            }
        }
        if !rest.is_empty() {
            // Relaxed: as above.
            let word = self.word(at + whole.len() as u64).load(Ordering::Relaxed).to_le_bytes();
            rest.copy_from_slice(&word[..rest.len()]);
        }
    }

    #[inline]
    fn copy_in(&self, at: u64, bytes: &[u8]) {
        self.check(at, bytes.len());
        self.mark(at, bytes.len());
        let whole = bytes.len() & !7;
        if bytes.len() >= STRING_COPY_MIN {
            // Orders the copy after earlier stores; pairs with the Acquire of Words::load.
            std::sync::atomic::fence(Ordering::Release);
            // SAFETY: destination checked just above; the source is a live slice; no overlap as in copy_out.
            unsafe { string_copy(bytes.as_ptr(), self.base.add(at as usize), whole / 8) };
        } else {
            for (i, chunk) in bytes[..whole].chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
                // SAFETY: `check` covered the whole range, of which this is a full word.
                let to = unsafe { self.word_in_bounds(at + i as u64 * 8) };
                // Release: the store rule of the crate; pairs with the Acquire of Words::load.
                to.store(word, Ordering::Release);
            }
        }
        let rest = &bytes[whole..];
        if !rest.is_empty() {
            let last = self.word(at + whole as u64);
            // Relaxed: only the owner stores here, and that is this thread.
            let mut word = last.load(Ordering::Relaxed).to_le_bytes();
            word[..rest.len()].copy_from_slice(rest);
            // Release: the store rule of the crate; pairs with the Acquire of Words::load.
            last.store(u64::from_le_bytes(word), Ordering::Release);
        }
        self.stored(at, bytes.len());
    }

    /// Whole pages go back to the system, the edges are zeroed word by word.
    fn discard(&self, at: u64, len: u64) {
        self.check(at, len as usize);
        assert!(len.is_multiple_of(8), "discard of {len:#x} bytes is not whole words");
        let from = at.next_multiple_of(self.page).min(at + len);
        let to = ((at + len) / self.page * self.page).max(from);
        // Release: the store rule of the crate; pairs with the Acquire of Words::load.
        let zero = |range: std::ops::Range<u64>| {
            let (from, len) = (range.start, range.end.saturating_sub(range.start));
            range.step_by(8).for_each(|word| self.word(word).store(0, Ordering::Release));
            self.stored(from, len as usize);
        };
        zero(at..from);
        #[cfg(feature = "simulated")]
        if let Some(marks) = &self.marks {
            let mut from = from;
            // Without a whole page both are the range's end, in the middle of a page.
            while let Some(page) = marks.next(from, to).filter(|_| from < to) {
                self.copy_in(page, &[0; PAGE as usize]);
                marks.clear(page);
                from = page + PAGE;
            }
            return zero(to..at + len);
        }
        // Relaxed: set before the NIC learns of the pages, and before another thread has the memory (`pin`).
        if self.pinned.load(Ordering::Relaxed) {
            zero(from..to);
        } else if from < to {
            // SAFETY: whole pages inside our own mapping (checked above), which holds no Rust value.
            let gone = unsafe {
                let start = self.base.add(from as usize).cast();
                rustix::mm::madvise(start, (to - from) as usize, rustix::mm::Advice::LinuxRemove)
            };
            if gone.is_err() {
                // A backing that cannot give pages back (some file systems): zeroes are the part that
                // matters.
                zero(from..to);
            }
        }
        zero(to..at + len);
    }

    /// Takes whole blocks as huge pages, until the system has none.
    fn populate(&self, at: u64, len: u64) -> u64 {
        self.check(at, len as usize);
        // Relaxed: as in `discard`.
        if !self.huge || self.pinned.load(Ordering::Relaxed) {
            return 0;
        }
        let mut taken = 0;
        let last = (at + len) / HUGE_PAGE * HUGE_PAGE;
        for block in (at.next_multiple_of(HUGE_PAGE)..last).step_by(HUGE_PAGE as usize) {
            match self.collapse(block) {
                Ok(()) => taken += HUGE_PAGE,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Linux before 6.1, pages switched off, or none left: ordinary pages come when touched.
                Err(_) => break,
            }
        }
        taken
    }

    /// Has a block stand in a huge page.
    fn collapse(&self, block: u64) -> std::io::Result<()> {
        // The kernel wants a page to begin with. Relaxed: only that it is loaded counts, which the compiler
        // must not see through.
        std::hint::black_box(self.word(block).load(Ordering::Relaxed));
        persist(|| {
            // SAFETY: a whole block inside our own mapping; it changes the pages behind it, no byte of them.
            match unsafe {
                libc::madvise(self.base.add(block as usize).cast(), HUGE_PAGE as usize, libc::MADV_COLLAPSE)
            } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    }

    fn next_written(&self, at: u64) -> u64 {
        #[cfg(feature = "simulated")]
        if let Some(marks) = self.marks.as_ref().filter(|_| at < self.len as u64) {
            let page = at - at % self.page;
            return marks.next(page, self.len as u64).map_or(self.len as u64, |next| next.max(at));
        }
        let Some(file) = self.file.as_ref().filter(|_| at < self.len as u64) else { return at };
        match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(next) => next & !7,
            // Nothing is written from there on.
            Err(Errno::NXIO) => self.len as u64,
            Err(_) => at,
        }
    }

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        if at < self.len as u64 {
            prefetch_at(self.base.wrapping_add(at as usize));
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(feature = "simulated")]
        if self.marks.is_some() && self.is_kept() {
            return;
        }
        // SAFETY: `new` got a live mapping of exactly this extent, which nobody else unmaps; no user is left.
        let unmapped = unsafe { rustix::mm::munmap(self.base.cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

/// Copies words in a way the compiler cannot see into, so that a concurrent change of either side is an
/// ordinary property of the memory and not a data race of the language. No word that is aligned tears on its
/// side, wherever the other side is. (A copy byte by byte, REP MOVSB, goes by the alignment of the
/// destination: where that is another than the source's it reads words in two parts.)
///
/// # Safety
/// So many words from `from` on are readable and from `to` on writable, and they do not overlap.
#[inline(always)]
unsafe fn string_copy(from: *const u8, to: *mut u8, words: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") words => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("{words} words from {from:?} to {to:?}: no copy is long enough for this here");
}

/// Asks again, a few times, for what the system has not at the moment: it has no huge page for a block while
/// another thread takes a page of it, as happens where a table is filled meanwhile.
fn persist(mut ask: impl FnMut() -> std::io::Result<()>) -> std::io::Result<()> {
    for _ in 1..COLLAPSE_TRIES {
        match ask() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            answer => return answer,
        }
    }
    ask()
}

/// Copies one line: as [`string_copy`] (each half of a 16-byte load is one access of the first cache).
///
/// # Safety
/// `from..from+64` is readable and does not overlap `to`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn line_copy(from: *const u8, to: &mut [u8; LINE]) {
    // SAFETY: the caller's promise; SSE2 is part of every x86_64.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{from}]",
            "movdqu {b}, [{from} + 16]",
            "movdqu {c}, [{from} + 32]",
            "movdqu {d}, [{from} + 48]",
            "movdqu [{to}], {a}",
            "movdqu [{to} + 16], {b}",
            "movdqu [{to} + 32], {c}",
            "movdqu [{to} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to.as_mut_ptr(),
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// A mapping with the right to change it. Cloning shares the same memory.
#[derive(Clone)]
pub struct Mapped(pub(crate) Arc<Mapping>);

/// A mapping with the right to look only. Cloning shares the same memory.
#[derive(Clone)]
pub struct ReadOnly(pub(crate) Arc<Mapping>);

impl Mapped {
    /// Sleeps while the lower half of the word at `at` is `expected`, until another thread or process that
    /// maps the same file wakes it ([`futex_wake`](Self::futex_wake)), a signal comes, or the time is over.
    pub fn futex_wait(&self, at: u64, expected: u32, timeout: Duration) {
        let limit = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos() as i64 };
        // Whatever ends the sleep, the caller looks again.
        let _ = futex::wait(self.0.half(at), futex::Flags::empty(), expected.to_le(), Some(&limit));
    }

    /// Wakes one thread that sleeps on the word at `at`.
    pub fn futex_wake(&self, at: u64) {
        let _ = futex::wake(self.0.half(at), futex::Flags::empty(), 1);
    }

    /// The same memory without the right to change it.
    pub fn read_only(&self) -> ReadOnly {
        ReadOnly(self.0.clone())
    }

    /// From now on the memory keeps its pages, because a NIC is about to know them: what is discarded is only
    /// zeroed. (Pages given back would be replaced by others for us, and stay with the NIC.) Memory that
    /// another thread discards is pinned before that thread has it.
    pub fn pin(&self) {
        // Relaxed: discards come after. They are this thread's, or those of threads that were handed the
        // memory since then.
        self.0.pinned.store(true, Ordering::Relaxed);
    }

    /// Address of the first byte, for registration with a NIC. Nobody may form a reference to it.
    pub fn address(&self) -> *mut u8 {
        self.0.base()
    }
}

macro_rules! look {
    ($type:ty) => {
        impl Words for $type {
            fn bytes(&self) -> u64 {
                self.0.len() as u64
            }
            #[inline(always)]
            fn load(&self, at: u64) -> u64 {
                // Acquire: pairs with the Release of OwnedWords::store.
                u64::from_le(self.0.word(at).load(Ordering::Acquire))
            }
            #[inline(always)]
            fn copy_out(&self, at: u64, into: &mut [u8]) {
                self.0.copy_out(at, into)
            }
            #[inline(always)]
            fn prefetch(&self, at: u64) {
                self.0.prefetch(at)
            }
            fn next_written(&self, at: u64) -> u64 {
                self.0.next_written(at)
            }
        }
    };
}
look!(Mapped);
look!(ReadOnly);

impl OwnedWords for Mapped {
    #[inline(always)]
    fn store(&self, at: u64, word: u64) {
        self.0.mark(at, 8);
        // Release: pairs with the Acquire of Words::load.
        self.0.word(at).store(word.to_le(), Ordering::Release);
        self.0.stored(at, 8);
    }

    #[inline(always)]
    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64> {
        self.0.mark(at, 8);
        // AcqRel: takes what the last holder published and publishes ours; Acquire on failure, as a load.
        self.0
            .word(at)
            .compare_exchange(expected.to_le(), new.to_le(), Ordering::AcqRel, Ordering::Acquire)
            .map(|_| self.0.stored(at, 8))
            .map_err(u64::from_le)
    }

    #[inline(always)]
    fn fetch_add(&self, at: u64, more: u64) -> u64 {
        self.0.mark(at, 8);
        // AcqRel: as compare_exchange.
        let before = self.0.word(at).fetch_add(more, Ordering::AcqRel);
        self.0.stored(at, 8);
        before
    }

    #[inline]
    fn copy_in(&self, at: u64, bytes: &[u8]) {
        self.0.copy_in(at, bytes)
    }

    fn discard(&self, at: u64, len: u64) {
        self.0.discard(at, len)
    }

    fn populate(&self, at: u64, len: u64) -> u64 {
        self.0.populate(at, len)
    }

    fn flush(&self, at: u64, len: u64) {
        self.0.check(at & !63, (len + (at & 63)) as usize);
        #[cfg(feature = "simulated")]
        if let Some((dimm, from)) = self.0.dimm.get() {
            dimm.flush(from + at, len);
        }
        for line in (at & !63..at + len).step_by(64) {
            // SAFETY: a line inside our mapping.
            unsafe { write_back::line(self.0.base().add(line as usize)) };
        }
    }

    fn fence(&self) {
        #[cfg(feature = "simulated")]
        if let Some((dimm, _)) = self.0.dimm.get() {
            dimm.fence();
        }
        write_back::fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by the huge pages of an index: when writes had become faster the system had none for every
    /// second block at that moment, and nothing asked again.
    #[test]
    fn a_huge_page_that_is_refused_for_the_moment_is_asked_for_again() {
        let error = |code| Err(std::io::Error::from_raw_os_error(code));
        let outcome = |answers: &[i32]| {
            let mut answers = answers.iter();
            let last = persist(|| match answers.next().expect("one more time") {
                0 => Ok(()),
                code => error(*code),
            });
            (last.err().and_then(|error| error.raw_os_error()).unwrap_or(0), answers.len())
        };
        assert_eq!(outcome(&[0, 0]), (0, 1));
        assert_eq!(outcome(&[libc::EAGAIN, libc::EAGAIN, 0, 0]), (0, 1));
        assert_eq!(outcome(&[libc::EAGAIN; COLLAPSE_TRIES as usize + 1]), (libc::EAGAIN, 1));
        for none in [libc::EINVAL, libc::ENOMEM, libc::EBUSY] {
            assert_eq!(outcome(&[none, 0]), (none, 1));
            assert_eq!(outcome(&[libc::EAGAIN, none, 0]), (none, 1));
        }
    }
}
