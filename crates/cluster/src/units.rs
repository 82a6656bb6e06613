//! Sizes and durations as people write them: `1GiB`, `10ms`. What is shown parses back to the same value.

use std::time::Duration;

const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

const DURATIONS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const SIZE_FORM: &str =
    "expected a whole number with B, KiB, MiB, GiB, TiB (or KB, MB, GB, TB), such as 64MiB";
const DURATION_FORM: &str = "expected a whole number with ns, us, ms, s, min, h or d, such as 10ms";

/// Bytes of `text`; a bare number means bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text).ok_or_else(|| format!("{text:?} is not a size; {SIZE_FORM}"))?;
    if unit.is_empty() {
        return Ok(number);
    }
    scale(text, number, unit, &SIZES, SIZE_FORM)
}

/// The shortest exact form of `bytes` in binary units.
pub fn show_size(bytes: u64) -> String {
    let binary = SIZES.iter().filter(|(name, _)| name.ends_with("iB"));
    for (name, scale) in binary {
        if bytes != 0 && bytes.is_multiple_of(*scale) {
            return format!("{}{name}", bytes / scale);
        }
    }
    format!("{bytes}B")
}

/// The duration `text` means. A bare number has no unit and is refused, zero excepted.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text).ok_or_else(|| format!("{text:?} is not a duration; {DURATION_FORM}"))?;
    if number == 0 && unit.is_empty() {
        return Ok(Duration::ZERO);
    }
    scale(text, number, unit, &DURATIONS, DURATION_FORM).map(Duration::from_nanos)
}

/// The shortest exact form of `duration`, up to 584 years.
pub fn show_duration(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    for (name, scale) in DURATIONS {
        if nanos != 0 && nanos.is_multiple_of(scale) {
            return format!("{}{name}", nanos / scale);
        }
    }
    "0s".to_string()
}

/// A number and what follows it; underscores may group the digits.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let digits = text[..end].replace('_', "");
    Some((digits.parse().ok()?, text[end..].trim_start()))
}

fn scale(text: &str, number: u64, unit: &str, units: &[(&str, u64)], form: &str) -> Result<u64, String> {
    let (_, scale) = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .ok_or_else(|| format!("{text:?} has no known unit; {form}"))?;
    number.checked_mul(*scale).ok_or_else(|| format!("{text:?} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4 KiB", 4096),
            ("1gib", 1 << 30),
            ("1GB", 1_000_000_000),
            ("1_024B", 1024),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn bad_sizes_name_the_text_and_the_form() {
        for text in ["", "GiB", "-1", "1.5GiB", "1XiB", "20000000TiB", "99999999999999999999"] {
            let error = parse_size(text).expect_err(text);
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert!(parse_duration("10").expect_err("no unit").contains("such as 10ms"));
        assert!(parse_duration("1m").is_err(), "neither minutes nor milliseconds are guessed");
    }

    proptest! {
        #[test]
        fn a_shown_size_parses_back(bytes in any::<u64>(), shift in 0u32..40) {
            for bytes in [bytes, (bytes >> 40) << shift] {
                prop_assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
            }
        }

        #[test]
        fn a_shown_duration_parses_back(nanos in any::<u64>(), unit in 0usize..7) {
            for nanos in [nanos, (nanos % 10_000) * DURATIONS[unit].1] {
                let duration = Duration::from_nanos(nanos);
                prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
            }
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (parse_size(&text), parse_duration(&text));
        }
    }
}
