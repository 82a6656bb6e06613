//! The seed's numbers. They are part of every recorded seed, so the generator is ours and never changes:
//! SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014, figure 17).

/// A stream of numbers that its seed decides.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        (u128::from(self.draw()) * u128::from(end)).wrapping_shr(64) as u64
    }

    /// Yes, once in so many times on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

#[test]
fn a_seed_decides_and_numbers_are_spread() {
    assert_eq!(Chance::new(1234567).draw(), 6457827717110365317, "the published first number of that seed");
    let mut chance = Chance::new(7);
    let mut counts = [0u32; 10];
    (0..10_000).for_each(|_| counts[chance.below(10) as usize] += 1);
    assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
    let yes = (0..10_000).filter(|_| chance.once_in(100)).count();
    assert!((60..150).contains(&yes), "{yes}");
}
