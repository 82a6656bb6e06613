//! Ranges of the tree for its owner: forwards over right neighbours, backwards by a new way down for each
//! leaf, as nodes do not name their left neighbours. Changes of a step under way are seen.

use std::ops::{Bound, ControlFlow, Range};

use longarm_base::{Csn, EntryRef, UnixMillis};
use longarm_memory::OwnedWords;

use super::owner::{Owner, record_of};
use super::path::Target;
use super::range::TreeRange;
use super::rules::Ages;

/// An item of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Version.
    pub csn: Csn,
    /// Where it is; length 0 if that is more than a MiB.
    pub entry: EntryRef,
    /// When it is gone. The tree does not look at clocks: it shows what is over, too.
    pub expiry: UnixMillis,
}

/// How much a page may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageLimits {
    /// Items, at least one.
    pub items: usize,
    /// Bytes of keys; a page has at least one item, however long its key is.
    pub key_bytes: usize,
}

/// An item of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageItem {
    /// The key.
    pub key: Vec<u8>,
    /// Version.
    pub csn: Csn,
    /// Where it is; length 0 if that is more than a MiB.
    pub entry: EntryRef,
    /// When it is gone.
    pub expiry: UnixMillis,
}

/// The first items of a range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The items, in the order asked for.
    pub items: Vec<PageItem>,
    /// The range has more: it goes on behind the last item's key.
    pub more: bool,
}

impl<M: OwnedWords, A: Ages> Owner<M, A> {
    /// Calls `each` with every item of a range, markers left out, until it breaks; whether it did.
    pub fn walk(
        &mut self,
        range: &TreeRange<'_>,
        mut each: impl FnMut(&TreeItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let target = match (range.reverse, range.low, range.high) {
            (false, Bound::Unbounded, _) => Target::Key(&[]),
            (false, Bound::Included(key) | Bound::Excluded(key), _) => Target::Key(key),
            (true, _, Bound::Unbounded) => Target::Last,
            (true, _, Bound::Included(key)) => Target::Key(key),
            (true, _, Bound::Excluded(key)) => Target::Below(key),
        };
        let mut leaf = self.find(target, 0).end();
        let (mut scratch, mut key, mut fence) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let view = self.cache.look(leaf, &mut scratch);
            let Range { start: from, end: to } = range.slots(&view);
            let right = if range.reverse { None } else { view.right().zip(view.high()) };
            let next = right.filter(|(_, high)| range.goes_above(high)).map(|(right, _)| right);
            key.clear();
            key.extend_from_slice(view.prefix());
            let mut show = |i: usize| {
                // A walk that comes so far most often goes on.
                if let Some(next) = next.filter(|_| i == from.midpoint(to)) {
                    self.cache.prefetch(next);
                }
                let record = record_of(&view, i);
                let Some(entry) = record.entry else { return ControlFlow::Continue(()) };
                key.truncate(view.prefix().len());
                key.extend_from_slice(view.suffix(i));
                each(&TreeItem { key: &key, csn: record.csn, entry, expiry: record.expiry })
            };
            if range.reverse {
                (from..to).rev().try_for_each(&mut show)?;
                if view.low().is_empty() || !range.goes_below(view.low()) {
                    return ControlFlow::Continue(());
                }
                fence.clear();
                fence.extend_from_slice(view.low());
                leaf = self.find(Target::Below(&fence), 0).end();
            } else {
                (from..to).try_for_each(&mut show)?;
                let Some(next) = next else { return ControlFlow::Continue(()) };
                leaf = next;
            }
        }
    }

    /// The last step that has changed a leaf with keys of a range.
    pub fn last_change(&mut self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> u64 {
        let range = TreeRange { low, high, reverse: false };
        let from = match low {
            Bound::Unbounded => &[],
            Bound::Included(key) | Bound::Excluded(key) => key,
        };
        let mut leaf = self.find(Target::Key(from), 0).end();
        let (mut scratch, mut last) = (Vec::new(), 0);
        loop {
            let view = self.cache.look(leaf, &mut scratch);
            last = last.max(view.mark().step);
            match (view.right(), view.high()) {
                (Some(right), Some(high)) if range.goes_above(high) => leaf = right,
                _ => return last,
            }
        }
    }

    /// The first items of a range, as many as the limits allow.
    pub fn page(&mut self, range: &TreeRange<'_>, limits: PageLimits) -> Page {
        let mut page = Page::default();
        let mut bytes = 0;
        let ended = self.walk(range, |item| {
            bytes += item.key.len();
            if page.items.len() >= limits.items.max(1) || (bytes > limits.key_bytes && !page.items.is_empty())
            {
                return ControlFlow::Break(());
            }
            page.items.push(PageItem {
                key: item.key.to_vec(),
                csn: item.csn,
                entry: item.entry,
                expiry: item.expiry,
            });
            ControlFlow::Continue(())
        });
        page.more = ended.is_break();
        page
    }

    fn one(&mut self, range: &TreeRange<'_>) -> Option<PageItem> {
        self.page(range, PageLimits { items: 1, key_bytes: usize::MAX }).items.pop()
    }

    /// The item of a key.
    pub fn get(&mut self, key: &[u8]) -> Option<PageItem> {
        let bound = Bound::Included(key);
        self.one(&TreeRange { low: bound, high: bound, reverse: false })
    }

    /// The item with the greatest key that is not above this one.
    pub fn floor(&mut self, key: &[u8]) -> Option<PageItem> {
        self.one(&TreeRange { high: Bound::Included(key), reverse: true, ..TreeRange::ALL })
    }

    /// The item with the least key that is not below this one.
    pub fn ceiling(&mut self, key: &[u8]) -> Option<PageItem> {
        self.one(&TreeRange { low: Bound::Included(key), ..TreeRange::ALL })
    }

    /// The item with the least key.
    pub fn first(&mut self) -> Option<PageItem> {
        self.one(&TreeRange::ALL)
    }

    /// The item with the greatest key.
    pub fn last(&mut self) -> Option<PageItem> {
        self.one(&TreeRange { reverse: true, ..TreeRange::ALL })
    }
}
