//! A number that threads wait to see changed. It is one word, and sleepers are the kernel's (futex): whoever
//! changes it makes no call of the system unless somebody sleeps.

use std::sync::atomic::{AtomicU32, Ordering};

use longarm_base::Nanos;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::now;
use crate::world::{World, entered};

/// Somebody sleeps, or is about to: whoever changes the number wakes all that do.
const SLEEPERS: u32 = 1 << 31;

/// A number below 2^31 that threads wait to see changed.
#[derive(Debug, Default)]
pub struct Signal(AtomicU32);

impl Signal {
    /// A signal that shows this number.
    pub const fn new(number: u32) -> Signal {
        Signal(AtomicU32::new(number))
    }

    /// The number now. Whoever sees it sees what was done before it was shown.
    #[inline]
    pub fn get(&self) -> u32 {
        // Acquire: pairs with the AcqRel of `set` and `replace`.
        self.0.load(Ordering::Acquire) & !SLEEPERS
    }

    /// Shows another number, and wakes all that sleep.
    pub fn set(&self, number: u32) {
        // AcqRel: pairs with the Acquire of `get`, and with the mark of a sleeper.
        if self.0.swap(number, Ordering::AcqRel) & SLEEPERS != 0 {
            self.wake();
        }
    }

    /// Shows another number and wakes all that sleep, if it shows `from`; whether it did.
    pub fn replace(&self, from: u32, to: u32) -> bool {
        // AcqRel: as in `set`. Relaxed: what it shows instead is not acted on.
        let change = |from| self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        match change(from) {
            Ok(_) => true,
            // A sleeper's mark may also come between the two.
            Err(other) if other == from | SLEEPERS => self.replace_asleep(from, to),
            Err(_) => false,
        }
    }

    #[cold]
    fn replace_asleep(&self, from: u32, to: u32) -> bool {
        // AcqRel: as in `set`. Relaxed: as in `replace`.
        let was = from | SLEEPERS;
        let changed = self.0.compare_exchange(was, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if changed {
            self.wake();
        }
        changed
    }

    /// Sleeps while it shows this number, at most until then; whether it shows another.
    pub fn wait_while(&self, number: u32, until: Nanos) -> bool {
        let world = entered();
        loop {
            // A look at the clock lets other tasks of a world continue. None runs between the look at the
            // number and the sleep.
            let left = until.since(now());
            // Acquire: as in `get`. Relaxed: the number itself says nothing yet.
            let marked = self.0.compare_exchange(
                number,
                number | SLEEPERS,
                Ordering::Relaxed, // Relaxed: the mark publishes nothing.
                Ordering::Acquire, // Acquire: as in `get`.
            );
            match marked {
                Err(other) if other != number | SLEEPERS => return true,
                _ if left == Nanos(0) => return false,
                _ if !self.sleep(world.as_deref(), number | SLEEPERS, until, left) => return false,
                _ => {}
            }
        }
    }

    /// Sleeps while the word is this; may wake without a reason. Whether to look again: in a world, nothing
    /// may wait any more at the end.
    fn sleep(&self, world: Option<&dyn World>, word: u32, until: Nanos, left: Nanos) -> bool {
        if let Some(world) = world {
            return world.park(self.bed(), until);
        }
        let time =
            Timespec { tv_sec: (left.0 / 1_000_000_000) as i64, tv_nsec: (left.0 % 1_000_000_000) as i64 };
        // Woken, changed before, interrupted or late: the caller looks in each case.
        let _ = futex::wait(&self.0, Flags::PRIVATE, word, Some(&time));
        true
    }

    #[cold]
    fn wake(&self) {
        match entered() {
            // It fails for a word that is not there, and this one is.
            None => drop(futex::wake(&self.0, Flags::PRIVATE, i32::MAX as u32)),
            Some(world) => world.unpark(self.bed()),
        }
    }

    /// A number that no other bed has while this one exists.
    fn bed(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::spawn;

    const LONG: Nanos = Nanos::from_millis(20_000);

    #[test]
    fn what_shows_another_number_is_not_waited_for_and_the_time_ends_a_wait() {
        let signal = Signal::new(1);
        assert!(signal.wait_while(0, now()), "it shows another");
        let begun = Instant::now();
        assert!(!signal.wait_while(1, now() + Nanos::from_millis(3)));
        assert!(begun.elapsed() >= Duration::from_millis(3));
        assert_eq!(signal.get(), 1, "the mark of a sleeper is no number");
        assert!(!signal.replace(2, 3) && signal.replace(1, 3), "also with the mark");
        signal.set(4);
        assert_eq!(signal.get(), 4);
    }

    #[test]
    fn all_that_sleep_are_woken_by_either_change() {
        let signal = Arc::new(Signal::default());
        let sleepers: Vec<_> = (0..4)
            .map(|_| {
                let signal = signal.clone();
                let sleep = move || {
                    assert!(signal.wait_while(0, now() + LONG));
                    assert!(signal.wait_while(1, now() + LONG));
                };
                spawn("sleeper", sleep).expect("a thread")
            })
            .collect();
        crate::sleep(Duration::from_millis(2));
        assert!(signal.replace(0, 1));
        crate::sleep(Duration::from_millis(2));
        signal.set(2);
        let begun = Instant::now();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("woken"));
        assert!(begun.elapsed() < Duration::from_nanos(LONG.0));
    }
}
