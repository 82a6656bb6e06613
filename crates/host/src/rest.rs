//! A rest that gets longer each time it is needed soon again: a thread has learnt that something does not pay
//! now, leaves it for a while, and then tries again.

use longarm_base::Nanos;

/// For how long to leave something, by how often that was needed of late.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    first: Nanos,
    most: Nanos,
    until: Nanos,
    next: Nanos,
}

impl Rest {
    /// None now. The first one takes `first`; each takes twice as long as the one before, at most `most`.
    pub const fn new(first: Nanos, most: Nanos) -> Rest {
        Rest { first, most, until: Nanos(0), next: first }
    }

    /// Whether it is over.
    #[inline]
    pub fn is_over(&self, now: Nanos) -> bool {
        now >= self.until
    }

    /// How long it has been over.
    pub fn over_for(&self, now: Nanos) -> Nanos {
        now.since(self.until)
    }

    /// How long the next one takes, unless it was forgotten.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Forgets that there were any.
    pub fn forget(&mut self) {
        self.next = self.first;
    }

    /// Begins one.
    pub fn begin(&mut self, now: Nanos) {
        self.until = now + self.next;
        self.next = (self.next + self.next).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_takes_twice_as_long_up_to_the_longest_until_they_are_forgotten() {
        let (first, most) = (Nanos::from_millis(2), Nanos::from_millis(7));
        let (mut rest, mut at) = (Rest::new(first, most), Nanos::from_millis(100));
        assert!(rest.is_over(at));
        let mut takes = |rest: &mut Rest| {
            rest.begin(at);
            let begun = at;
            while !rest.is_over(at) {
                at = at + Nanos::from_millis(1);
            }
            assert_eq!(rest.over_for(at), Nanos(0));
            at.since(begun)
        };
        let taken: Vec<_> = (0..4).map(|_| takes(&mut rest)).collect();
        assert_eq!(taken, [2, 4, 7, 7].map(Nanos::from_millis));
        rest.forget();
        assert_eq!((rest.next(), takes(&mut rest)), (first, first));
    }
}
