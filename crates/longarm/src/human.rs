//! Numbers as people read them: `1,234,567`, `12.3 MiB`, `4.2 s`.

use std::time::Duration;

/// Digits in groups of three.
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

/// About three digits and a binary unit.
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

/// Seconds with as many digits as say something.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        0.0..1.0 => format!("{:.0} ms", seconds * 1e3),
        1.0..100.0 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

/// So many a second, as a count.
pub fn rate(number: u64, time: Duration) -> String {
    format!("{}/s", count((number as f64 / time.as_secs_f64().max(1e-9)) as u64))
}

/// So many bytes a second.
pub fn byte_rate(number: u64, time: Duration) -> String {
    format!("{}/s", bytes((number as f64 / time.as_secs_f64().max(1e-9)) as u64))
}

/// A key for a message: text as it is, other bytes escaped, cut where it is long.
pub fn key(key: &[u8]) -> String {
    const SHOWN: usize = 120;
    let text = String::from_utf8_lossy(&key[..key.len().min(SHOWN)]).escape_debug().to_string();
    if key.len() > SHOWN { format!("\"{text}...\" ({} bytes)", key.len()) } else { format!("\"{text}\"") }
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
}
