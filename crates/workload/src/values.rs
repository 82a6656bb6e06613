//! Values that name the write that they are of: a reader that knows the key can judge every byte.
//!
//! A value is `[write][filler]`; the filler is a stream of words drawn from the key and the write. So a torn,
//! mixed up or stale byte differs from what the value's own head says. A value of eight bytes is its head
//! alone, and only a history can tell whether it is that of the key.

use crate::random::stream;

/// The bytes of a word, and of the head.
const WORD: usize = 8;

/// The words of a value, without end.
fn words(key: u64, write: u64) -> impl Iterator<Item = [u8; WORD]> {
    let mut filler = stream(key, write);
    std::iter::once(write).chain(std::iter::repeat_with(move || filler.draw())).map(u64::to_le_bytes)
}

/// The value of `len` bytes that a write puts under a key. It is not shorter than its head.
pub fn make(key: u64, write: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(len.next_multiple_of(WORD));
    words(key, write).take(len.div_ceil(WORD)).for_each(|word| value.extend_from_slice(&word));
    value.truncate(len);
    value
}

/// Judges what a reader found under a key: gives the write that the value names, or says how the value is
/// wrong. `len_of` is the length of a write's value.
pub fn judge(key: u64, found: &[u8], len_of: impl Fn(u64) -> usize) -> Result<u64, String> {
    let (parts, end) = found.as_chunks();
    let Some(head) = parts.first() else {
        return Err(format!("has {} bytes, fewer than its head", found.len()));
    };
    let write = u64::from_le_bytes(*head);
    // Wrong bytes may claim any length, so they are compared as far as they go.
    let (len, mut expected) = (len_of(write), words(key, write));
    let same = parts.iter().zip(&mut expected).take_while(|(part, word)| *part == word).count();
    let ends = same == parts.len() && expected.next().is_some_and(|word| word.starts_with(end));
    if ends && found.len() == len {
        return Ok(write);
    }
    let (bytes, right) = (found.len(), WORD * same);
    Err(format!("(write {write:#x}) has {bytes} bytes, is right up to byte {right}, and should have {len}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: usize = 32;

    #[test]
    fn every_byte_counts() {
        let value = make(7, 3, SMALL);
        assert_eq!(judge(7, &value, |_| SMALL), Ok(3));
        for at in 0..SMALL {
            let mut wrong = value.clone();
            wrong[at] ^= 1;
            assert!(judge(7, &wrong, |_| SMALL).is_err(), "byte {at}");
        }
        assert!(judge(8, &value, |_| SMALL).is_err(), "another item's value");
        assert!(judge(7, &value[..31], |_| SMALL).is_err(), "cut");
        assert!(judge(7, &[], |_| SMALL).is_err(), "empty");
    }

    #[test]
    fn values_of_any_length_are_themselves() {
        for len in WORD..64 {
            let value = make(7, 3, len);
            assert_eq!(judge(7, &value, |_| len), Ok(3), "{len}");
            assert!(judge(7, &make(7, 3, len + 1), |_| len).is_err(), "{len} and one more");
            assert_eq!(judge(8, &value, |_| len).is_ok(), len == WORD, "another item's value of {len}");
        }
        let wrong = judge(7, &make(7, 3, 16), |_| 99).expect_err("too short");
        assert_eq!(wrong, "(write 0x3) has 16 bytes, is right up to byte 16, and should have 99");
    }
}
