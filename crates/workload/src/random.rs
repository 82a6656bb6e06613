//! Streams of random numbers, as many as are wanted of one seed.

use longarm_base::random::{SplitMix64, mix64};

/// The numbers of `stream` under `seed`; different streams of one seed are independent.
#[inline]
pub fn stream(seed: u64, stream: u64) -> SplitMix64 {
    SplitMix64::new(mix64(seed) ^ mix64(stream.wrapping_add(0x5851_F42D_4C95_7F2D)))
}

/// Uniform in [0, 1) with 53 random bits.
#[inline]
pub fn unit(random: &mut SplitMix64) -> f64 {
    (random.draw() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_stream_name_one_sequence() {
        let draw = |seed, number| {
            let mut random = stream(seed, number);
            [random.draw(), random.draw(), random.draw()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn uniform_draws_fill_their_range_evenly() {
        let mut random = stream(7, 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
            let unit = unit(&mut random);
            assert!((0.0..1.0).contains(&unit));
        }
        // Five standard deviations of a binomial with p = 0.1 are 474.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 480), "{counts:?}");
    }
}
