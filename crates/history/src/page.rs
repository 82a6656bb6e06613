//! A page of a scan: what one request showed of a range of keys.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use longarm_base::{Csn, Nanos};

use crate::Value;

/// The order in which a scan shows keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the low bound up.
    Ascending,
    /// From the high bound down.
    Descending,
}

/// One key of a page, with what was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// The key, by number.
    pub key: u32,
    /// What was there; `None` where the client asked for keys only.
    pub value: Option<Value>,
    /// The version of that, where the store says it.
    pub version: Option<Csn>,
}

/// A page that a client was answered, on the clock of its history. A request without an answer showed
/// nothing, and is no page. Numbers of keys are in the order in which the store sorts the keys' names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The client that asked.
    pub client: u32,
    /// Which of that client's iterators asked for it.
    pub scan: u32,
    /// The low bound of the request.
    pub low: Bound<u32>,
    /// The high bound of the request.
    pub high: Bound<u32>,
    /// The order that was asked for.
    pub direction: Direction,
    /// The most items that were asked for.
    pub limit: usize,
    /// Whether the answer said that it is cut, and that more may follow.
    pub more: bool,
    /// What was shown, in the order of the answer.
    pub items: Vec<Item>,
    /// Before it was asked.
    pub call: Nanos,
    /// After it was answered.
    pub end: Nanos,
}

impl Page {
    /// The keys that the request asked for.
    pub fn asked(&self) -> Range<u64> {
        let low = match self.low {
            Bound::Included(key) => u64::from(key),
            Bound::Excluded(key) => u64::from(key) + 1,
            Bound::Unbounded => 0,
        };
        let high = match self.high {
            Bound::Included(key) => u64::from(key) + 1,
            Bound::Excluded(key) => u64::from(key),
            Bound::Unbounded => u64::from(u32::MAX) + 1,
        };
        low..high
    }

    /// The keys of which the page says what is there: all that were asked for, or those up to the last that
    /// is shown, where the answer was cut. Such a key that is not shown was absent.
    pub fn covered(&self) -> Range<u64> {
        let Range { start, end } = self.asked();
        match (self.more, self.items.last(), self.direction) {
            (false, ..) => start..end,
            (true, None, _) => start..start,
            (true, Some(last), Direction::Ascending) => start..u64::from(last.key) + 1,
            (true, Some(last), Direction::Descending) => u64::from(last.key)..end,
        }
    }

    /// Those of the entries whose keys the page covers, in the order of keys.
    pub(crate) fn among<'a, T>(&self, of: &'a BTreeMap<u32, T>) -> impl Iterator<Item = (u32, &'a T)> {
        let Range { start, end } = self.covered();
        let from = u32::try_from(start).map_or(Bound::Excluded(u32::MAX), Bound::Included);
        let rest = of.range((from, Bound::Unbounded)).map(|(&key, entry)| (key, entry));
        rest.take_while(move |&(key, _)| u64::from(key) < end)
    }

    /// Whether a page may look so, whatever is in the store.
    pub fn shape(&self) -> Result<(), &'static str> {
        let asked = self.asked();
        if self.items.iter().any(|item| !asked.contains(&u64::from(item.key))) {
            return Err("a page shows a key out of its bounds");
        }
        for pair in self.items.windows(2) {
            if pair[0].key == pair[1].key {
                return Err("a page shows a key twice");
            }
            if !self.is_after(pair[0].key, pair[1].key) {
                return Err("a page is not in the order that was asked for");
            }
        }
        if self.items.len() > self.limit {
            return Err("a page shows more than was asked for");
        }
        if self.more && self.items.is_empty() {
            return Err("a page shows nothing, and says that there is more");
        }
        Ok(())
    }

    /// Whether a scan shows `next` later than `key`.
    pub(crate) fn is_after(&self, key: u32, next: u32) -> bool {
        match self.direction {
            Direction::Ascending => key < next,
            Direction::Descending => next < key,
        }
    }
}

impl std::fmt::Display for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Page { client, scan, low, high, direction, limit, more, items, call, end } = self;
        write!(f, "client {client}, scan {scan}: page of ")?;
        match low {
            Bound::Included(key) => write!(f, "[{key}, ")?,
            Bound::Excluded(key) => write!(f, "({key}, ")?,
            Bound::Unbounded => f.write_str("(-, ")?,
        }
        match high {
            Bound::Included(key) => write!(f, "{key}]")?,
            Bound::Excluded(key) => write!(f, "{key})")?,
            Bound::Unbounded => f.write_str("-)")?,
        }
        write!(f, ", {direction:?}, at most {limit} -> ")?;
        for Item { key, value, version } in items {
            write!(f, "key {key}")?;
            value.map_or(Ok(()), |value| write!(f, " {value:?}"))?;
            version.map_or(Ok(()), |version| write!(f, " version {}", version.0))?;
            f.write_str(", ")?;
        }
        write!(f, "{}, {} ns to {} ns", if *more { "and more" } else { "no more" }, call.0, end.0)
    }
}
