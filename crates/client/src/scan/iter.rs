//! A scan as an iterator: the next page is asked for before the one that came is consumed.

use longarm_fabric::Transport;

use super::ask::Ahead;
use super::items::{Items, ScanItem, ScanItemRef};
use super::made::Pinned;
use super::page::Came;
use super::range::Rest;
use crate::client::Client;
use crate::error::Error;

/// The pages of one group, one after the other.
pub(crate) struct Pages {
    /// `None` at the end.
    rest: Option<Rest>,
    /// What was done for the next page.
    prepared: Option<Ahead>,
    /// Whether to ask for a page before it is needed.
    ahead: bool,
    /// The snapshot that they are of, if they are of one.
    pinned: Option<Pinned>,
}

impl Pages {
    pub(crate) fn new(rest: Rest, ahead: bool) -> Pages {
        let pinned = rest.snapshot().cloned();
        Pages { rest: Some(rest).filter(|rest| !rest.is_empty()), prepared: None, ahead, pinned }
    }

    /// Ends the snapshot, if they are of one.
    pub(crate) fn close<T: Transport>(&mut self, client: &mut Client<T>) {
        if let Some(pinned) = self.pinned.take() {
            client.unpin(&pinned);
        }
    }

    /// Whether there may be more.
    pub(crate) fn has_more(&self) -> bool {
        self.rest.is_some()
    }

    /// Asks for the next page, if there is one. What keeps it from asking shows when the page is needed.
    pub(crate) fn ask<T: Transport>(&mut self, client: &mut Client<T>) {
        if let Some(rest) = &self.rest {
            self.prepared = Some(client.ask_soon(rest));
        }
    }

    /// The items of the next page; none at the end. After an error there are no more.
    pub(crate) fn next<T: Transport>(&mut self, client: &mut Client<T>) -> Result<Items, Error> {
        let Some(rest) = self.rest.take() else { return Ok(Items::default()) };
        let came: Came = client.next_page(&rest, self.prepared.take())?;
        self.rest = came.leave(rest);
        if let Some(rest) = self.rest.as_ref().filter(|_| self.ahead) {
            self.prepared = Some(client.ask_ahead(rest));
        }
        Ok(came.items)
    }
}

/// The items of a scan, in order; made by [`Client::scan`]. After an error it ends.
///
/// Each page is linearizable with all other operations of its group, at an instant after the page before it
/// came. So a page may be older than the moment at which its first item is shown: it was asked for while the
/// one before it was consumed.
pub struct ScanIter<'c, T: Transport> {
    client: &'c mut Client<T>,
    pages: Pages,
    page: Items,
    /// The items of the page that were shown.
    shown: usize,
}

impl<'c, T: Transport> ScanIter<'c, T> {
    pub(crate) fn new(client: &'c mut Client<T>, rest: Rest) -> ScanIter<'c, T> {
        ScanIter { client, pages: Pages::new(rest, true), page: Items::default(), shown: 0 }
    }

    /// The next item, which lies in its page: for large scans, which need not own what they look at.
    pub fn next_ref(&mut self) -> Option<Result<ScanItemRef<'_>, Error>> {
        while self.shown == self.page.len() {
            if !self.pages.has_more() {
                return None;
            }
            match self.pages.next(self.client) {
                Ok(items) => (self.page, self.shown) = (items, 0),
                Err(error) => return Some(Err(error)),
            }
        }
        self.shown += 1;
        self.page.get(self.shown - 1).map(Ok)
    }
}

impl<T: Transport> Iterator for ScanIter<'_, T> {
    type Item = Result<ScanItem, Error>;

    fn next(&mut self) -> Option<Result<ScanItem, Error>> {
        self.next_ref().map(|next| next.map(|item| item.to_item()))
    }
}

/// The items of a snapshot, in order; made by [`Client::scan_snapshot`]. All are of one instant. After an
/// error it ends. The replica is told when it is dropped.
pub struct SnapshotIter<'c, T: Transport>(ScanIter<'c, T>);

impl<'c, T: Transport> SnapshotIter<'c, T> {
    /// The items of a range that a replica keeps.
    pub(crate) fn new(client: &'c mut Client<T>, pinned: Rest) -> SnapshotIter<'c, T> {
        SnapshotIter(ScanIter::new(client, pinned))
    }

    /// The next item, which lies in its page.
    pub fn next_ref(&mut self) -> Option<Result<ScanItemRef<'_>, Error>> {
        self.0.next_ref()
    }
}

impl<T: Transport> Drop for SnapshotIter<'_, T> {
    fn drop(&mut self) {
        let ScanIter { client, pages, .. } = &mut self.0;
        pages.close(client);
    }
}

impl<T: Transport> Iterator for SnapshotIter<'_, T> {
    type Item = Result<ScanItem, Error>;

    fn next(&mut self) -> Option<Result<ScanItem, Error>> {
        self.0.next()
    }
}
