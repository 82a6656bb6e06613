//! SCAN: keys in order, a page at a time, by request to a replica that keeps an ordered index.
//!
//! A page is one operation of its group: linearizable with GETs, writes and other pages. A longer scan is a
//! row of pages, each at a later instant than the one before. `ask.rs` says when a page counts; `range.rs`,
//! `page.rs`, `token.rs` and `merge.rs` are values without I/O.

mod ask;
mod inspect;
mod items;
mod iter;
mod link;
mod made;
mod merge;
mod nodes;
mod page;
mod range;
mod replicas;
mod snapshot;
mod stats;
mod together;
mod token;
mod walk;

use longarm_fabric::Transport;

use crate::client::Client;
use crate::error::Error;

pub use inspect::{OrderedInspection, OrderedReport, inspect_ordered};
pub use items::{ScanItem, ScanItemRef};
pub(crate) use iter::Pages;
pub use iter::{ScanIter, SnapshotIter};
pub(crate) use link::Scans;
pub(crate) use merge::{Merge, MergeStep, share};
pub(crate) use page::Came;
pub use page::Page;
pub(crate) use range::Rest;
pub use range::Scan;
pub use stats::ordered_stats;
pub(crate) use together::together;
pub use token::Token;

impl<T: Transport> Client<T> {
    /// The items of a scan, in order. Pages are fetched while items are consumed; an iterator that is dropped
    /// early leaves at most one page unread.
    pub fn scan(&mut self, scan: &Scan) -> ScanIter<'_, T> {
        let rest = Rest::of(scan, None).expect("there is no token");
        ScanIter::new(self, rest)
    }

    /// One page of a scan: from its beginning, or from where the page before it ended. The page may have
    /// fewer items than the scan's `page` and `limit` allow; it is the last one if it has no token.
    pub fn scan_page(&mut self, scan: &Scan, token: Option<&Token>) -> Result<Page, Error> {
        let rest = Rest::of(scan, token)?;
        let came = if rest.is_empty() { Came::nothing() } else { self.next_page(&rest, None)? };
        Ok(came.into_page(scan.is_reverse()))
    }

    /// The item with the least key.
    pub fn first(&mut self) -> Result<Option<ScanItem>, Error> {
        self.one(&Scan::first())
    }

    /// The item with the greatest key.
    pub fn last(&mut self) -> Result<Option<ScanItem>, Error> {
        self.one(&Scan::last())
    }

    /// The item with the greatest key that is not above this one.
    pub fn floor(&mut self, key: &[u8]) -> Result<Option<ScanItem>, Error> {
        self.one(&Scan::floor(key))
    }

    /// The item with the least key that is not below this one.
    pub fn ceiling(&mut self, key: &[u8]) -> Result<Option<ScanItem>, Error> {
        self.one(&Scan::ceiling(key))
    }

    fn one(&mut self, scan: &Scan) -> Result<Option<ScanItem>, Error> {
        Ok(self.scan_page(scan, None)?.items.pop())
    }

    /// The number of keys of a scan, at most its limit. Up to 65,536 keys are counted at one instant; a
    /// larger range is a row of counts. A key whose time to live was just over may be counted, for as long as
    /// a heartbeat is old.
    pub fn count(&mut self, scan: &Scan) -> Result<u64, Error> {
        let mut rest = Some(Rest::count(scan));
        let mut keys = 0;
        while let Some(mut range) = rest.take().filter(|rest| !rest.is_empty()) {
            let counted = self.next_count(&range)?;
            keys += counted.keys;
            if let Some(last) = counted.last {
                range.shown(counted.keys, &last);
                rest = Some(range);
            }
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests;
