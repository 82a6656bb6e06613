//! The progress bar on stderr, where stderr is a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::human;
use crate::items::item::Total;

/// A bar, or nothing.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// Shows a bar if it is `wanted` and stderr is a terminal.
    pub fn new(what: &'static str, total: Total, wanted: bool) -> Bar {
        if !wanted || !std::io::stderr().is_terminal() {
            return Bar(None);
        }
        let bar = ProgressBar::with_draw_target(total.bytes.or(total.records), ProgressDrawTarget::stderr());
        let template = if total.bytes.is_some() {
            "{prefix} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec} eta {eta} {msg}"
        } else {
            "{prefix} {spinner} {msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar(Some(bar))
    }

    /// Shows how much is done.
    pub fn at(&self, items: u64, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bytes);
            bar.set_message(format!("{} items", human::count(items)));
        }
    }

    /// Prints a line above the bar, or just a line.
    pub fn remark(&self, say: impl FnOnce()) {
        match &self.0 {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
