//! The clock in one operation: until when it may try, and since when its READs count.
//!
//! A GET takes less time than ten readings of the clock, so it makes do with one reading, behind its READs.
//! The two types here state what may replace the readings that it does without, and for which purpose alone.

use std::cell::Cell;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_host::now;

/// The end of an operation's tries. Its time begins to run when the operation first has to wait: code that
/// looks at the deadline has read the clock anyway, and before that no step took time.
pub(crate) struct Deadline {
    timeout: Nanos,
    end: Cell<Option<Nanos>>,
}

impl Deadline {
    /// The deadline of an operation that begins and may take so long.
    pub fn within(timeout: Duration) -> Deadline {
        Deadline {
            timeout: Nanos(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)),
            end: Cell::new(None),
        }
    }

    /// A deadline at this moment, which was decided before.
    pub fn at(end: Nanos) -> Deadline {
        Deadline { timeout: Nanos(0), end: Cell::new(Some(end)) }
    }

    /// The moment itself, for a caller that has read the clock.
    pub fn end(&self, now: Nanos) -> Nanos {
        let end = self.end.get().unwrap_or(Nanos(now.0.saturating_add(self.timeout.0)));
        self.end.set(Some(end));
        end
    }

    /// The time that is left.
    pub fn left(&self, now: Nanos) -> Duration {
        Duration::from_nanos(self.end(now).since(now).0)
    }

    /// Whether the operation may try no more.
    pub fn is_over(&self, now: Nanos) -> bool {
        now >= self.end(now)
    }
}

/// The last reading of the clock by one operation, left to the next as the moment at which its READs begin.
/// It is earlier than that, by however long the client rested. READs that seem to take longer than they may
/// do not count and are repeated, so it costs a try at worst. No other duration may be measured from it.
#[derive(Default)]
pub(crate) struct Earlier(Option<Nanos>);

impl Earlier {
    pub fn leave(&mut self, read: Nanos) {
        self.0 = Some(read);
    }

    /// Forgets the reading, as so much time will go by that READs would surely be repeated.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// Takes the reading that was left; the next caller gets the clock itself.
    #[inline(always)]
    pub fn take(&mut self) -> Nanos {
        self.0.take().unwrap_or_else(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_operation_begins_with_its_first_wait() {
        let deadline = Deadline::within(Duration::from_nanos(10));
        assert!(!deadline.is_over(Nanos(1_000)), "however long the client had rested");
        assert!(!deadline.is_over(Nanos(1_009)) && deadline.is_over(Nanos(1_010)));
        assert_eq!(deadline.end(Nanos(2_000)), Nanos(1_010), "and is not put off");
        assert!(Deadline::at(Nanos(5)).is_over(Nanos(5)) && !Deadline::at(Nanos(5)).is_over(Nanos(4)));
        assert!(!Deadline::within(Duration::MAX).is_over(Nanos(u64::MAX - 1)));
    }

    #[test]
    fn a_reading_is_left_to_one_operation_only() {
        let mut earlier = Earlier::default();
        earlier.leave(Nanos(7));
        assert_eq!(earlier.take(), Nanos(7));
        assert_ne!(earlier.take(), Nanos(7), "the next reads the clock");
        earlier.leave(Nanos(7));
        earlier.forget();
        assert_ne!(earlier.take(), Nanos(7));
    }
}
