//! Which pages of a mapping were written, for memory that is used again (`mapped/recycle.rs`).

use std::sync::atomic::{AtomicU8, Ordering};

/// Bytes of memory that one mark stands for.
pub(crate) const PAGE: u64 = 4096;

/// Which pages of a mapping were written since they were zero.
#[derive(Debug)]
pub(crate) struct WrittenPages(Box<[AtomicU8]>);

impl WrittenPages {
    /// None is written yet.
    pub fn new(len: u64) -> WrittenPages {
        WrittenPages((0..len.div_ceil(PAGE)).map(|_| AtomicU8::new(0)).collect())
    }

    /// So many bytes from there on are written.
    #[inline]
    pub fn mark(&self, at: u64, len: u64) {
        let pages = (at / PAGE) as usize..(at + len).div_ceil(PAGE) as usize;
        for page in &self.0[pages.start..pages.end.max(pages.start)] {
            // Relaxed: what is simulated is of one thread.
            page.store(1, Ordering::Relaxed);
        }
    }

    /// The page that begins there is zero again.
    pub fn clear(&self, page: u64) {
        // Relaxed: as above.
        self.0[(page / PAGE) as usize].store(0, Ordering::Relaxed);
    }

    /// The first written page, at or after `from` and before `to`; all of them whole pages.
    pub fn next(&self, from: u64, to: u64) -> Option<u64> {
        let pages = &self.0[(from / PAGE) as usize..to.div_ceil(PAGE) as usize];
        // Relaxed: as above.
        let next = pages.iter().position(|page| page.load(Ordering::Relaxed) != 0)?;
        Some((from / PAGE + next as u64) * PAGE)
    }
}
