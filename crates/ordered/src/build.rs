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

use longarm_base::{Csn, Term};
use longarm_index::tree::{Builder, EntryKind, LeafRecord, Owner, Standing, TreeFull};
use longarm_memory::{Mapped, Words};
use longarm_store::SegmentUse;

use crate::arena::{OwnArena, Seen};
use crate::rank::rank;

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

    /// Makes the tree, in the memory of an older one, and says which positions it must have to be right. It
    /// stands where the feed goes on.
    pub fn finish(self, older: Tree, incarnation: u64) -> Result<(Tree, Vec<u64>), TreeFull> {
        let Build { term, until, right_at, keys, found, .. } = self;
        let mut ranks = Vec::new();
        rank(&found, &keys, &mut ranks);
        let mut builder = Builder::anew(older, incarnation);
        for versions in ranks.chunk_by(|a, b| a.is_of_key(*b, &found, &keys)) {
            let newest = &found[versions.last().expect("a chunk has an entry").number()];
            // Until the tree is right, the copy of an entry may be all that is left of it: each counts, and
            // so does each marker.
            let entry = match newest.kind {
                EntryKind::Put | EntryKind::Move => Some(newest.place),
                EntryKind::Tombstone => None,
                EntryKind::Noop => continue,
            };
            let record = LeafRecord { csn: newest.csn, entry, expiry: newest.expiry };
            builder.push(newest.key(&keys), &record)?;
        }
        let standing = Standing { term, stable: Csn::NONE, applied: &until };
        Ok((builder.finish(&standing)?, right_at))
    }
}
