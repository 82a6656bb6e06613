//! A lock that is held for a few steps.

use std::sync::{MutexGuard, TryLockError};

use crate::world::entered;

const DIED: &str = "a thread died while it held this lock";

/// A mutex. A thread that died while it held the mutex left a broken invariant behind, so a thread that locks
/// it afterwards dies, too.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// The value: a caller with exclusive access to the lock need not take it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(DIED)
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // The error of a poisoned lock holds the lock, so it is dropped before the next try.
        if let Ok(guard) = self.0.try_lock() {
            return guard;
        }
        self.lock_late()
    }

    /// Takes the lock if it is free. Where a thread died while it held it, `renew` makes the value as new
    /// first: for a value that can be made anew.
    #[inline]
    pub fn try_lock(&self, renew: impl FnOnce(&mut T)) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(dead)) => {
                let mut guard = dead.into_inner();
                renew(&mut guard);
                self.0.clear_poison();
                Some(guard)
            }
        }
    }

    /// All tasks of a world share one thread, so the task that has the lock must be allowed to continue.
    #[cold]
    fn lock_late(&self) -> MutexGuard<'_, T> {
        let Some(world) = entered() else { return self.0.lock().expect(DIED) };
        loop {
            match self.0.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::WouldBlock) => world.relax(),
                Err(TryLockError::Poisoned(_)) => panic!("{DIED}"),
            }
        }
    }
}
