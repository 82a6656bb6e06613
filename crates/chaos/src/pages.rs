//! Pages of scans: what clients ask for, and what they note of it. Only a single group is asked: several have
//! no moment in common.

use std::ops::Bound;

use longarm_client::side::Side;
use longarm_client::{Error, Scan, ScanItem};
use longarm_history::{Direction, Item, Page, Value};
use longarm_host::now;

use crate::client::{Role, Work, Worker};

/// A page has fewer items than this, and one more.
const LIMIT: u64 = 60;
/// One page in so many of a probe is judged. It asks for a thousand a second.
const JUDGED: u64 = 64;

/// Who makes the pages of a client: of three clients the replicas, the client, and whoever it chooses.
pub fn scan_side(number: u32) -> Option<Side> {
    [None, Some(Side::Server), Some(Side::Client)][number as usize % 3]
}

impl Worker {
    /// Asks for a page of a round's keys, or of some of them.
    pub(crate) fn page(&mut self, round: u32, work: &mut Work) {
        let round = round - self.chance.modulo(u64::from(round.min(3)) + 1) as u32;
        let all = self.way.names.numbers(round);
        let (len, first) = (u64::from(all.end - all.start), all.start);
        let mut draw = || first + self.chance.modulo(len) as u32;
        let (one, other) = (draw(), draw());
        let (low, high) = match self.chance.modulo(4) {
            0 => (first, all.end - 1),
            _ => (one.min(other), one.max(other)),
        };
        let direction = [Direction::Ascending, Direction::Descending][self.chance.modulo(2) as usize];
        let (limit, keys_only) = (1 + self.chance.modulo(LIMIT), self.chance.modulo(4) == 0);
        let names = &self.way.names;
        // The key of a group's probes has a longer name than its number.
        let scan = Scan::range(names.numbered(low)..names.numbered(high)).limit(limit);
        let scan = if direction == Direction::Descending { scan.reverse() } else { scan };
        let scan = if keys_only { scan.keys_only() } else { scan };
        let walks = work.client.counters().walks;
        let call = now();
        let shown = work.client.scan_page(&scan, None);
        let end = now();
        let shown = match shown {
            Ok(shown) => shown,
            Err(error) => {
                self.no_page(&error);
                work.notes.refused += 1;
                return self.astray(work);
            }
        };
        if let Role::Probe(probe, group) = self.role {
            self.stage.answered(probe, group, call, end);
            if self.chance.modulo(JUDGED) != 0 {
                return;
            }
        }
        let items = shown.items.iter().filter_map(|item| self.item(item, keys_only)).collect();
        let (client, scan, more) = (self.number, work.notes.pages, shown.next.is_some());
        let (low, high) = (Bound::Included(low), Bound::Excluded(high));
        let limit = limit as usize;
        let page = Page { client, scan, low, high, direction, limit, more, items, call, end };
        work.notes.pages += 1;
        work.notes.walks += u32::from(work.client.counters().walks > walks);
        work.notes.history.push_page(page);
    }

    fn item(&self, item: &ScanItem, keys_only: bool) -> Option<Item> {
        let Some(key) = self.way.names.number(&item.key) else {
            let name = String::from_utf8_lossy(&item.key);
            self.stage.fail(format!("client {}: a page shows the key {name}", self.number));
            return None;
        };
        let read = || {
            self.way.values.read(key, &item.value).unwrap_or_else(|why| {
                let name = String::from_utf8_lossy(&item.key);
                self.stage.fail(format!("client {}: a page's value of {name} {why}", self.number));
                Value(u64::MAX)
            })
        };
        Some(Item { key, value: (!keys_only).then(read), version: Some(item.csn) })
    }

    /// A page was not to be had; an error that a client must never see is a failure of the run.
    fn no_page(&self, error: &Error) {
        if !matches!(error, Error::NoPage(_)) {
            self.unanswered(error);
        }
    }
}
