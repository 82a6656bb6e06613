//! A tree of all that the arena holds, looked at a little at a time while the leader writes on.
//!
//! (1) The uses of the segments are noted before the sample of applied positions from which the feed goes on
//!     ([`Build::new`]). What was freed earlier was replaced by entries that were applied before the sample.
//!     They are noted once more when all that the sample found has landed here ([`Build::note`]): a segment
//!     of it may have been claimed here only since.
//! (2) Entries of older terms count whole; those of the term below the sample's positions.
//! (3) A use that is over when all was looked at may have lost entries that were not looked at. What replaced
//!     them is applied by then, so a tree that has all that a later sample says is right again.
//! (4) Of each key the newest version counts, and of its copies the youngest.

use std::ops::Range;

use longarm_base::{Csn, Term};
use longarm_index::tree::{Builder, EntryKind, LeafRecord, Owner, Standing, TreeFull};
use longarm_memory::{Mapped, Words};
use longarm_store::SegmentUse;

use crate::arena::{OwnArena, Seen};
use crate::rank::{Ranked, halve, in_order, number, sort};

/// The tree of a replica.
pub(crate) type Tree = Owner<Mapped, OwnArena>;

/// Rooms that are looked at before the caller has its turn.
const ROOMS: usize = 2048;

/// The uses of the segments at one moment.
#[derive(Debug, Default)]
pub(crate) struct Uses(Vec<SegmentUse>);

impl Uses {
    /// The uses now.
    pub fn now(arena: &mut OwnArena) -> Uses {
        let Some(geometry) = arena.geometry() else { return Uses::default() };
        let read = |segment| SegmentUse::read(arena.view(), geometry, segment);
        Uses((geometry.table..geometry.segments).filter_map(read).collect())
    }
}

/// A tree under way.
#[derive(Debug)]
pub(crate) struct Build {
    term: Term,
    /// By stream of the term, the position from which on entries come by the feed.
    until: Vec<u64>,
    /// The tree is right once it has these positions.
    right_at: Vec<u64>,
    uses: Uses,
    next: usize,
    room: u64,
    keys: Vec<u8>,
    found: Vec<Seen>,
}

impl Build {
    /// A tree of the entries in these uses that are older than the term, or below these positions of its
    /// streams.
    pub fn new(term: Term, until: Vec<u64>, uses: Uses) -> Build {
        let (keys, found) = Default::default();
        Build { term, right_at: until.clone(), until, uses, next: 0, room: 0, keys, found }
    }

    /// Notes uses that have begun since, before anything is looked at. What was applied by a later sample is
    /// `right_at`.
    pub fn note(&mut self, uses: Uses, memory: &dyn Words, right_at: Vec<u64>) {
        let is_known = |new: &SegmentUse| {
            let at = self.uses.0.binary_search_by_key(&new.segment, |known| known.segment);
            at.is_ok_and(|at| self.uses.0[at].stands(memory))
        };
        let new: Vec<SegmentUse> = uses.0.into_iter().filter(|new| !is_known(new)).collect();
        self.uses.0.extend(new);
        self.right_at = right_at;
    }

    /// Notes what was found without a look.
    #[cfg(test)]
    pub fn found(&mut self, key: &[u8], seen: Seen) {
        let key_at = (self.keys.len(), key.len());
        self.keys.extend_from_slice(key);
        self.found.push(Seen { key: key_at, ..seen });
    }

    /// How many hundredths of the segments were looked at.
    pub fn percent(&self) -> u8 {
        (self.next * 100).checked_div(self.uses.0.len()).unwrap_or(100) as u8
    }

    /// Looks at more rooms; whether all were looked at.
    pub fn look(&mut self, arena: &OwnArena) -> bool {
        let Some(use_of) = self.uses.0.get(self.next) else { return true };
        let Build { term, until, keys, found, .. } = self;
        let line = &use_of.line;
        let below = match line.term {
            of if of < *term => u64::MAX,
            of if of == *term => until.get(usize::from(line.stream)).copied().unwrap_or(0),
            _ => 0,
        };
        let more = use_of.visit(arena.view(), self.room, ROOMS, &mut |place, entry| {
            if entry.position < below && !entry.key.is_empty() {
                found.push(Seen::of(place, entry, keys));
            }
        });
        self.room = more.unwrap_or(0);
        self.next += usize::from(more.is_none());
        self.next == self.uses.0.len()
    }

    /// Whether a use that was to be looked at is over by now.
    pub fn is_torn(&self, memory: &dyn Words) -> bool {
        self.uses.0.iter().any(|use_of| !use_of.stands(memory))
    }

    /// All was looked at: the tree is written into the memory of an older one.
    pub fn write(self, older: Tree, incarnation: u64) -> Writing {
        let Build { term, until, right_at, keys, found, .. } = self;
        let mut ranks = Vec::new();
        number(&found, &keys, &mut ranks);
        let (whole, builder) = (0..ranks.len(), Builder::anew(older, incarnation));
        Writing { term, until, right_at, keys, found, ranks, unsorted: vec![whole], last: None, builder }
    }
}

/// Entries that are put in order and written at once.
const PART: usize = 16_384;

/// A tree that is written from what was looked at.
pub(crate) struct Writing {
    term: Term,
    until: Vec<u64>,
    right_at: Vec<u64>,
    keys: Vec<u8>,
    found: Vec<Seen>,
    ranks: Vec<Ranked>,
    /// Parts of the entries, each of which is behind the next, that are in no order yet.
    unsorted: Vec<Range<usize>>,
    /// The last entry that was seen in order; it counts if no other of its key comes.
    last: Option<Ranked>,
    builder: Builder<Mapped, OwnArena>,
}

impl Writing {
    /// How many hundredths of the entries were written.
    pub fn percent(&self) -> u8 {
        let left =
            self.unsorted.first().map_or(0, |last| last.end - self.unsorted[self.unsorted.len() - 1].start);
        ((self.ranks.len() - left) * 100).checked_div(self.ranks.len()).unwrap_or(100) as u8
    }

    /// Orders and writes some more; whether all is written.
    pub fn go_on(&mut self) -> Result<bool, TreeFull> {
        let Some(part) = self.unsorted.pop() else { return Ok(true) };
        let ranks = &mut self.ranks[part.clone()];
        if ranks.len() > PART {
            let middle = part.start + halve(ranks, &self.found, &self.keys);
            self.unsorted.extend([middle..part.end, part.start..middle]);
            return Ok(false);
        }
        sort(ranks, &self.found, &self.keys);
        for ranked in in_order(&self.ranks[part], &self.found, &self.keys) {
            let before = self.last.replace(ranked);
            if let Some(before) = before.filter(|before| !before.is_of_key(ranked, &self.found, &self.keys)) {
                push(&mut self.builder, &self.found[before.number()], &self.keys)?;
            }
        }
        Ok(self.unsorted.is_empty())
    }

    /// The tree, once all is written, and which positions it must have to be right. It stands where the feed
    /// goes on.
    pub fn finish(mut self) -> Result<(Tree, Vec<u64>), TreeFull> {
        if let Some(last) = self.last {
            push(&mut self.builder, &self.found[last.number()], &self.keys)?;
        }
        let standing = Standing { term: self.term, stable: Csn::NONE, applied: &self.until };
        Ok((self.builder.finish(&standing)?, self.right_at))
    }
}

/// Adds the newest entry of a key. Until the tree is right, the copy of an entry may be all that is left of
/// it: each counts, and so does each marker.
fn push(builder: &mut Builder<Mapped, OwnArena>, newest: &Seen, keys: &[u8]) -> Result<(), TreeFull> {
    let entry = match newest.kind {
        EntryKind::Put | EntryKind::Move => Some(newest.place),
        EntryKind::Tombstone => None,
        EntryKind::Noop => return Ok(()),
    };
    let record = LeafRecord { csn: newest.csn, entry, expiry: newest.expiry };
    builder.push(newest.key(keys), &record)
}
