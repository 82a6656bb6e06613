//! Makes an item of a line of text, by rules that all lines of a file have in common.

use std::time::Duration;

use super::args::Args;
use crate::items::item::{Item, Next, within_limits};
use crate::items::record;

/// The parts of one line of text, before they are judged.
pub(super) struct Record {
    pub(super) key: Result<Vec<u8>, String>,
    pub(super) value: Result<Vec<u8>, String>,
    pub(super) ttl: Result<Option<Duration>, String>,
    pub(super) line: u64,
    pub(super) bytes: u64,
}

/// The rules that all lines of a file have in common.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) prefix: Vec<u8>,
    pub(super) base64: bool,
}

impl Rules {
    pub(super) fn of(args: &Args) -> Rules {
        Rules { prefix: args.prefix.clone().into_bytes(), base64: args.base64 }
    }

    /// Makes an item of a line, or says why it is none.
    pub(super) fn judge(&self, record: Record) -> Next {
        let place = format!("line {}", record.line);
        let item = || -> Result<Item, String> {
            let key = [&self.prefix[..], &record.key?].concat();
            let mut value = record.value?;
            if self.base64 {
                value = record::decode(&value).map_err(|e| format!("the value {e}"))?;
            }
            Ok(Item { key, value, ttl: record.ttl?, place: place.clone(), bytes: record.bytes })
        };
        match item().and_then(within_limits) {
            Ok(item) => Next::Item(item),
            Err(why) => Next::Skipped(format!("{place}: {why}")),
        }
    }
}

/// Parses a time to live in milliseconds.
pub(super) fn ttl(text: &str) -> Result<Option<Duration>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("ttl_ms is {text:?}, expected a whole number of milliseconds above 0")),
        Ok(ms) => Ok(Some(Duration::from_millis(ms))),
    }
}
