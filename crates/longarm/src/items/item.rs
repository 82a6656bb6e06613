//! Items on their way into a store: one record after another, each with the place that a message names.
//!
//! A record that cannot be an item (malformed, too long, unreadable) is [`Next::Skipped`] with the reason,
//! and the source goes on. A [`Failure`] ends the source. Records are numbered from 0, in an order that stays
//! the same as long as the source does not change. A resumed load counts by these numbers.

use std::time::Duration;

use longarm_base::limits::{KEY_MAX, VALUE_MAX};

use crate::config::units::show_size;
use crate::output::Failure;

/// An item that is to be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its key, prefix included.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its own time to live, if it has one.
    pub ttl: Option<Duration>,
    /// Where it came from: `line 7`, or a path.
    pub place: String,
    /// The bytes of the source that it took.
    pub bytes: u64,
}

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// An item that can be stored.
    Item(Item),
    /// A record that cannot be an item: its place, and the reason.
    Skipped(String),
}

/// The size of a source, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Total {
    /// The number of records.
    pub records: Option<u64>,
    /// The number of bytes.
    pub bytes: Option<u64>,
}

/// A sequence of records.
pub trait Source {
    /// The next record, or `None` at the end.
    fn next(&mut self) -> Result<Option<Next>, Failure>;

    /// Passes over one record as cheaply as possible; `false` at the end.
    fn skip(&mut self) -> Result<bool, Failure> {
        Ok(self.next()?.is_some())
    }

    /// The size of the source.
    fn total(&self) -> Total;

    /// A number that changes when the source does; `None` if changes cannot be known.
    fn fingerprint(&self) -> Option<u64>;
}

/// Gives the item back if the server would take it, or says why it would not.
pub fn within_limits(item: Item) -> Result<Item, String> {
    if item.key.is_empty() {
        return Err("the key is empty".into());
    }
    if item.key.len() > KEY_MAX {
        return Err(format!("the key has {} bytes, at most {KEY_MAX} are possible", item.key.len()));
    }
    if item.value.len() > VALUE_MAX {
        return Err(too_long(item.value.len() as u64));
    }
    Ok(item)
}

/// Says that a value is too long.
pub fn too_long(bytes: u64) -> String {
    format!("the value has {bytes} bytes, at most {} are possible", show_size(VALUE_MAX as u64))
}
