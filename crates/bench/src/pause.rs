//! The one place of this crate that sleeps.

use std::time::Duration;

/// Sleeps.
#[allow(clippy::disallowed_methods, reason = "a load generator paces itself")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
