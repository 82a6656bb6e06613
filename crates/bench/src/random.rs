//! Random numbers that are the same on every machine for the same seed: SplitMix64 to spread a seed,
//! xoshiro256++ (Blackman and Vigna) to draw.

use longarm_base::random::{SplitMix64, mix64};

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of `seed` and `stream`; different streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut spread = SplitMix64::new(mix64(seed) ^ mix64(stream.wrapping_add(0x5851_F42D_4C95_7F2D)));
        Random { state: std::array::from_fn(|_| spread.draw()) }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Uniform below `n` (multiply-shift; the bias is below 2^-40 for every `n` used here).
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// Uniform in [0, 1) with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_stream_name_one_sequence() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn xoshiro_follows_its_published_recurrence() {
        // First outputs of the reference implementation for the state {1, 2, 3, 4}.
        let mut random = Random { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(first, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn uniform_draws_fill_their_range_evenly() {
        let mut random = Random::new(7, 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
        }
        // Five standard deviations of a binomial with p = 0.1 are 474.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 480), "{counts:?}");
    }
}
