//! The two rights over shared words: to look, and to change.
//!
//! All offsets are bytes from the start of the region and multiples of 8; copies may have any length that
//! ends inside the region. An offset outside it is a broken invariant of ours (remote offsets are checked
//! before they get here), so implementations panic with the offset.

/// The right to look at words that somebody else may be changing.
pub trait Words: Send + Sync {
    /// Size of the region in bytes.
    fn bytes(&self) -> u64;

    /// One word, with every store that was published before it (`Acquire`; pairs with [`OwnedWords::store`]).
    fn load(&self, at: u64) -> u64;

    /// Copies bytes out. Each aligned word is read once and never tears; different words may be of different
    /// moments.
    fn copy_out(&self, at: u64, into: &mut [u8]);

    /// Asks the CPU to fetch the cache line that holds `at`. A hint without effect on meaning.
    fn prefetch(&self, _at: u64) {}

    /// From where on, at or after `at`, there may be something: what is before it was never written since it
    /// was made or discarded, so it is zero, and a look at it would take memory for it. `at` itself where the
    /// backing knows no better.
    fn next_written(&self, at: u64) -> u64 {
        at
    }
}

/// The right to change words that others may be looking at. One owner has it for a region.
pub trait OwnedWords: Words {
    /// Stores one word after every earlier store of this thread (`Release`; pairs with [`Words::load`]).
    fn store(&self, at: u64, word: u64);

    /// Replaces the word if it is `expected` (`AcqRel`); otherwise returns what it is.
    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64>;

    /// Adds `more` (wrapping, `AcqRel`) and returns the word before it.
    fn fetch_add(&self, at: u64, more: u64) -> u64;

    /// Copies bytes in, word by word in ascending order; a last part-word keeps its other bytes.
    /// The copy is visible before any later [`store`](Self::store) and after any earlier one.
    fn copy_in(&self, at: u64, bytes: &[u8]);

    /// Zeroes a range and gives its whole pages back to the system, where the backing can. The caller
    /// promises that no reader accepts bytes of the range any more.
    fn discard(&self, at: u64, len: u64);

    /// Takes memory for the whole blocks of 2 MiB inside a range that nobody uses yet, as huge pages where
    /// the system has them; returns the bytes it took so. They save readers most of a random load's page
    /// walk, and the owner the page faults. A hint without effect on meaning.
    fn populate(&self, _at: u64, _len: u64) -> u64 {
        0
    }

    /// Writes back the cache lines of a range towards persistence. Nothing on memory that is not persistent.
    fn flush(&self, _at: u64, _len: u64) {}

    /// Orders earlier [`flush`](Self::flush)es before later stores. Nothing on memory that is not persistent.
    fn fence(&self) {}
}

impl<W: Words + ?Sized> Words for std::sync::Arc<W> {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }
    #[inline]
    fn load(&self, at: u64) -> u64 {
        (**self).load(at)
    }
    #[inline]
    fn copy_out(&self, at: u64, into: &mut [u8]) {
        (**self).copy_out(at, into)
    }
    #[inline]
    fn prefetch(&self, at: u64) {
        (**self).prefetch(at)
    }
    fn next_written(&self, at: u64) -> u64 {
        (**self).next_written(at)
    }
}

impl<W: OwnedWords + ?Sized> OwnedWords for std::sync::Arc<W> {
    #[inline]
    fn store(&self, at: u64, word: u64) {
        (**self).store(at, word)
    }
    #[inline]
    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64> {
        (**self).compare_exchange(at, expected, new)
    }
    #[inline]
    fn fetch_add(&self, at: u64, more: u64) -> u64 {
        (**self).fetch_add(at, more)
    }
    #[inline]
    fn copy_in(&self, at: u64, bytes: &[u8]) {
        (**self).copy_in(at, bytes)
    }
    fn discard(&self, at: u64, len: u64) {
        (**self).discard(at, len)
    }
    fn populate(&self, at: u64, len: u64) -> u64 {
        (**self).populate(at, len)
    }
    fn flush(&self, at: u64, len: u64) {
        (**self).flush(at, len)
    }
    fn fence(&self) {
        (**self).fence()
    }
}
