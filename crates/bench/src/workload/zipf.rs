//! Zipfian ranks by Gray's method, as YCSB draws them (`ZipfianGenerator.java`, after "Quickly Generating
//! Billion-Record Synthetic Databases", SIGMOD 1994). Rank 0 is the most popular.

use longarm_base::random::SplitMix64;
use longarm_workload::random::unit;

/// YCSB's exponent (`ZIPFIAN_CONSTANT`).
pub const YCSB_THETA: f64 = 0.99;

/// `ScrambledZipfianGenerator.ITEM_COUNT`: ranks are drawn from ten billion whatever the number of records,
/// so that the skew does not depend on it.
pub const YCSB_ITEMS: u64 = 10_000_000_000;

/// `ScrambledZipfianGenerator.ZETAN`: zeta(YCSB_ITEMS, 0.99) as YCSB precomputed it.
pub const YCSB_ZETAN: f64 = 26.469_028_201_783_02;

/// Terms that [`zeta`] adds one by one before it turns to the integral.
const ZETA_EXACT: u64 = 4096;

/// Sum of `1 / i^theta` for i in 1..=n.
///
/// YCSB adds all terms, which takes a minute for 10^8; the tail by the Euler-Maclaurin formula agrees with
/// that sum to twelve digits (tested) and takes microseconds.
pub fn zeta(n: u64, theta: f64) -> f64 {
    let exact = n.min(ZETA_EXACT);
    let head: f64 = (1..=exact).map(|i| (i as f64).powf(-theta)).sum();
    if n == exact {
        return head;
    }
    let (from, to) = (exact as f64, n as f64);
    let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (to.powf(-theta) - from.powf(-theta)) / 2.0;
    let slopes = theta / 12.0 * (from.powf(-theta - 1.0) - to.powf(-theta - 1.0));
    head + integral + ends + slopes
}

/// Draws ranks in 0..items.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Items given at the start; YCSB keeps using it for `eta` after growth.
    items: u64,
    /// Items that `zetan` is the sum of.
    counted: u64,
    theta: f64,
    alpha: f64,
    zeta2: f64,
    zetan: f64,
    eta: f64,
    /// `1 + 0.5^theta`, the bound below which a draw is rank 0 or 1.
    second: f64,
}

impl Zipf {
    /// Ranks below `items` with exponent `theta` in (0, 1).
    pub fn new(items: u64, theta: f64) -> Zipf {
        Zipf::with_zetan(items, theta, zeta(items, theta))
    }

    /// What YCSB scrambles: ranks of ten billion items. The range is inclusive there, hence one more item.
    pub fn ycsb(theta: f64) -> Zipf {
        let zetan = if theta == YCSB_THETA { YCSB_ZETAN } else { zeta(YCSB_ITEMS + 1, theta) };
        Zipf::with_zetan(YCSB_ITEMS + 1, theta, zetan)
    }

    fn with_zetan(items: u64, theta: f64, zetan: f64) -> Zipf {
        assert!(items > 0 && theta > 0.0 && theta < 1.0, "zipf of {items} items with theta {theta}");
        let zeta2 = zeta(2, theta);
        let alpha = 1.0 / (1.0 - theta);
        let second = 1.0 + 0.5f64.powf(theta);
        let mut zipf = Zipf { items, counted: items, theta, alpha, zeta2, zetan, eta: 0.0, second };
        zipf.eta = zipf.eta();
        zipf
    }

    fn eta(&self) -> f64 {
        (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - self.zeta2 / self.zetan)
    }

    /// The next rank of all items.
    #[inline]
    pub fn next(&mut self, random: &mut SplitMix64) -> u64 {
        self.next_of(random, self.counted)
    }

    /// The next rank of `items`, which may have grown since the last call (a smaller number uses the sums of
    /// the larger one, as in YCSB: threads may see a growing count out of order).
    #[inline]
    pub fn next_of(&mut self, random: &mut SplitMix64, items: u64) -> u64 {
        if items > self.counted {
            self.grow(items);
        }
        let unit = unit(random);
        let weight = unit * self.zetan;
        if weight < 1.0 {
            return 0;
        }
        if weight < self.second {
            return 1;
        }
        (items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64
    }

    #[cold]
    fn grow(&mut self, items: u64) {
        if items - self.counted > ZETA_EXACT {
            self.zetan = zeta(items, self.theta);
        } else {
            self.zetan += (self.counted + 1..=items).map(|i| (i as f64).powf(-self.theta)).sum::<f64>();
        }
        self.counted = items;
        self.eta = self.eta();
    }

    /// Probability of the most popular rank.
    pub fn top_share(&self) -> f64 {
        1.0 / self.zetan
    }
}
