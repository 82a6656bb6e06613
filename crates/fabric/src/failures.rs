//! Handshakes that failed, kept until a listener is asked for them.

use longarm_host::Mutex;

/// Lines that are kept; later ones are forgotten.
const FAILURES_MAX: usize = 100;

/// One line each.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Vec<String>>);

impl Failures {
    /// One more, if there is room.
    pub fn add(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() < FAILURES_MAX {
            lines.push(line);
        }
    }

    /// Those since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}
