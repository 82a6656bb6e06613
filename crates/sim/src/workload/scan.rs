//! Pages of scans: what clients ask for, and what they note of it.

use std::cell::RefCell;
use std::ops::Bound;
use std::time::Duration;

use longarm_base::random::SplitMix64;
use longarm_base::{Nanos, UnixMillis};
use longarm_client::{Client, Error, Options, OrderedInspection, Scan, ScanItem, Token, inspect_ordered};
use longarm_fabric::Address;
use longarm_fabric::sim::Sim;
use longarm_history::{Direction, Item, Page};

use super::{AtWork, Load, Noted, PATIENCE, TIMEOUT, time, values};

/// A page has fewer items than this, and one more.
const LIMIT: u64 = 40;
/// The most items of a page when everything is asked for.
const ALL: u64 = 1_000;
/// A row has fewer pages than this, and one more.
const ROW: u64 = 6;

/// What is asked for, by numbers of keys.
#[derive(Clone, Debug)]
struct Wish {
    client: u32,
    scan: u32,
    low: Bound<u32>,
    high: Bound<u32>,
    direction: Direction,
    limit: u64,
    keys_only: bool,
}

impl Wish {
    fn draw(client: u32, scan: u32, keys: u32, chance: &mut SplitMix64) -> Wish {
        let (one, other) = (chance.below(keys.into()) as u32, chance.below(keys.into()) as u32);
        let bound = |key, chance: &mut SplitMix64| match chance.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key),
            _ => Bound::Included(key),
        };
        let (low, high) = (bound(one.min(other), chance), bound(one.max(other), chance));
        let direction = [Direction::Ascending, Direction::Descending][chance.below(2) as usize];
        let limit = 1 + chance.below(LIMIT);
        Wish { client, scan, low, high, direction, limit, keys_only: chance.once_in(4) }
    }

    /// The wish as clients say it. Where a row goes on says its token.
    fn scan(&self, load: &Load) -> Scan {
        let name = |key: u32| load.name(key);
        let scan = Scan::range::<Vec<u8>>((self.low.map(name), self.high.map(name))).limit(self.limit);
        let scan = if self.direction == Direction::Descending { scan.reverse() } else { scan };
        if self.keys_only { scan.keys_only() } else { scan }
    }

    /// The page that was shown. Panics if it shows what no client can have written.
    fn page(&self, items: &[ScanItem], more: bool, load: &Load, call: Nanos) -> Page {
        let Wish { client, scan, low, high, direction, limit, keys_only } = *self;
        let item = |item: &ScanItem| {
            let name = String::from_utf8_lossy(&item.key);
            let key = load.key(&item.key).unwrap_or_else(|| panic!("torn: a page shows the key {name}"));
            let value = (!keys_only).then(|| values::read(key, &item.value));
            Item { key, value, version: Some(item.csn) }
        };
        let items = items.iter().map(item).collect();
        let limit = limit as usize;
        Page { client, scan, low, high, direction, limit, more, items, call, end: time() }
    }

    /// Goes on behind a page.
    fn go_on(&mut self, page: &Page) {
        let last = page.items.last().map(|last| Bound::Excluded(last.key));
        let bound = if self.direction == Direction::Descending { &mut self.high } else { &mut self.low };
        *bound = last.unwrap_or(*bound);
    }
}

impl AtWork {
    /// Asks for a page, or for a row of them.
    pub(super) fn scan(&mut self) {
        let (number, keys) = (self.worker.number, self.worker.keys);
        let mut wish = Wish::draw(number, self.scans, keys, &mut self.worker.chance);
        let chance = &mut self.worker.chance;
        let pages = if chance.once_in(3) { 1 + chance.below(ROW) } else { 1 };
        let whole = chance.once_in(3).then(|| (1 + chance.below(3) as u32, chance.once_in(2)));
        let (scan, mut token) = (wish.scan(&self.worker.load), None::<Token>);
        self.scans += 1;
        match whole {
            Some((page, true)) => return self.scan_together(&wish, &scan.page(page)),
            Some((page, false)) => return self.scan_snapshot(&wish, &scan.page(page)),
            None => {}
        }
        for _ in 0..pages {
            self.begun += 1;
            let call = time();
            let shown = match self.client.scan_page(&scan, token.as_ref()) {
                Ok(shown) => shown,
                Err(error) => {
                    self.worker.noted.borrow_mut().no_page += 1;
                    return self.forgive(error);
                }
            };
            let page = wish.page(&shown.items, shown.next.is_some(), &self.worker.load, call);
            wish.go_on(&page);
            self.worker.noted.borrow_mut().plain.push_page(page);
            token = shown.next;
            if token.is_none() {
                return;
            }
        }
    }
}

impl AtWork {
    /// Asks for all of a scan at one instant, which may take many pages. They are noted as one.
    fn scan_together(&mut self, wish: &Wish, scan: &Scan) {
        self.begun += 1;
        let call = time();
        match self.client.scan_together(scan) {
            Ok(items) => {
                let more = items.len() as u64 == wish.limit;
                let page = wish.page(&items, more, &self.worker.load, call);
                self.worker.noted.borrow_mut().plain.push_page(page);
            }
            Err(error) => {
                self.worker.noted.borrow_mut().no_page += 1;
                self.forgive(error);
            }
        }
    }
}

impl AtWork {
    /// Takes a snapshot, and all of its pages while others write; they are noted as one. What it shows of
    /// items that expire is not judged: it may have what was just over.
    fn scan_snapshot(&mut self, wish: &Wish, scan: &Scan) {
        self.begun += 1;
        let call = time();
        let (mut items, mut taken) = (Vec::new(), call);
        let outcome = self.client.scan_snapshot(scan).and_then(|mut shown| {
            taken = time();
            shown.try_for_each(|item| item.map(|item| items.push(item)))
        });
        match outcome {
            Ok(()) if items.iter().any(|item| item.expiry != UnixMillis::NEVER) => {}
            Ok(()) => {
                let more = items.len() as u64 == wish.limit;
                let page = wish.page(&items, more, &self.worker.load, call);
                self.worker.noted.borrow_mut().plain.push_page(Page { end: taken, ..page });
            }
            Err(error) => {
                self.worker.noted.borrow_mut().no_page += 1;
                self.forgive(error);
            }
        }
    }
}

/// Checks the ordered index of the server at an address, after all is healed.
pub fn inspect_all(sim: &Sim, address: &Address) -> Result<OrderedInspection, Error> {
    let begun = time();
    loop {
        match inspect_ordered(sim, address, &patient()) {
            // A NIC may have to be waited for.
            Err(_) | Ok(OrderedInspection::Unsettled) if time().since(begun) < PATIENCE => {
                longarm_host::sleep(Duration::from_millis(5));
            }
            looked => return looked,
        }
    }
}

fn patient() -> Options {
    Options { timeout: TIMEOUT, connect_timeout: TIMEOUT, spin: Duration::ZERO, ..Options::default() }
}

/// Scans all keys after all is healed, at the first of these servers, of which the last one leads; `number`
/// is of no other scan of a last look. Returns the items of all pages.
pub fn scan_all(
    sim: &Sim,
    ways: &[Address],
    number: u32,
    load: &Load,
    noted: &RefCell<Noted>,
) -> Result<Vec<Item>, Error> {
    let options = patient();
    let begun = time();
    let again = |error: &Error| time().since(begun) < PATIENCE && !matches!(error, Error::Invalid(_));
    let mut client = loop {
        match Client::connect_group_over(sim.clone(), ways, options.clone()) {
            Ok(client) => break client,
            Err(error) if again(&error) => longarm_host::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error),
        }
    };
    let (client_number, direction) = (u32::MAX, Direction::Ascending);
    let (low, high) = (Bound::Unbounded, Bound::Unbounded);
    let mut wish =
        Wish { client: client_number, scan: number, low, high, direction, limit: ALL, keys_only: false };
    let (scan, mut token, mut items) = (wish.scan(load), None::<Token>, Vec::new());
    loop {
        let call = time();
        let shown = match client.scan_page(&scan, token.as_ref()) {
            Ok(shown) => shown,
            Err(error) if again(&error) => continue,
            Err(error) => return Err(error),
        };
        let page = wish.page(&shown.items, shown.next.is_some(), load, call);
        wish.go_on(&page);
        items.extend(page.items.iter().copied());
        noted.borrow_mut().plain.push_page(page);
        token = shown.next;
        if token.is_none() {
            return Ok(items);
        }
    }
}
