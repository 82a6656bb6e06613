//! Time as a value: protocol code takes it as an argument and never reads a clock.

use core::ops::{Add, Sub};

/// Nanoseconds on one machine's monotonic clock. Values of two machines are never compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }
    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }
    /// The difference, zero where `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, more: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(more.0))
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, less: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(less.0))
    }
}

/// Milliseconds since the Unix epoch on the server's clock: the unit of an item's expiry. Zero means never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The expiry of an item that never expires.
    pub const NEVER: UnixMillis = UnixMillis(0);

    /// Whether an item with this expiry is gone at `now`.
    pub const fn expired(self, now: UnixMillis) -> bool {
        self.0 != 0 && self.0 <= now.0
    }
}
