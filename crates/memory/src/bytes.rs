//! Comparisons of few bytes: the fingerprints of a pair, and short keys.

/// Bit `8 * i + j` says whether byte `j` (from the low end) of `words[i]` is `byte`.
#[inline(always)]
pub fn bytes_equal(words: &[u64; 4], byte: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
        let [a, b, c, d] = words.map(|word| word as i64);
        // SAFETY: SSE2 is part of every x86_64, and these instructions touch registers only.
        unsafe {
            let wanted = _mm_set1_epi8(byte as i8);
            let low = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_set_epi64x(b, a), wanted));
            let high = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_set_epi64x(d, c), wanted));
            (high as u32) << 16 | low as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    by_words(words, byte)
}

/// The same by arithmetic on words.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn by_words(words: &[u64; 4], byte: u8) -> u32 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const SEVEN: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let mut bits = 0;
    for (i, word) in words.iter().enumerate() {
        // Exact zero-byte test (no borrow between bytes), then one bit a byte gathered by a multiplication.
        let x = word ^ (LOW * byte as u64);
        let zero = !(((x & SEVEN) + SEVEN) | x | SEVEN);
        let gathered = (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= (gathered as u32) << (8 * i);
    }
    bits
}

/// Whether two strings are equal. For short ones: it compares word by word in place, where a call of `memcmp`
/// costs more than that.
#[inline(always)]
pub fn short_equal(one: &[u8], other: &[u8]) -> bool {
    let ((words, rest), (others, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    one.len() == other.len()
        && words.iter().zip(others).all(|(a, b)| u64::from_le_bytes(*a) == u64::from_le_bytes(*b))
        && rest.iter().zip(other_rest).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_strings_are_equal_if_every_byte_is() {
        let text: Vec<u8> = (0..48).collect();
        for len in 0..=text.len() {
            assert!(short_equal(&text[..len], &text.clone()[..len]), "{len} bytes");
            for at in 0..len {
                let mut other = text[..len].to_vec();
                assert!(!short_equal(&text[..len], &text[..at]), "{len} bytes and {at}");
                other[at] ^= 0x80;
                assert!(!short_equal(&text[..len], &other), "{len} bytes, of which number {at} differs");
            }
        }
    }

    #[test]
    fn both_ways_find_the_same_bytes() {
        let mut state = 1u64;
        for _ in 0..10_000 {
            let words = [0; 4].map(|_: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Few different bytes, so that several match and neighbours differ by one.
                (state >> 3) & 0x8303_0183_8102_0380
            });
            for byte in [0, 1, 2, 3, 0x80, 0x81, 0x82, 0x83, 0xFF] {
                let one_by_one = words
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .enumerate()
                    .map(|(i, b)| u32::from(b == byte) << i)
                    .sum::<u32>();
                assert_eq!(bytes_equal(&words, byte), one_by_one, "{words:x?} {byte}");
                assert_eq!(by_words(&words, byte), one_by_one, "{words:x?} {byte}");
            }
        }
    }
}
