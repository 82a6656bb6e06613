//! Figures as people read them.

/// A rate with three or four significant digits.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{:.2} M", r / 1e6),
        r if r >= 1e4 => format!("{:.1} k", r / 1e3),
        r => format!("{r:.0}"),
    }
}

/// Nanoseconds in the unit that suits them.
pub fn time(nanos: f64) -> String {
    match nanos {
        n if n < 1e4 => format!("{:.2} us", n / 1e3),
        n if n < 1e5 => format!("{:.1} us", n / 1e3),
        n if n < 1e6 => format!("{:.0} us", n / 1e3),
        n if n < 1e9 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// Bytes in the unit that suits them.
pub fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{:.2} GiB", b as f64 / (1u64 << 30) as f64),
        b if b >= 1 << 20 => format!("{:.1} MiB", b as f64 / (1u64 << 20) as f64),
        b if b >= 1 << 10 => format!("{:.1} KiB", b as f64 / 1024.0),
        b => format!("{b} B"),
    }
}
