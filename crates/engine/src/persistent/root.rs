//! The root of persistent memory: where a server goes on from in its next life. Bytes: [`super::layout`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longarm_base::{Csn, EntryRef, Mutant, UnixMillis};
use longarm_host::Mutex;
use longarm_index::control;
use longarm_index::control::layout::GEOMETRY_WORDS;
use longarm_index::hash::{Geometry, SlotKind};
use longarm_memory::{OwnedWords, SumKey};

use super::layout::{MAGIC, at};

/// Versions that may be drawn before the ceiling is raised. A life that does not end in order wastes them.
const VERSIONS: u64 = 1 << 20;

/// How far the bound of the calendar is ahead of what is told at most, when it moves.
pub const CALENDAR_AHEAD: Duration = Duration::from_millis(20);

/// Why a root is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// It is none.
    #[error("it is no root of a server's memory that this program knows (its first word is {0:#018x})")]
    Foreign(u64),
    /// The server has another option than its memory was laid out with.
    #[error("its memory was laid out with {what} {found}, and the server has {wanted}: start it as before")]
    Other {
        /// Which option.
        what: &'static str,
        /// As it was.
        found: u64,
        /// As it is.
        wanted: u64,
    },
    /// Neither record of the geometry verifies.
    #[error("it does not say where the tables are: it is damaged")]
    Geometry,
}

/// What memory must be laid out alike in each life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootShape {
    /// Bytes of the index.
    pub index: u64,
    /// Bytes of the arena.
    pub arena: u64,
    /// Kind of slots.
    pub slots: SlotKind,
}

impl RootShape {
    /// The words that say it, with their places, and what they are in bytes of slots for people.
    fn words(&self) -> [(&'static str, u64, u64); 3] {
        let slot = if self.slots == SlotKind::Pointer16 { 16 } else { 64 };
        [
            ("index bytes", at::INDEX, self.index),
            ("arena bytes", at::ARENA, self.arena),
            ("slot bytes", at::SLOTS, slot),
        ]
    }
}

/// The root, in memory that is persistent.
#[derive(Debug)]
pub struct Root<M> {
    memory: M,
    sums: SumKey,
    /// As the memory has it.
    ceiling: AtomicU64,
    /// Of the calendar, as the memory has it.
    bound: AtomicU64,
    raising: Mutex<()>,
    moving: Mutex<()>,
}

impl<M: OwnedWords> Root<M> {
    /// Whether memory was laid out by a server, which ended.
    pub fn is_laid_out(memory: &M) -> bool {
        memory.load(at::MAGIC) != 0
    }

    /// The kind of slots with which memory was laid out.
    pub fn slots(memory: &M) -> SlotKind {
        if memory.load(at::SLOTS) == 16 { SlotKind::Pointer16 } else { SlotKind::Inline64 }
    }

    /// The root in this memory: zeroed, or of an earlier life.
    pub fn new(memory: M, sums: SumKey) -> Root<M> {
        let [ceiling, bound] = [at::CEILING, at::CALENDAR].map(|at| AtomicU64::new(memory.load(at)));
        Root { memory, sums, ceiling, bound, raising: Mutex::default(), moving: Mutex::default() }
    }

    /// Checks that it is a root, of memory of this shape.
    pub fn check(&self, shape: RootShape) -> Result<(), RootError> {
        let magic = self.memory.load(at::MAGIC);
        if magic != MAGIC {
            return Err(RootError::Foreign(magic));
        }
        for (what, at, wanted) in shape.words() {
            let found = self.memory.load(at);
            if found != wanted {
                return Err(RootError::Other { what, found, wanted });
            }
        }
        Ok(())
    }

    /// From now on there is something to go on from.
    pub fn lay_out(&self, shape: RootShape) {
        for (_, at, word) in shape.words() {
            self.memory.store(at, word);
        }
        self.keep(0, 64);
        self.set(at::MAGIC, MAGIC);
    }

    fn keep(&self, at: u64, len: u64) {
        self.memory.flush(at, len);
        self.memory.fence();
    }

    fn set(&self, at: u64, word: u64) {
        self.memory.store(at, word);
        self.keep(at, 8);
    }

    /// The version above which the next life draws.
    pub fn ceiling(&self) -> Csn {
        Csn(self.memory.load(at::CEILING))
    }

    /// Lets this version be used: once this returns, no later life draws it.
    #[inline]
    pub fn allow(&self, csn: Csn) {
        // Acquire: a ceiling that is seen is persistent.
        if csn.0 > self.ceiling.load(Ordering::Acquire) {
            self.raise(at::CEILING, &self.ceiling, csn.0, csn.0 + VERSIONS);
        }
    }

    /// Raises what is persistent as far as `to`, if `needed` is beyond it.
    #[cold]
    fn raise(&self, at: u64, persistent: &AtomicU64, needed: u64, to: u64) {
        let _raising = self.raising.lock();
        // Relaxed: the lock orders those that raise it.
        if needed > persistent.load(Ordering::Relaxed) {
            self.set(at, to);
            // Release: pairs with `allow` and `allow_time`.
            persistent.store(to, Ordering::Release);
        }
    }

    /// No version above this one was drawn, nor will be in this life.
    pub fn end(&self, csn: Csn, unix: UnixMillis) {
        self.set(at::CEILING, csn.0);
        self.set(at::CALENDAR, unix.0 + 1);
    }

    /// The calendar of the next life begins here, or later.
    pub fn calendar(&self) -> UnixMillis {
        UnixMillis(self.memory.load(at::CALENDAR))
    }

    /// Lets this time be told: once this returns, no later life tells an earlier one.
    #[inline]
    pub fn allow_time(&self, unix: UnixMillis) {
        // Acquire: a bound that is seen is persistent.
        if unix.0 >= self.bound.load(Ordering::Acquire) && !Mutant::ForgetTime.is_on() {
            let ahead = CALENDAR_AHEAD.as_millis() as u64;
            self.raise(at::CALENDAR, &self.bound, unix.0 + 1, unix.0 + ahead);
        }
    }

    /// Makes a geometry persistent. Its owner calls it for each, with the tables locked.
    pub fn publish(&self, geometry: &Geometry) {
        let ends = geometry.live().map(|table| table.base + table.bytes());
        let used = ends.fold(self.memory.load(at::USED), u64::max);
        self.set(at::USED, used);
        let place = at::GEOMETRY[(geometry.epoch % 2) as usize];
        let record = control::record(geometry, &self.sums);
        self.memory.copy_in(place, &record);
        if !Mutant::ForgetGeometry.is_on() {
            self.keep(place, record.len() as u64);
        }
    }

    /// The geometry that was published last, and the bytes of the index below which every table ended.
    pub fn geometry(&self) -> Result<(Geometry, u64), RootError> {
        let index = self.memory.load(at::INDEX);
        let read = |place: u64| {
            let mut record = [0; 8 * GEOMETRY_WORDS];
            self.memory.copy_out(place, &mut record);
            control::geometry(&record, &self.sums, index)
        };
        let records = at::GEOMETRY.into_iter().filter_map(read);
        let geometry = records.max_by_key(|geometry| geometry.epoch).ok_or(RootError::Geometry)?;
        let used = self.memory.load(at::USED).min(index);
        Ok((geometry, geometry.live().map(|table| table.base + table.bytes()).fold(used, u64::max)))
    }

    /// Notes that the slot of this entry is emptied before it is written again, which `moves` does.
    pub fn moving(&self, entry: EntryRef, csn: Csn, moves: impl FnOnce()) {
        let _moving = self.moving.lock();
        if !Mutant::MoveUnnoted.is_on() {
            self.memory.store(at::MOVING_OFFSET, entry.offset);
            self.memory.store(at::MOVING_LEN, entry.len.into());
            self.set(at::MOVING, csn.0);
        }
        moves();
        self.moved();
    }

    /// The entry that was being moved when the last life ended.
    pub fn was_moving(&self) -> Option<(EntryRef, Csn)> {
        let (csn, offset) = (self.memory.load(at::MOVING), self.memory.load(at::MOVING_OFFSET));
        let len = self.memory.load(at::MOVING_LEN) as u32;
        (csn != 0).then_some((EntryRef { offset, len }, Csn(csn)))
    }

    /// It has its slot.
    pub fn moved(&self) {
        self.set(at::MOVING, 0);
    }
}

#[test]
fn what_may_be_told_is_kept_for_the_next_life() {
    use crate::testing::{memory, sums};
    use longarm_memory::Words;

    let memory = memory(super::layout::BYTES);
    let root = Root::new(memory.clone(), sums());
    root.allow_time(UnixMillis(100));
    assert_eq!(root.calendar(), UnixMillis(120));
    root.allow_time(UnixMillis(119));
    assert_eq!(memory.load(at::CALENDAR), 120, "it was allowed");
    root.allow_time(UnixMillis(120));
    root.allow(Csn(7));
    let next = Root::new(memory, sums());
    assert_eq!((next.calendar(), next.ceiling()), (UnixMillis(140), Csn(7 + VERSIONS)));
    next.end(Csn(9), UnixMillis(125));
    assert_eq!((next.calendar(), next.ceiling()), (UnixMillis(126), Csn(9)));
}
