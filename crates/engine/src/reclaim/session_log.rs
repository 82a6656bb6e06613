//! Outcomes that a session may still ask for outlive their entries (L17; rule KeepNewest of `docs/spec`).
//!
//! A completion record is part of its entry. When the entry is superseded and its segment about to be freed,
//! the outcomes that a client may still ask for (those of its last operations, [`Sessions::may_ask`]) are
//! written once more, as entries with no other content.

use longarm_memory::OwnedWords;
use longarm_store::{EntryKind, EntryMeta};

use crate::commit::Commit;
use crate::engine::Engine;
use crate::session::Sessions;
use crate::stream::{IndexChange, Written};
use crate::worker_context::WorkerContext;
use crate::write::number::{DIGITS_MAX, decimal, parse};

impl<M: OwnedWords> Engine<M> {
    /// Saves the records that a dead segment, or run, holds from `from` on, an offset in the arena. Returns
    /// where to continue, if there is no room for a record now.
    #[must_use]
    pub fn save_records(
        &self,
        context: &mut WorkerContext<M>,
        segment: u32,
        from: u64,
        sessions: &Sessions,
    ) -> Option<u64> {
        let mut stuck = None;
        self.store.visit(segment, from, &mut |place, entry| {
            let asked = |by: &longarm_store::OperationId| sessions.may_ask(by.id, by.operation, entry.csn);
            let Some(by) = entry.session.filter(asked).filter(|_| entry.kind != EntryKind::Noop) else {
                return true;
            };
            let mut text = [0; DIGITS_MAX];
            let number = parse(entry.value).map_or(&[][..], |number| decimal(number, &mut text));
            let WorkerContext { writer, stream, .. } = &mut *context;
            let stream = stream.as_mut().filter(|stream| !stream.is_full());
            let drafted = stream.and_then(|stream| {
                let draft = writer.draft_record(number, EntryMeta::of(EntryKind::Noop).by(by)).ok()?;
                Some((stream, draft))
            });
            let Some((stream, draft)) = drafted else {
                stuck = Some(place.offset);
                return false;
            };
            let copy = writer.finish(draft, entry.csn);
            if let Commit::Replicated(group) = &self.commit {
                group.keep(EntryKind::Noop, copy);
            }
            let change = IndexChange::Replace { from: place, csn: entry.csn };
            stream.push(Written { place: copy, csn: entry.csn, change });
            true
        });
        stuck
    }
}
