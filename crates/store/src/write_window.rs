//! How much is written, measured over windows of time: what leaves cores and memory to the writers asks here.

use longarm_base::Nanos;

/// The number of entries a second, moved ones included, up to which little is written.
const LITTLE: u64 = 32_000;
/// The shortest window: entries, moved ones and floors arrive in bursts.
const WINDOW: Nanos = Nanos::from_millis(100);

/// What was known when the window began.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteWindow {
    begun: Nanos,
    /// How many entries there had been.
    written: u64,
}

/// A window that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedWindow {
    /// How long it was.
    pub passed: Nanos,
    /// Whether little was written in it.
    pub little: bool,
}

impl WriteWindow {
    /// Begins one. `written` counts the entries so far.
    pub fn begin(now: Nanos, written: u64) -> WriteWindow {
        WriteWindow { begun: now, written }
    }

    /// Ends the window and begins the next one, if it was long enough.
    pub fn end(&mut self, now: Nanos, written: u64) -> Option<EndedWindow> {
        let passed = now.since(self.begun);
        if passed < WINDOW {
            return None;
        }
        // In a new term entries are counted anew.
        let news = u128::from(written.saturating_sub(self.written));
        let little = news * 1_000_000_000 <= u128::from(LITTLE) * u128::from(passed.0);
        *self = WriteWindow::begin(now, written);
        Some(EndedWindow { passed, little })
    }
}
