//! Byte strings in their order.

/// How many bytes both begin with.
#[inline]
pub fn common(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return shared + differ.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_up_to_the_first_byte_that_differs_or_is_missing() {
        let long: Vec<u8> = (0..40).collect();
        for len in 0..=long.len() {
            assert_eq!(common(&long[..len], &long), len);
            assert_eq!(common(&long, &long[..len]), len);
            for at in 0..len {
                let mut other = long[..len].to_vec();
                other[at] ^= 0x80;
                assert_eq!(common(&other, &long), at);
                assert_eq!(common(&long, &other), at);
            }
        }
    }
}
