//! SCAN over groups: keys are placed by their hash, so each group has a part of every range.

use longarm_fabric::Transport;

use super::ClusterClient;
use crate::error::Error;
use crate::scan::{
    Came, Merge, MergeStep, Page, Pages, Rest, Scan, ScanItem, ScanItemRef, Token, share, together,
};

/// The items of a scan over all groups, in order; made by [`ClusterClient::scan`]. After an error it ends.
///
/// Each page of each group is linearizable with the other operations of that group. Pages of several groups
/// are of several instants.
pub struct ClusterScan<'c, T: Transport + Clone> {
    client: &'c mut ClusterClient<T>,
    parts: Vec<Pages>,
    merge: Merge,
    left: u64,
    begun: bool,
}

impl<T: Transport + Clone> ClusterClient<T> {
    /// The items of a scan over all groups, in order. All groups are asked for their first pages at once.
    pub fn scan(&mut self, scan: &Scan) -> ClusterScan<'_, T> {
        let rest = self.part_of(scan);
        let parts = vec![rest; self.clients.len()];
        self.merged(scan, parts)
    }

    /// The items of a scan over all groups, in order: those of each group as they were at one instant of that
    /// group, within this call. See [`Client::scan_snapshot`](crate::Client::scan_snapshot).
    pub fn scan_snapshot(&mut self, scan: &Scan) -> Result<ClusterSnapshot<'_, T>, Error> {
        let (rest, groups) = (self.part_of(scan), self.clients.len());
        let pin = |group| self.group(group)?.pin(rest.clone());
        let parts = (0..groups).map(pin).collect::<Result<_, Error>>()?;
        Ok(ClusterSnapshot(self.merged(scan, parts)))
    }

    /// What each group is asked for.
    fn part_of(&self, scan: &Scan) -> Rest {
        let rest = Rest::of(scan, None).expect("there is no token");
        match scan.most() {
            Some(limit) => {
                rest.paged(u32::try_from(share(limit, self.clients.len() as u64)).unwrap_or(u32::MAX))
            }
            None => rest,
        }
    }

    fn merged(&mut self, scan: &Scan, parts: Vec<Rest>) -> ClusterScan<'_, T> {
        // A scan with a limit asks a group again only if it must.
        let ahead = parts.len() == 1 || scan.most().is_none();
        let merge = Merge::new(parts.len(), scan.is_reverse());
        let parts = parts.into_iter().map(|rest| Pages::new(rest, ahead)).collect();
        let left = scan.most().unwrap_or(u64::MAX);
        ClusterScan { client: self, parts, merge, left, begun: false }
    }

    /// One page of a scan over all groups: see [`Client::scan_page`](crate::Client::scan_page). Each group's
    /// part of it is of one instant.
    pub fn scan_page(&mut self, scan: &Scan, token: Option<&Token>) -> Result<Page, Error> {
        if self.clients.len() == 1 {
            return self.group(0)?.scan_page(scan, token);
        }
        let rest = Rest::of(scan, token)?;
        if rest.is_empty() {
            return Ok(Came::nothing().into_page(scan.is_reverse()));
        }
        let most = rest.limit() as usize;
        let mut parts: Vec<Pages> = self.clients.iter().map(|_| Pages::new(rest.clone(), false)).collect();
        let mut merge = Merge::new(parts.len(), scan.is_reverse());
        self.ask_all(&mut parts)?;
        for (group, pages) in parts.iter_mut().enumerate() {
            let items = pages.next(self.group(group)?)?;
            merge.feed(group, items, pages.has_more());
        }
        let mut came = Came::nothing();
        // The page ends before an item of which only another page of a group could tell.
        came.more = loop {
            match merge.step() {
                MergeStep::Item(group) if came.items.len() < most => came.items.push(&merge.show(group)),
                MergeStep::Item(_) | MergeStep::Fetch(_) => break true,
                MergeStep::End => break false,
            }
        };
        Ok(came.into_page(scan.is_reverse()))
    }

    /// All items of a scan over all groups, as they were at one instant: see
    /// [`Client::scan_together`](crate::Client::scan_together).
    pub fn scan_together(&mut self, scan: &Scan) -> Result<Vec<ScanItem>, Error> {
        let groups = self.clients.len();
        together(self, groups, ClusterClient::group, scan)
    }

    /// The item with the least key of all groups.
    pub fn first(&mut self) -> Result<Option<ScanItem>, Error> {
        self.one(&Scan::first())
    }

    /// The item with the greatest key of all groups.
    pub fn last(&mut self) -> Result<Option<ScanItem>, Error> {
        self.one(&Scan::last())
    }

    /// The item with the greatest key that is not above this one. Of several groups each is asked at a moment
    /// of its own.
    pub fn floor(&mut self, key: &[u8]) -> Result<Option<ScanItem>, Error> {
        self.one(&Scan::floor(key))
    }

    /// The item with the least key that is not below this one; see [`floor`](Self::floor).
    pub fn ceiling(&mut self, key: &[u8]) -> Result<Option<ScanItem>, Error> {
        self.one(&Scan::ceiling(key))
    }

    fn one(&mut self, scan: &Scan) -> Result<Option<ScanItem>, Error> {
        Ok(self.scan_page(scan, None)?.items.pop())
    }

    /// The number of keys of a scan in all groups, at most its limit. Each group's part is counted as
    /// [`Client::count`](crate::Client::count) does.
    pub fn count(&mut self, scan: &Scan) -> Result<u64, Error> {
        let mut keys = 0;
        for group in 0..self.clients.len() {
            keys += self.group(group)?.count(scan)?;
        }
        Ok(keys.min(scan.most().unwrap_or(u64::MAX)))
    }

    /// Asks every group for its next page, before any answer is waited for.
    fn ask_all(&mut self, parts: &mut [Pages]) -> Result<(), Error> {
        for (group, pages) in parts.iter_mut().enumerate().filter(|(_, pages)| pages.has_more()) {
            pages.ask(self.group(group)?);
        }
        Ok(())
    }
}

impl<T: Transport + Clone> ClusterScan<'_, T> {
    /// The next item, which lies in its page: for large scans, which need not own what they look at.
    pub fn next_ref(&mut self) -> Option<Result<ScanItemRef<'_>, Error>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        match self.step() {
            Ok(Some(group)) => Some(Ok(self.merge.show(group))),
            outcome => {
                self.left = 0;
                outcome.err().map(Err)
            }
        }
    }

    /// The group of the next item.
    fn step(&mut self) -> Result<Option<usize>, Error> {
        if !std::mem::replace(&mut self.begun, true) {
            self.client.ask_all(&mut self.parts)?;
        }
        loop {
            match self.merge.step() {
                MergeStep::Item(group) => return Ok(Some(group)),
                MergeStep::End => return Ok(None),
                MergeStep::Fetch(group) => {
                    let pages = &mut self.parts[group];
                    let items = pages.next(self.client.group(group)?)?;
                    self.merge.feed(group, items, pages.has_more());
                }
            }
        }
    }
}

impl<T: Transport + Clone> Iterator for ClusterScan<'_, T> {
    type Item = Result<ScanItem, Error>;

    fn next(&mut self) -> Option<Result<ScanItem, Error>> {
        self.next_ref().map(|next| next.map(|item| item.to_item()))
    }
}

/// The items of a snapshot of each group, in order; made by [`ClusterClient::scan_snapshot`]. After an error
/// it ends. Replicas are told when it is dropped.
pub struct ClusterSnapshot<'c, T: Transport + Clone>(ClusterScan<'c, T>);

impl<T: Transport + Clone> ClusterSnapshot<'_, T> {
    /// The next item, which lies in its page.
    pub fn next_ref(&mut self) -> Option<Result<ScanItemRef<'_>, Error>> {
        self.0.next_ref()
    }
}

impl<T: Transport + Clone> Drop for ClusterSnapshot<'_, T> {
    fn drop(&mut self) {
        let ClusterScan { client, parts, .. } = &mut self.0;
        for (client, pages) in client.clients.iter_mut().zip(parts) {
            client.iter_mut().for_each(|client| pages.close(client));
        }
    }
}

impl<T: Transport + Clone> Iterator for ClusterSnapshot<'_, T> {
    type Item = Result<ScanItem, Error>;

    fn next(&mut self) -> Option<Result<ScanItem, Error>> {
        self.0.next()
    }
}
