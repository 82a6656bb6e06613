//! A page of a scan: made from the tree as it stands, and shown if nothing in its range has changed since
//! (decision 30); or as of a snapshot, which is over, so that nothing can change in it.

use std::ops::{Bound, ControlFlow};

use longarm_base::{Csn, EntryRef, Mutant, Nanos, Term, UnixMillis};
use longarm_index::tree::TreeRange;
use longarm_wire::{
    FAR_FROM, PAGE_BYTES_MAX, ScanAnswerWriter, ScanHead, ScanItem, ScanKind, ScanRequest, ScanStatus,
    ScanValue, TreeMoment,
};

use crate::arena::{AtPlace, INLINE_ENTRY, OwnArena};
use crate::build::Tree;
use crate::snapshot::{Shown, Snapshot, Snapshots};

/// Items whose entries are asked for at once, before the first of those that were asked for before them are
/// looked at: the first cache has room for twice as many, and a core keeps fewer misses in flight.
const AHEAD: usize = 64;
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
    pub kind: ScanKind,
    /// The moment of which the request speaks, if its kind has one.
    pub moment: TreeMoment,
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
    /// The tree as it was.
    pub moment: TreeMoment,
    /// The items that it has.
    pub items: u32,
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
struct ListedItem<'s> {
    csn: Csn,
    entry: EntryRef,
    expiry: UnixMillis,
    /// The value, if a snapshot keeps it.
    kept: Option<&'s [u8]>,
    /// Where its key ends among the keys.
    key_end: usize,
}

/// Items of the tree, in the order of a page.
#[derive(Default)]
struct Listed<'s> {
    list: Vec<ListedItem<'s>>,
    keys: Vec<u8>,
}

impl<'s> Listed<'s> {
    fn push(&mut self, item: &Shown<'_, 's>) {
        self.keys.extend_from_slice(item.key);
        let &Shown { csn, entry, expiry, kept, .. } = item;
        self.list.push(ListedItem { csn, entry, expiry, kept, key_end: self.keys.len() });
    }

    fn clear(&mut self) {
        self.list.clear();
        self.keys.clear();
    }

    /// The items, with their keys.
    fn items(&self) -> impl Iterator<Item = (&[u8], &ListedItem<'s>)> {
        let mut begin = 0;
        self.list.iter().map(move |item| {
            let key = &self.keys[begin..item.key_end];
            begin = item.key_end;
            (key, item)
        })
    }
}

/// Why a page has no more items, though the range may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// It has all that it may have.
    Full,
    /// A place holds another entry than its leaf says.
    Stale,
}

/// A page that is being written.
struct Draft<'a, 's> {
    arena: &'a OwnArena,
    writer: ScanAnswerWriter,
    keys_only: bool,
    /// Items whose entries are asked for when there are enough of them.
    coming: Listed<'s>,
    /// Items whose entries were asked for.
    asked: Listed<'s>,
    /// Room for an entry.
    bytes: Vec<u8>,
    ended: Option<Ended>,
}

impl<'s> Draft<'_, 's> {
    /// Takes the next item; breaks once the page is at its end.
    fn take(&mut self, item: &Shown<'_, 's>) -> ControlFlow<()> {
        self.coming.push(item);
        match self.coming.list.len() < AHEAD {
            true => ControlFlow::Continue(()),
            false => self.turn(),
        }
    }

    /// Asks for the entries that come, and writes the items of those that were asked for before.
    fn turn(&mut self) -> ControlFlow<()> {
        if !self.keys_only {
            self.arena.prefetch(self.coming.list.iter().map(|item| item.entry.offset));
        }
        std::mem::swap(&mut self.coming, &mut self.asked);
        let done = self.coming.items().try_for_each(|(key, item)| {
            let Some(value) = value(self.arena, key, item, self.keys_only, &mut self.bytes) else {
                return Err(Ended::Stale);
            };
            let fits = self.writer.push(&ScanItem { key, csn: item.csn, expiry: item.expiry, value });
            if fits { Ok(()) } else { Err(Ended::Full) }
        });
        self.coming.clear();
        self.ended = done.err();
        if self.ended.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The value of an item; `None` if its place holds another entry.
fn value<'b>(
    arena: &OwnArena,
    key: &[u8],
    item: &ListedItem<'b>,
    keys_only: bool,
    bytes: &'b mut Vec<u8>,
) -> Option<ScanValue<'b>> {
    if keys_only {
        return Some(ScanValue::None);
    }
    if let Some(value) = item.kept {
        return Some(ScanValue::Inline(value));
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

/// Why there is no page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotMade {
    /// A place that a leaf names holds another entry: the step that names the copy has yet to come.
    Stale,
    /// The range of the page that is looked at again is not as it was.
    Changed,
    /// The snapshot is not kept any more.
    Gone,
}

/// What pages are made of.
pub(crate) struct Sources<'a> {
    pub tree: &'a mut Tree,
    pub arena: &'a OwnArena,
    /// The snapshots of this tree.
    pub snapshots: &'a mut Snapshots,
    /// How old the knowledge is of what the leader has applied, in microseconds.
    pub lag_us: u32,
    pub now: Nanos,
    /// Memory that a page takes with it, to be written into.
    pub room: &'a mut Vec<u8>,
}

impl Wanted {
    /// Takes a request, out of the ring in which it came.
    pub fn of(request: &ScanRequest<'_>) -> Wanted {
        let ScanRequest { reverse, keys_only, count, limit, bytes, operation, term, unix, .. } = *request;
        let ScanRequest { kind, moment, .. } = *request;
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
            kind,
            moment,
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

    /// Makes the page from the tree as it stands, or as of a snapshot.
    pub fn make(&self, sources: Sources<'_>) -> Result<Made, NotMade> {
        let Sources { tree, arena, snapshots, lag_us, now, room } = sources;
        let moment = TreeMoment { tree: tree.incarnation(), step: tree.step() };
        let head = ScanHead {
            rounds: self.rounds,
            made: moment,
            lag_us,
            ..ScanHead::new(ScanStatus::Ok, self.operation, self.term)
        };
        let snapshot = match self.kind {
            ScanKind::Recheck => return self.unchanged(tree, head),
            ScanKind::Snapshot => return Ok(self.made(head.encode(), None, moment)),
            ScanKind::SnapshotPage => Some(snapshots.find(self.moment, now).ok_or(NotMade::Gone)?),
            ScanKind::Page | ScanKind::Close | ScanKind::Stats => None,
        };
        let head = ScanHead { made: if snapshot.is_some() { self.moment } else { moment }, ..head };
        match self.count {
            true => Ok(self.counted(tree, snapshot, head)),
            false => self.shown(tree, arena, snapshot, std::mem::take(room), head),
        }
    }

    fn range(&self) -> TreeRange<'_> {
        TreeRange { low: borrowed(&self.low), high: borrowed(&self.high), reverse: self.reverse }
    }

    /// A page that ends with this key, if it is not the last one.
    fn made(&self, answer: Vec<u8>, end: Option<Vec<u8>>, moment: TreeMoment) -> Made {
        let (mut low, mut high) = (self.low.clone(), self.high.clone());
        if let Some(end) = end {
            *(if self.reverse { &mut low } else { &mut high }) = Bound::Included(end);
        }
        Made { answer, low, high, moment, items: 0 }
    }

    /// The answer that nothing in the range has changed since that moment.
    fn unchanged(&self, tree: &mut Tree, head: ScanHead) -> Result<Made, NotMade> {
        let (low, high) = (borrowed(&self.low), borrowed(&self.high));
        let TreeMoment { tree: of, step } = self.moment;
        let stands = tree.incarnation() == of && tree.last_change(low, high) <= step;
        match stands || Mutant::RecheckUnmarked.is_on() {
            true => Ok(self.made(head.encode(), None, head.made)),
            false => Err(NotMade::Changed),
        }
    }

    /// Calls `each` with every item of the range, as of the snapshot if there is one, until it breaks.
    fn walk<'s>(
        &self,
        tree: &mut Tree,
        snapshot: Option<&'s Snapshot>,
        mut each: impl for<'k> FnMut(Shown<'k, 's>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match snapshot {
            Some(snapshot) => snapshot.walk(tree, &self.range(), each),
            None => tree.walk(&self.range(), |item| each(Shown::of(item))),
        }
    }

    fn counted(&self, tree: &mut Tree, snapshot: Option<&Snapshot>, head: ScanHead) -> Made {
        let (mut count, mut last) = (0, Vec::new());
        let more = self.walk(tree, snapshot, |item| {
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
        self.made(answer, end, head.made)
    }

    /// A page of the range, written into `room`.
    fn shown<'s>(
        &self,
        tree: &mut Tree,
        arena: &OwnArena,
        snapshot: Option<&'s Snapshot>,
        room: Vec<u8>,
        head: ScanHead,
    ) -> Result<Made, NotMade> {
        let (coming, asked) = Default::default();
        let (keys_only, ended, bytes) = (self.keys_only, None, Vec::new());
        let writer = ScanAnswerWriter::new(room, self.bytes, keys_only);
        let mut draft = Draft { arena, writer, keys_only, coming, asked, bytes, ended };
        let (mut items, mut taken) = (0, 0);
        let more = self.walk(tree, snapshot, |item: Shown<'_, 's>| {
            if item.expiry.expired(self.unix) {
                return ControlFlow::Continue(());
            }
            if items == self.limit() || taken > self.bytes {
                return ControlFlow::Break(());
            }
            items += 1;
            taken += item.key.len() as u32;
            taken += if keys_only { 0 } else { item.entry.len.min(FAR_FROM as u32) };
            draft.take(&item)
        });
        // Those that came last, and those that were asked for last.
        while draft.ended.is_none() && !(draft.coming.list.is_empty() && draft.asked.list.is_empty()) {
            let _ = draft.turn();
        }
        if draft.ended == Some(Ended::Stale) {
            return Err(NotMade::Stale);
        }
        let (writer, more) = (draft.writer, more.is_break() || draft.ended.is_some());
        let end = (more && writer.count() > 0).then(|| writer.last_key().to_vec());
        let items = writer.count();
        let answer = writer.finish(ScanHead { more: end.is_some(), ..head });
        Ok(Made { items, ..self.made(answer, end, head.made) })
    }
}
