//! A page of a scan: made from the tree as it stands, and shown if nothing in its range has changed since
//! (decision 30).

use std::ops::{Bound, ControlFlow};

use longarm_base::{Csn, EntryRef, Mutant, Term, UnixMillis};
use longarm_index::tree::{TreeItem, TreeRange};
use longarm_wire::{
    FAR_FROM, PAGE_BYTES_MAX, ScanAnswerWriter, ScanHead, ScanItem, ScanKind, ScanRequest, ScanStatus,
    ScanValue, TreeMoment,
};

use crate::arena::{AtPlace, OwnArena};
use crate::build::Tree;

/// The longest entry whose value can be inline.
const INLINE_ENTRY: u32 = FAR_FROM as u32 + 2048;
/// Values that are asked for before they are looked at.
const AHEAD: usize = 16;
/// The fewest items to which a page that conflicts again and again is cut down.
const LEAST: u32 = 16;
/// Tries after each of which such a page is halved.
const HALVED_AFTER: u32 = 4;

/// A request for a page, of its own.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub operation: u64,
    pub term: Term,
    unix: UnixMillis,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    reverse: bool,
    keys_only: bool,
    count: bool,
    limit: u32,
    bytes: u32,
    /// Of a recheck: when the page was made.
    recheck: Option<TreeMoment>,
    /// How often it was made already.
    pub rounds: u32,
}

fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    bound.map(<[u8]>::to_vec)
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// A page, and the range that it speaks of.
pub(crate) struct Made {
    answer: Vec<u8>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

impl Made {
    /// The answer.
    pub fn answer(self) -> Vec<u8> {
        self.answer
    }

    /// Whether the page shows the key, or shows that it is not there.
    pub fn speaks_of(&self, key: &[u8]) -> bool {
        let above = match &self.low {
            Bound::Unbounded => true,
            Bound::Included(low) => key >= low.as_slice(),
            Bound::Excluded(low) => key > low.as_slice(),
        };
        above
            && match &self.high {
                Bound::Unbounded => true,
                Bound::Included(high) => key <= high.as_slice(),
                Bound::Excluded(high) => key < high.as_slice(),
            }
    }
}

/// An item of the tree, without its key.
#[derive(Clone, Copy)]
struct ListedItem {
    csn: Csn,
    entry: EntryRef,
    expiry: UnixMillis,
    /// Where its key ends among the keys.
    key_end: usize,
}

/// Items of the tree, in the order of a page.
#[derive(Default)]
struct Listed {
    list: Vec<ListedItem>,
    keys: Vec<u8>,
}

impl Listed {
    fn push(&mut self, item: &TreeItem<'_>) {
        self.keys.extend_from_slice(item.key);
        let &TreeItem { csn, entry, expiry, .. } = item;
        self.list.push(ListedItem { csn, entry, expiry, key_end: self.keys.len() });
    }

    fn key(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.list[before].key_end);
        &self.keys[begin..self.list[number].key_end]
    }
}

/// Why there is no page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotMade {
    /// A place that a leaf names holds another entry: the step that names the copy has yet to come.
    Stale,
    /// The range of the page that is looked at again is not as it was.
    Changed,
}

impl Wanted {
    /// Takes a request, out of the ring in which it came.
    pub fn of(request: &ScanRequest<'_>) -> Wanted {
        let ScanRequest { reverse, keys_only, count, limit, bytes, operation, term, unix, .. } = *request;
        let (low, high) = (owned(request.low), owned(request.high));
        Wanted {
            operation,
            term,
            unix,
            low,
            high,
            reverse,
            keys_only,
            count,
            limit,
            bytes: bytes.min(PAGE_BYTES_MAX),
            recheck: (request.kind == ScanKind::Recheck).then_some(request.made),
            rounds: 0,
        }
    }

    /// The answer that says why there is no page.
    pub fn refused(&self, status: ScanStatus, term: Term) -> Vec<u8> {
        ScanHead { rounds: self.rounds, ..ScanHead::new(status, self.operation, term) }.encode()
    }

    /// The items of this try: fewer after some that conflicted, as a smaller range conflicts less.
    fn limit(&self) -> u32 {
        let halved = self.limit >> (self.rounds / HALVED_AFTER).min(16);
        halved.max(LEAST.min(self.limit))
    }

    /// Makes the page from the tree as it stands.
    pub fn make(&self, tree: &mut Tree, arena: &OwnArena, lag_us: u32) -> Result<Made, NotMade> {
        let head = ScanHead {
            rounds: self.rounds,
            made: TreeMoment { tree: tree.incarnation(), step: tree.step() },
            lag_us,
            ..ScanHead::new(ScanStatus::Ok, self.operation, self.term)
        };
        if let Some(made) = self.recheck {
            return self.unchanged(tree, made, head);
        }
        if self.count { Ok(self.counted(tree, head)) } else { self.shown(tree, arena, head) }
    }

    fn range(&self) -> TreeRange<'_> {
        TreeRange { low: borrowed(&self.low), high: borrowed(&self.high), reverse: self.reverse }
    }

    /// A page that ends with this key, if it is not the last one.
    fn made(&self, answer: Vec<u8>, end: Option<Vec<u8>>) -> Made {
        let (mut low, mut high) = (self.low.clone(), self.high.clone());
        if let Some(end) = end {
            *(if self.reverse { &mut low } else { &mut high }) = Bound::Included(end);
        }
        Made { answer, low, high }
    }

    /// The answer that nothing in the range has changed since that moment.
    fn unchanged(&self, tree: &mut Tree, made: TreeMoment, head: ScanHead) -> Result<Made, NotMade> {
        let (low, high) = (borrowed(&self.low), borrowed(&self.high));
        let stands = tree.incarnation() == made.tree && tree.last_change(low, high) <= made.step;
        match stands || Mutant::RecheckUnmarked.is_on() {
            true => Ok(self.made(head.encode(), None)),
            false => Err(NotMade::Changed),
        }
    }

    fn counted(&self, tree: &mut Tree, head: ScanHead) -> Made {
        let (mut count, mut last) = (0, Vec::new());
        let more = tree.walk(&self.range(), |item| {
            if item.expiry.expired(self.unix) {
                return ControlFlow::Continue(());
            }
            if count == self.limit() {
                return ControlFlow::Break(());
            }
            count += 1;
            last.clear();
            last.extend_from_slice(item.key);
            ControlFlow::Continue(())
        });
        let end = more.is_break().then_some(last);
        let answer = ScanAnswerWriter::counted(Vec::new(), head, count, end.as_deref());
        self.made(answer, end)
    }

    fn shown(&self, tree: &mut Tree, arena: &OwnArena, head: ScanHead) -> Result<Made, NotMade> {
        let (items, mut more) = self.listed(tree, arena);
        let mut writer = ScanAnswerWriter::new(Vec::new(), self.bytes, self.keys_only);
        let (mut bytes, mut shown) = (Vec::new(), 0);
        for (number, item) in items.list.iter().enumerate() {
            if let Some(later) = items.list.get(number + AHEAD).filter(|_| !self.keys_only) {
                arena.prefetch(later.entry.offset);
            }
            let key = items.key(number);
            let value = self.value(arena, key, item, &mut bytes).ok_or(NotMade::Stale)?;
            if !writer.push(&ScanItem { key, csn: item.csn, expiry: item.expiry, value }) {
                more = true;
                break;
            }
            shown = number + 1;
        }
        let end = shown.checked_sub(1).filter(|_| more).map(|last| items.key(last).to_vec());
        let answer = writer.finish(ScanHead { more: end.is_some(), ..head });
        Ok(self.made(answer, end))
    }

    /// The items that a page may have, as the tree has them, and whether the range may have more.
    fn listed(&self, tree: &mut Tree, arena: &OwnArena) -> (Listed, bool) {
        let (mut items, mut bytes) = (Listed::default(), 0);
        let more = tree.walk(&self.range(), |item| {
            if item.expiry.expired(self.unix) {
                return ControlFlow::Continue(());
            }
            if items.list.len() == self.limit() as usize || bytes > self.bytes {
                return ControlFlow::Break(());
            }
            if items.list.len() < AHEAD && !self.keys_only {
                arena.prefetch(item.entry.offset);
            }
            let value = if self.keys_only { 0 } else { item.entry.len.min(FAR_FROM as u32) };
            bytes += item.key.len() as u32 + value;
            items.push(item);
            ControlFlow::Continue(())
        });
        (items, more.is_break())
    }

    /// The value of an item; `None` if its place holds another entry.
    fn value<'b>(
        &self,
        arena: &OwnArena,
        key: &[u8],
        item: &ListedItem,
        bytes: &'b mut Vec<u8>,
    ) -> Option<ScanValue<'b>> {
        if self.keys_only {
            return Some(ScanValue::None);
        }
        let place = item.entry;
        match arena.at(place, item.csn, INLINE_ENTRY, bytes) {
            AtPlace::Entry(entry) if entry.key != key => None,
            AtPlace::Entry(entry) if entry.value.len() <= FAR_FROM => Some(ScanValue::Inline(entry.value)),
            AtPlace::Entry(_) | AtPlace::Long => {
                let len = arena.len_at(place)?;
                Some(ScanValue::Far(EntryRef { offset: place.offset, len }))
            }
            AtPlace::Nothing => None,
        }
    }
}
