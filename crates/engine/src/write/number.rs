//! Numbers as values: the canonical decimal text of an i64.

/// Longest decimal i64, its sign included.
pub const DIGITS_MAX: usize = 20;

/// The canonical decimal number in `text`: what [`decimal`] writes, and nothing else.
pub fn parse(text: &[u8]) -> Option<i64> {
    // Told from the first byte: a restart asks of each value that it finds.
    let begins = matches!(text, [b'-' | b'1'..=b'9', ..] | b"0");
    if !begins || text.len() > DIGITS_MAX {
        return None;
    }
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let mut again = [0; DIGITS_MAX];
    (decimal(number, &mut again) == text).then_some(number)
}

/// Writes a number into the end of `text`.
pub fn decimal(number: i64, text: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut left = number.unsigned_abs();
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        text[at] = b'-';
    }
    &text[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_canonical_decimals() {
        for number in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN] {
            let mut text = [0; DIGITS_MAX];
            assert_eq!(decimal(number, &mut text), number.to_string().as_bytes());
            assert_eq!(parse(number.to_string().as_bytes()), Some(number));
        }
        for text in
            ["", "+1", "01", "-0", "1 ", " 1", "9223372036854775808", "1.0", "x", "--1", "\u{ff}", "-", "00"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
