//! What is left of a replica's earlier lives when it starts: what its vote store kept, and its disk.

use longarm_base::Term;
use longarm_memory::Mapped;
use longarm_replica::PersistentState;
use longarm_wire::MemberAt;

use super::peer_handle::founders;
use crate::checked_arena::CheckedArena;
use crate::durable::kept::{self, Kept};
use crate::log::Log;
use crate::options::{GroupOptions, StartError};
use crate::vote_store::Promise;

/// What a replica starts with.
pub(super) struct Past {
    /// What the vote store keeps from now on.
    pub promise: Promise,
    /// Whether the vote store kept nothing.
    pub forgot: bool,
    /// Whether it is the only replica of its group, and is to be added to none.
    pub alone: bool,
    /// The arena, empty or with what the disk has.
    pub arena: CheckedArena<Mapped>,
    pub kept: Kept,
}

impl Past {
    /// Reads what is left, and notes in the vote store that the replica started once more. `chance` is a
    /// number that was drawn.
    pub fn read(
        options: &GroupOptions,
        arena: &Mapped,
        page: &Mapped,
        chance: u64,
        log: &Log,
    ) -> Result<Past, StartError> {
        let failed = |step: &'static str| move |error| StartError::Os(step, error);
        let before = options.vote_store.load().map_err(failed("read what this replica promised"))?;
        let forgot = before.is_none();
        let mut promise = before.unwrap_or_default();
        // Members that the replica was told later go over those that the group began with.
        if promise.members.list.is_empty() {
            promise.members = founders(options);
        }
        let is_me = |members: &[MemberAt]| matches!(members, [one] if one.replica == options.replica);
        let (alone, founded) = (is_me(&promise.members.list) && !options.joins, !promise.founders.is_empty());
        let (arena, kept) = kept::arena(arena, page, options, alone, founded, log)?;
        // Whoever holds the start set of a term has promised it.
        let on_disk = kept.disk.as_ref().map_or(Term::ZERO, |disk| disk.term);
        promise.term = promise.term.max(on_disk);
        promise.boot += 1;
        if promise.origin == 0 {
            promise.origin = chance.max(1);
        }
        options.vote_store.store(&promise).map_err(failed("keep what this replica promised"))?;
        Ok(Past { promise, forgot, alone, arena, kept })
    }

    /// Whether the replica promised nothing, or what it promised is lost. Nobody else knows it of a replica
    /// alone.
    pub fn is_blank(&self) -> bool {
        self.promise.term == Term::ZERO || (self.forgot && !self.alone)
    }

    pub fn state(&self) -> PersistentState {
        let Promise { term, members, origin, founders, .. } = self.promise.clone();
        PersistentState { members, promised: term, sync: self.kept.sync, origin, founders }
    }
}
