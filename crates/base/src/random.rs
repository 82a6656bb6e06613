//! Random numbers that a seed decides: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
//! generators, OOPSLA 2014, figure 17). Recorded seeds and stored values rest on it, so it never changes.

/// What the state grows by from one number to the next.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// What makes a number of the state: a bijection of 64-bit words.
#[inline]
pub const fn mix64(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// A stream of numbers that its seed decides.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix64(self.0)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        (u128::from(self.draw()) * u128::from(end)).wrapping_shr(64) as u64
    }

    /// The same by the remainder, for those whose recorded sequences are made so.
    pub fn modulo(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// Yes, once in so many times on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

#[test]
fn a_seed_decides_and_numbers_are_spread() {
    assert_eq!(
        SplitMix64::new(1234567).draw(),
        6457827717110365317,
        "the published first number of that seed"
    );
    let mut chance = SplitMix64::new(7);
    let mut counts = [0u32; 10];
    (0..10_000).for_each(|_| counts[chance.below(10) as usize] += 1);
    assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
    let yes = (0..10_000).filter(|_| chance.once_in(100)).count();
    assert!((60..150).contains(&yes), "{yes}");
}
