//! Which of the values that come back are looked at closely.

/// Which values are compared byte by byte: the first, and then one in `every`.
pub struct Sample {
    every: u32,
    /// Values up to the next that is compared, with it.
    left: u32,
}

impl Sample {
    /// One in `every`.
    pub fn every(every: u32) -> Sample {
        Sample { every, left: 1 }
    }

    /// Whether the next value is one of them.
    #[inline]
    pub fn is_next(&mut self) -> bool {
        self.left -= 1;
        let next = self.left == 0;
        if next {
            self.left = self.every;
        }
        next
    }
}
