//! The crate's one door to atomics and locks, so that tests can schedule every step of them.
//!
//! In production these are thin wrappers of std. In tests every step first calls [`pause`], which inside a
//! shuttle run lets the scheduler choose the next task, and a lock is tried and never waited for (shuttle's
//! tasks share one thread).

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
thread_local! {
    /// Whether this thread runs the tasks of a shuttle test.
    pub(crate) static SCHEDULED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A step before which other tasks may run.
#[inline(always)]
pub(crate) fn pause() {
    #[cfg(test)]
    if SCHEDULED.get() {
        shuttle::thread::yield_now();
    }
}

/// A counter that several threads change. Its operations are totally ordered and carry what came before them.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds, wrapping, and returns the sum.
    #[inline]
    pub(crate) fn add(&self, more: u64) -> u64 {
        pause();
        // AcqRel: pairs with itself in other threads; a thread that sees the sum sees what led to it.
        self.0.fetch_add(more, Ordering::AcqRel).wrapping_add(more)
    }

    /// The value now.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        pause();
        // Acquire: pairs with the AcqRel of `add` and the Release of `set`.
        self.0.load(Ordering::Acquire)
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: u64) {
        pause();
        // Release: pairs with the Acquire of `get`.
        self.0.store(value, Ordering::Release)
    }

    /// Raises the value to at least this.
    pub(crate) fn raise(&self, value: u64) {
        pause();
        // AcqRel: as in `add`.
        self.0.fetch_max(value, Ordering::AcqRel);
    }
}

/// A lock held for a few steps and never across a wait.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Takes the lock. A thread that died inside left a broken invariant behind, so the thread that locks
    /// dies, too.
    #[cfg(not(test))]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a thread died while it held a lock of the store")
    }

    #[cfg(test)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        loop {
            pause();
            match self.0.try_lock() {
                Ok(guard) => return guard,
                Err(std::sync::TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(std::sync::TryLockError::Poisoned(_)) => panic!("a thread died while it held the lock"),
            }
        }
    }
}
