//! Numbers as people read them: `1,234,567`, `12.3 MiB`, `4.2 s`.

use std::time::Duration;

use longarm_base::UnixMillis;
use serde_json::Value;

/// Formats a count, with its digits in groups of three.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of bytes, with about three digits and a binary unit.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let (mut value, mut unit) = (number as f64, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a time as seconds, with as many digits as say something.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        0.0..1.0 => format!("{:.0} ms", seconds * 1e3),
        1.0..100.0 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

/// Formats a rate as a count a second.
pub fn rate(number: u64, time: Duration) -> String {
    format!("{}/s", count((number as f64 / time.as_secs_f64().max(1e-9)) as u64))
}

/// Formats a rate as bytes a second.
pub fn byte_rate(number: u64, time: Duration) -> String {
    format!("{}/s", bytes((number as f64 / time.as_secs_f64().max(1e-9)) as u64))
}

/// Formats a key for a message: text as it is, other bytes escaped, cut if it is long.
pub fn key(key: &[u8]) -> String {
    const SHOWN: usize = 120;
    let text = String::from_utf8_lossy(&key[..key.len().min(SHOWN)]).escape_debug().to_string();
    if key.len() > SHOWN { format!("\"{text}...\" ({} bytes)", key.len()) } else { format!("\"{text}\"") }
}

/// Formats a moment of UTC as RFC 3339 has it, with milliseconds: `2026-01-31T12:00:00.000Z`.
pub fn moment(at: UnixMillis) -> String {
    let (days, ms) = (at.0 / 86_400_000, at.0 % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// Computes year, month and day from the days since the first of January 1970. Years are taken to begin with
/// March: then the leap day is the last of its year, and one rule gives the lengths of all months.
fn date(days: u64) -> (u64, u64, u64) {
    // Counts the days from the first of March of the year 0 on.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Formats a flat object as words.
pub fn words(value: &Value) -> String {
    let Value::Object(members) = value else { return value.to_string() };
    let word = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    };
    members.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(1 << 40), "1.0 TiB");
        assert_eq!(time(Duration::from_millis(12)), "12 ms");
        assert_eq!(rate(10, Duration::from_secs(2)), "5/s");
        assert_eq!(key(b"a\nb"), "\"a\\nb\"");
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(moment(UnixMillis(ms)), text);
        }
    }
}
