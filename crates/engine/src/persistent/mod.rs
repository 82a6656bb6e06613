//! An engine of a server of its own over persistent memory, which goes on where the last one ended
//! (Continuity hashing III.C): nothing is built anew.
//!
//! What a client was told is persistent: an entry, the slot that names it, the bit of that slot, in this
//! order, before the answer (`longarm_index::hash`, decision 48). Beside these the [`root`] has
//! the tables, the versions and the calendar.
//! (1) What a slot names counts, and nothing else does. So deletes leave no tombstone, as ever on a server of
//!     its own.
//! (2) A restart looks at the slots, and at the first line of each entry that one names.

pub mod layout;
pub mod root;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longarm_base::{Csn, EntryRef, Mutant, UnixMillis};
use longarm_index::control::Control;
use longarm_index::hash::{Discipline, Entries, Owner, Record, ReopenError, Reopened, SlotKind};
use longarm_memory::{Budget, OwnedWords, SumKey};
use longarm_store::{CreateStoreError, Store};

use crate::engine::{Engine, store_options};
use crate::entries::Arena;
use crate::index::{index_options, publisher};
use crate::options::{CreateEngineError, EngineOptions};
use root::{Root, RootError, RootShape};

/// The memory of an engine that outlives it.
pub struct PersistentMemory<M> {
    /// The root.
    pub root: M,
    /// The tables.
    pub index: M,
    /// The entries.
    pub arena: M,
}

/// Why an engine cannot go on from the memory of its last life.
#[derive(Debug, thiserror::Error)]
pub enum ReopenEngineError {
    /// The root is of no use.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The tables are of no use.
    #[error(transparent)]
    Index(#[from] ReopenError),
    /// The entries are of no use.
    #[error(transparent)]
    Arena(#[from] CreateStoreError),
    /// Memory that was never used could not be laid out.
    #[error(transparent)]
    Create(#[from] CreateEngineError),
}

impl<M: OwnedWords + Clone + 'static> Engine<M> {
    /// An engine over persistent memory: over what its last life left, which the report is of, or an empty
    /// one in memory that is all zero.
    pub fn persistent(
        memory: PersistentMemory<M>,
        control: Control<M>,
        sums: SumKey,
        budget: Arc<Budget>,
        options: EngineOptions,
    ) -> Result<(Engine<M>, Option<Reopened>), ReopenEngineError> {
        assert!(options.term.is_none() && options.discipline == Discipline::OutOfPlace);
        let PersistentMemory { root, index, arena } = memory;
        let shape = RootShape { index: index.bytes(), arena: arena.bytes(), slots: options.slots };
        let is_laid_out = Root::is_laid_out(&root);
        let root = Arc::new(Root::new(root, sums.clone()));
        if is_laid_out {
            root.check(shape)?;
            let (engine, found) = Engine::reopen(root, index, arena, control, sums, budget, options)?;
            return Ok((engine, Some(found)));
        }
        let engine = Engine::laid_out(Some(root.clone()), index, arena, control, sums, budget, options)?;
        root.lay_out(shape);
        Ok((engine, None))
    }

    fn reopen(
        root: Arc<Root<M>>,
        index: M,
        arena: M,
        control: Control<M>,
        sums: SumKey,
        budget: Arc<Budget>,
        options: EngineOptions,
    ) -> Result<(Engine<M>, Reopened), ReopenEngineError> {
        let store =
            Store::reopen(arena, budget.clone(), store_options(&budget, &options, true), sums.clone())?;
        let (arena, (geometry, used)) = (Arena { memory: store.memory().clone() }, root.geometry()?);
        let (publish, index_options) = (publisher(control, Some(root.clone())), index_options(&options));
        let (index, found) =
            Owner::reopen(index, arena, sums, budget.clone(), index_options, geometry, used, publish)?;
        let ceiling = if Mutant::DrawAgain.is_on() { Csn::NONE } else { root.ceiling() };
        let mut engine = Engine::over(index, store, budget, options);
        engine.root = Some(root);
        engine.go_on_above(ceiling);
        engine.name_entries()?;
        engine.end_move()?;
        engine.store.served();
        Ok((engine, found))
    }

    /// Counts the entries that slots name.
    fn name_entries(&self) -> Result<(), CreateStoreError> {
        // A slot of 16 bytes does not say whether its item has a time to live.
        let may_expire = AtomicBool::new(self.options.slots == SlotKind::Pointer16);
        self.index.each_record(|record| {
            let (expiry, named) = match *record {
                Record::Inline { expiry, .. } => (expiry, Ok(())),
                Record::Entry { csn, entry, expiry, .. } => (expiry, self.store.name(entry, csn)),
            };
            if expiry != UnixMillis::NEVER {
                // Relaxed: looked at by the thread that waits for all these.
                may_expire.store(true, Ordering::Relaxed);
            }
            named
        })?;
        // Relaxed: no other thread has the engine yet.
        self.ttl_used.store(may_expire.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(())
    }

    /// Gives the entry that was being moved the slot that it may lack.
    fn end_move(&self) -> Result<(), CreateStoreError> {
        let root = self.root.as_ref().expect("memory that was reopened has a root");
        let Some((entry, csn)) = root.was_moving() else { return Ok(()) };
        let damaged = || CreateStoreError::Named { place: entry, csn };
        let is_there =
            entry.offset.checked_add(entry.len.into()).is_some_and(|end| end <= self.arena.memory.bytes());
        let key = if is_there { self.arena.key_of(entry, csn) } else { None }.ok_or_else(damaged)?;
        let hash = self.hash(&key);
        let index = self.index.read();
        let mut pair = index.lock(hash);
        if pair.find(&key).is_none() {
            self.store.name(entry, csn)?;
            let expiry = self.arena.expiry(entry, csn);
            let stored = pair.insert(&Record::Entry { csn, entry, hash, expiry });
            assert!(stored.is_ok(), "the slot that it had is free, and nobody else writes");
        }
        drop(pair);
        root.moved();
        Ok(())
    }
}

impl<M: OwnedWords> Engine<M> {
    /// Moves an entry to a copy of it, whether or not its pair has a free slot for that.
    pub(crate) fn noting_move(&self, entry: EntryRef, csn: Csn, moves: impl FnOnce()) {
        match &self.root {
            Some(root) => root.moving(entry, csn, moves),
            None => moves(),
        }
    }
}
