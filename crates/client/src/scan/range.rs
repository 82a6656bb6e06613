//! What a scan wants, and how much of it is left after a page.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use longarm_base::limits::KEY_MAX;
use longarm_base::{Mutant, Term, UnixMillis};
use longarm_index::tree::TreeRange;
use longarm_wire::{COUNT_MAX, PAGE_ITEMS_MAX, ScanKind, ScanRequest};

use super::made::Pinned;
use super::token::Token;
use crate::error::Error;

/// A scan: a range of keys, its direction, and what to show of it.
///
/// ```
/// use longarm_client::Scan;
/// let newest = Scan::prefix(b"log:2026-11-").reverse().limit(10);
/// let from_a_to_b = Scan::range("a".."b").keys_only();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    reverse: bool,
    keys_only: bool,
    limit: Option<u64>,
    page: u32,
}

impl Scan {
    /// All keys.
    pub fn all() -> Scan {
        Scan::over(Bound::Unbounded, Bound::Unbounded)
    }

    /// The keys that begin with these bytes.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Scan {
        let prefix = prefix.as_ref();
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let high = match end.last_mut() {
            None => Bound::Unbounded,
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
        };
        Scan::over(Bound::Included(prefix.to_vec()), high)
    }

    /// The keys within these bounds, which may be anything that has bytes.
    pub fn range<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> Scan {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        Scan::over(owned(range.start_bound()), owned(range.end_bound()))
    }

    fn over(low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Scan {
        Scan { low, high, reverse: false, keys_only: false, limit: None, page: PAGE_ITEMS_MAX }
    }

    /// The item with the least key.
    pub(crate) fn first() -> Scan {
        Scan::all().limit(1)
    }

    /// The item with the greatest key.
    pub(crate) fn last() -> Scan {
        Scan::first().reverse()
    }

    /// The item with the greatest key that is not above this one.
    pub(crate) fn floor(key: &[u8]) -> Scan {
        Scan::range(..=key).reverse().limit(1)
    }

    /// The item with the least key that is not below this one.
    pub(crate) fn ceiling(key: &[u8]) -> Scan {
        Scan::range(key..).limit(1)
    }

    /// At most so many items in all; by [`Client::scan_page`](crate::Client::scan_page), a page.
    pub fn limit(self, limit: u64) -> Scan {
        Scan { limit: Some(limit), ..self }
    }

    /// From the highest key down.
    pub fn reverse(self) -> Scan {
        Scan { reverse: true, ..self }
    }

    /// Without values: those of the items are empty.
    pub fn keys_only(self) -> Scan {
        Scan { keys_only: true, ..self }
    }

    /// At most so many items a page, 1 to 1,024. A page is one operation of its group: all its items were
    /// there at one instant. A smaller page is sooner there, and less likely disturbed by writes.
    pub fn page(self, items: u32) -> Scan {
        Scan { page: items.clamp(1, PAGE_ITEMS_MAX), ..self }
    }

    /// The direction of the scan.
    pub fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// How many items it shows at most, if there is a limit.
    pub(crate) fn most(&self) -> Option<u64> {
        self.limit
    }
}

/// What is left of a scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rest {
    /// The snapshot that its pages are of, if they are of one.
    pinned: Option<Pinned>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    reverse: bool,
    keys_only: bool,
    count: bool,
    /// The items, or keys counted, that are still wanted.
    left: Option<u64>,
    /// The most of them in one answer.
    page: u32,
}

impl Rest {
    /// All of a scan, or what is beyond the token.
    pub(crate) fn of(scan: &Scan, token: Option<&Token>) -> Result<Rest, Error> {
        let mut rest = Rest {
            pinned: None,
            low: least(&scan.low),
            high: most(&scan.high),
            reverse: scan.reverse,
            keys_only: scan.keys_only,
            count: false,
            left: scan.limit,
            page: scan.page,
        };
        if let Some(token) = token {
            if token.is_reverse() != scan.reverse {
                return Err(Error::Token("it is of a scan in the other direction"));
            }
            rest.go_beyond(token.key());
        }
        Ok(rest)
    }

    /// A count of the scan's keys.
    pub(crate) fn count(scan: &Scan) -> Rest {
        let all = Rest::of(scan, None).expect("there is no token");
        Rest { count: true, keys_only: false, page: COUNT_MAX, ..all }
    }

    /// The same with at most so many items a page.
    pub(crate) fn paged(self, items: u32) -> Rest {
        Rest { page: self.page.min(items.max(1)), ..self }
    }

    /// The same in pages of a snapshot.
    pub(crate) fn pinned(self, pinned: Pinned) -> Rest {
        Rest { pinned: Some(pinned), ..self }
    }

    /// The snapshot that its pages are of.
    pub(crate) fn snapshot(&self) -> Option<&Pinned> {
        self.pinned.as_ref()
    }

    /// Whether nothing can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        let within = match (&self.low, &self.high) {
            (_, Bound::Included(high) | Bound::Excluded(high)) if high.is_empty() => false,
            (Bound::Included(low), Bound::Included(high)) => low <= high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                low < high
            }
            _ => true,
        };
        !within || self.left == Some(0)
    }

    /// The most items of the next page.
    pub(crate) fn limit(&self) -> u32 {
        let left = self.left.unwrap_or(u64::MAX).max(1);
        self.page.min(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// How the key of an item compares with the key of the one shown before.
    pub(crate) fn order(&self) -> Ordering {
        if self.reverse { Ordering::Less } else { Ordering::Greater }
    }

    pub(crate) fn wants_values(&self) -> bool {
        !self.keys_only && !self.count
    }

    /// Whether a key is in the range that is left.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(&(bytes(&self.low), bytes(&self.high)), key)
    }

    /// The range, as a walk over the tree has it.
    pub(crate) fn range(&self) -> TreeRange<'_> {
        TreeRange { low: bytes(&self.low), high: bytes(&self.high), reverse: self.reverse }
    }

    /// The range up to a key, which was shown last.
    pub(crate) fn until(mut self, last: &[u8]) -> Rest {
        let bound = Bound::Included(last.to_vec());
        *(if self.reverse { &mut self.low } else { &mut self.high }) = bound;
        self
    }

    /// The request for the next page.
    pub(crate) fn request(&self, operation: u64, term: Term, unix: UnixMillis) -> ScanRequest<'_> {
        let (term, unix) =
            self.pinned.as_ref().map_or((term, unix), |pinned| (pinned.made.term, pinned.unix));
        let page = ScanRequest {
            reverse: self.reverse,
            keys_only: self.keys_only,
            count: self.count,
            low: bytes(&self.low),
            high: bytes(&self.high),
            limit: self.limit(),
            ..ScanRequest::new(operation, term, unix)
        };
        match &self.pinned {
            Some(pinned) => page.about(ScanKind::SnapshotPage, pinned.made.moment),
            None => page,
        }
    }

    /// Takes off the range what a page has shown, or counted, which ends with this key.
    pub(crate) fn shown(&mut self, items: u64, last: &[u8]) {
        self.left = self.left.map(|left| left.saturating_sub(items));
        self.go_beyond(last);
    }

    fn go_beyond(&mut self, key: &[u8]) {
        let bound = match Mutant::TokenAgain.is_on() {
            true => Bound::Included(key.to_vec()),
            false => Bound::Excluded(key.to_vec()),
        };
        // A token's key may be outside of another scan's range, which it must not widen.
        match self.reverse {
            false if !is_above(&self.low, key) => self.low = bound,
            true if !is_below(&self.high, key) => self.high = bound,
            _ => {}
        }
    }
}

/// Whether a lower bound begins above a key.
fn is_above(low: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    matches!(low, Bound::Included(low) | Bound::Excluded(low) if low.as_slice() > key)
}

/// Whether an upper bound ends below a key.
fn is_below(high: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    matches!(high, Bound::Included(high) | Bound::Excluded(high) if high.as_slice() < key)
}

fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The lower bound by a key that an item can have: no key is empty, and a longer one than items have is above
/// its own beginning.
fn least(low: &Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match low {
        Bound::Included(key) | Bound::Excluded(key) if key.is_empty() => Bound::Unbounded,
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_MAX => {
            Bound::Excluded(key[..KEY_MAX].to_vec())
        }
        other => other.clone(),
    }
}

/// The upper bound by a key that an item can have, or by the empty key, below which there is nothing.
fn most(high: &Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match high {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_MAX => {
            Bound::Included(key[..KEY_MAX].to_vec())
        }
        other => other.clone(),
    }
}
