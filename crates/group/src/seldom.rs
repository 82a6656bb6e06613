//! A limit for lines of the log that a flood would repeat: the first few of each second are logged, and the
//! others counted.

use longarm_base::Nanos;

/// The number of lines that are logged in each span.
const TOLD_MAX: u32 = 5;
const SPAN: Nanos = Nanos(1_000_000_000);

/// One kind of line, and how many of it were logged.
#[derive(Default)]
pub struct Seldom {
    until: Nanos,
    told: u32,
    withheld: u64,
}

impl Seldom {
    /// Admits one more line, unless enough were logged in this span. Returns how many lines were withheld
    /// before it.
    pub fn admit(&mut self, now: Nanos) -> Option<u64> {
        if now >= self.until {
            (self.until, self.told) = (now + SPAN, 0);
        }
        if self.told >= TOLD_MAX {
            self.withheld += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.withheld))
    }

    /// Takes how many lines were withheld in a span that is over, for a caller that asks now and then.
    pub fn withheld(&mut self, now: Nanos) -> Option<u64> {
        let some = self.withheld > 0 && now >= self.until;
        some.then(|| std::mem::take(&mut self.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_a_second_and_a_count() {
        let mut seldom = Seldom::default();
        let at = |ms: u64| Nanos::from_millis(10_000 + ms);
        let told = (0..1_000).filter(|_| seldom.admit(at(1)).is_some()).count();
        assert_eq!(told, TOLD_MAX as usize);
        assert_eq!(seldom.withheld(at(1_000)), None, "the second is not over");
        assert_eq!(seldom.withheld(at(1_001)), Some(995));
        assert_eq!(seldom.withheld(at(1_001)), None, "it was told");
        assert!((0..1_000).filter_map(|_| seldom.admit(at(1_002))).eq([0; 5]));
        assert_eq!(seldom.admit(at(2_002)), Some(995), "or told with the next line");
    }

    #[test]
    fn what_comes_now_and_then_is_told() {
        let mut seldom = Seldom::default();
        assert!((0..100).all(|i| seldom.admit(Nanos::from_millis(250 * i)) == Some(0)));
    }
}
