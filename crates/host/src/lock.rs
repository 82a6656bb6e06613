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

    /// Takes the lock, in a destructor. `None` if a thread died while it held the lock, or dies with it in a
    /// world whose machine crashes: nobody looks at the value any more. A destructor that panics during
    /// another panic would end the process.
    pub fn lock_to_drop(&self) -> Option<MutexGuard<'_, T>> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(_)) => return None,
                Err(TryLockError::WouldBlock) => match entered() {
                    None => return self.0.lock().ok(),
                    Some(_) if std::thread::panicking() => return None,
                    Some(world) => world.relax(),
                },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destructor_gets_the_lock_unless_a_thread_died_with_it() {
        let lock = Mutex::new(1);
        lock.lock_to_drop().into_iter().for_each(|mut value| *value += 1);
        assert_eq!(*lock.lock(), 2);
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _value = lock.lock();
            panic!("it dies");
        }));
        assert!(died.is_err() && lock.lock_to_drop().is_none());
    }
}
