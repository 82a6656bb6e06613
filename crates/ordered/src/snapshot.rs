//! Snapshots: moments of the tree whose pages clients take later, one after the other (decision 36).
//!
//! (1) A moment is taken if, by the window rule, nothing in the range of the scan has changed since it: then
//!     the range was so at one instant of the group.
//! (2) From then on, before the tree takes the first change of a key, the snapshot keeps what the key was:
//!     the value, too, since the entry may be reclaimed. Other keys are as the tree has them. So nobody pays
//!     who takes no snapshot, and a snapshot costs what is written while it is kept.
//! (3) A snapshot is gone some time after it was last asked for, when all of them have outgrown their share
//!     of the tree's memory, and when another leader leads, or the tree is built anew.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};

use longarm_base::{Csn, EntryRef, Mutant, Nanos, UnixMillis};
use longarm_index::tree::{TreeItem, TreeRange};
use longarm_memory::Words;
use longarm_wire::{FAR_FROM, TreeMoment};

use crate::arena::{AtPlace, INLINE_ENTRY, OwnArena, Seen};
use crate::build::Tree;

/// The most snapshots that are kept at once.
const MOST: usize = 16;
/// How long a snapshot is kept after it was last asked for.
const KEPT_FOR: Nanos = Nanos::from_millis(10_000);
/// The share of the tree's memory that all of them may take beside it, as a divisor.
const SHARE: u64 = 8;
/// Bytes that a key takes beside its own and its value's, about.
const OVERHEAD: usize = 128;

/// An item as a page shows it.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'k, 's> {
    pub key: &'k [u8],
    pub csn: Csn,
    pub expiry: UnixMillis,
    /// Where it is.
    pub entry: EntryRef,
    /// The value, if a snapshot keeps it.
    pub kept: Option<&'s [u8]>,
}

impl<'k> Shown<'k, '_> {
    /// An item as the tree has it.
    pub fn of(item: &TreeItem<'k>) -> Self {
        let &TreeItem { key, csn, entry, expiry } = item;
        Shown { key, csn, expiry, entry, kept: None }
    }
}

/// What a key was before it changed.
#[derive(Clone)]
struct Was {
    csn: Csn,
    expiry: UnixMillis,
    entry: EntryRef,
    /// The value, unless it is far: that one is READ at its place, as long as it is there.
    value: Option<Vec<u8>>,
}

impl Was {
    fn shown<'k, 's>(&'s self, key: &'k [u8]) -> Shown<'k, 's> {
        let &Was { csn, expiry, entry, .. } = self;
        Shown { key, csn, expiry, entry, kept: self.value.as_deref() }
    }

    fn bytes(key: &[u8], was: Option<&Was>) -> usize {
        OVERHEAD + key.len() + was.and_then(|was| was.value.as_ref()).map_or(0, Vec::len)
    }
}

/// A moment of the tree.
pub(crate) struct Snapshot {
    moment: TreeMoment,
    /// How many clients have taken it, and not closed it.
    holders: u32,
    asked: Nanos,
    /// Keys that have changed since, and what each was; `None` if it was not there.
    before: BTreeMap<Vec<u8>, Option<Was>>,
}

/// The snapshots that are kept.
#[derive(Default)]
pub(crate) struct Snapshots {
    list: Vec<Snapshot>,
    /// What they keep.
    bytes: usize,
}

impl Snapshots {
    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Gives up those for which nobody has asked for long.
    pub fn expire(&mut self, now: Nanos) {
        self.retain(|snapshot| now.since(snapshot.asked) < KEPT_FOR);
    }

    /// Keeps the tree's moment; `false` if as many are kept as may be.
    pub fn take(&mut self, moment: TreeMoment, now: Nanos) -> bool {
        if let Some(snapshot) = self.list.iter_mut().find(|snapshot| snapshot.moment == moment) {
            (snapshot.holders, snapshot.asked) = (snapshot.holders + 1, now);
            return true;
        }
        let has_room = self.list.len() < MOST;
        if has_room {
            self.list.push(Snapshot { moment, holders: 1, asked: now, before: BTreeMap::new() });
        }
        has_room
    }

    /// The snapshot of a moment, for who asks for it now.
    pub fn find(&mut self, moment: TreeMoment, now: Nanos) -> Option<&Snapshot> {
        let snapshot = self.list.iter_mut().find(|snapshot| snapshot.moment == moment)?;
        snapshot.asked = now;
        Some(snapshot)
    }

    /// A client needs the snapshot no more.
    pub fn close(&mut self, moment: TreeMoment) {
        if let Some(snapshot) = self.list.iter_mut().find(|snapshot| snapshot.moment == moment) {
            snapshot.holders -= 1;
        }
        self.retain(|snapshot| snapshot.holders > 0);
    }

    fn retain(&mut self, stays: impl Fn(&Snapshot) -> bool) {
        let (list, bytes) = (&mut self.list, &mut self.bytes);
        list.retain(|snapshot| {
            let stays = stays(snapshot);
            *bytes -= if stays { 0 } else { snapshot.bytes() };
            stays
        });
    }

    /// Notes what the key of an entry is, before the tree takes the entry. A snapshot that cannot be kept is
    /// given up.
    pub fn note(&mut self, seen: &Seen, keys: &[u8], tree: &mut Tree, arena: &OwnArena) {
        let key = seen.key(keys);
        let lacks = |snapshot: &Snapshot| !snapshot.before.contains_key(key);
        if !seen.shows() || !self.list.iter().any(lacks) || Mutant::SnapshotForgets.is_on() {
            return;
        }
        let mut there = None;
        let only = TreeRange { low: Bound::Included(key), high: Bound::Included(key), reverse: false };
        let _ = tree.walk(&only, |item| {
            there = Some((item.csn, item.expiry, item.entry));
            ControlFlow::Break(())
        });
        if there.is_some_and(|(csn, ..)| csn >= seen.csn) {
            return;
        }
        let mut bytes = Vec::new();
        let was = there.map(|(csn, expiry, entry)| match arena.at(entry, csn, INLINE_ENTRY, &mut bytes) {
            AtPlace::Entry(found) if found.key == key => {
                let value = (found.value.len() <= FAR_FROM).then(|| found.value.to_vec());
                Some(Was { csn, expiry, entry, value })
            }
            AtPlace::Long => Some(Was { csn, expiry, entry, value: None }),
            AtPlace::Entry(_) | AtPlace::Nothing => None,
        });
        if matches!(was, Some(None)) {
            // It was reclaimed before its end came here.
            return self.retain(|snapshot| !lacks(snapshot));
        }
        let was = was.flatten();
        for snapshot in self.list.iter_mut().filter(|snapshot| lacks(snapshot)) {
            self.bytes += Was::bytes(key, was.as_ref());
            snapshot.before.insert(key.to_vec(), was.clone());
        }
        while self.bytes as u64 > tree.memory().bytes() / SHARE {
            let largest = (0..self.list.len()).max_by_key(|&number| self.list[number].before.len());
            self.bytes -= self.list.swap_remove(largest.expect("who has bytes")).bytes();
        }
    }
}

impl Snapshot {
    fn bytes(&self) -> usize {
        self.before.iter().map(|(key, was)| Was::bytes(key, was.as_ref())).sum()
    }

    /// Calls `each` with every item of a range as of the snapshot, until it breaks; whether it did.
    pub fn walk<'s>(
        &'s self,
        tree: &mut Tree,
        range: &TreeRange<'_>,
        mut each: impl for<'k> FnMut(Shown<'k, 's>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut kept = self.kept(range);
        tree.walk(range, |item| {
            let comes_first = |key: &[u8]| if range.reverse { key > item.key } else { key < item.key };
            while let Some((key, was)) = kept.next_if(|(key, _)| comes_first(key)) {
                was.as_ref().map_or(ControlFlow::Continue(()), |was| each(was.shown(key)))?;
            }
            match kept.next_if(|(key, _)| key.as_slice() == item.key) {
                Some((key, was)) => {
                    was.as_ref().map_or(ControlFlow::Continue(()), |was| each(was.shown(key)))
                }
                None => each(Shown::of(item)),
            }
        })?;
        for (key, was) in kept {
            was.as_ref().map_or(ControlFlow::Continue(()), |was| each(was.shown(key)))?;
        }
        ControlFlow::Continue(())
    }

    /// The keys of a range that have changed, in the direction of the range.
    fn kept<'s>(&'s self, range: &TreeRange<'_>) -> Peekable<Box<dyn Iterator<Item = Before<'s>> + 's>> {
        let bounds = (range.low, range.high);
        let has_any = match bounds {
            (Bound::Included(low), Bound::Included(high)) => low <= high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                low < high
            }
            _ => true,
        };
        let all: Box<dyn Iterator<Item = Before<'s>>> = match (has_any, range.reverse) {
            (false, _) => Box::new(std::iter::empty()),
            (true, false) => Box::new(self.before.range::<[u8], _>(bounds)),
            (true, true) => Box::new(self.before.range::<[u8], _>(bounds).rev()),
        };
        all.peekable()
    }
}

/// A key that has changed, and what it was.
type Before<'s> = (&'s Vec<u8>, &'s Option<Was>);
