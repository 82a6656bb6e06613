//! What a replica starts with: an arena, empty or with what its disk has.

use longarm_base::{Csn, Mutant, Term};
use longarm_disk::Note;
use longarm_memory::{Mapped, OwnedWords, SumKey};
use longarm_replica::page;
use longarm_wire::STREAMS_MAX;

use crate::checked_arena::CheckedArena;
use crate::durable::load::{Loaded, load};
use crate::durable::options::Durability;
use crate::durable::settle::KeptDisk;
use crate::log::Log;
use crate::options::{GroupOptions, StartError};

/// What a replica found on its disk.
#[derive(Default)]
pub(crate) struct Kept {
    /// The disk, if it has one.
    pub disk: Option<KeptDisk>,
    /// The term whose start set and streams are in the memory now; none if that does not count, since more
    /// was acknowledged.
    pub sync: Option<Term>,
    /// Parts of another start set may be there, too.
    pub mixed: bool,
    /// No version up to this one is drawn again.
    pub ceiling: Csn,
}

/// Lays out the arena in fresh memory; with what is on the replica's disk, if it has one.
///
/// What a replica `alone` finds is all that there is. In a group what was acknowledged from memory, and is
/// not on this disk, may be with the others: then this replica has lost its memory, and does not vote (D6).
/// Nor does one with a fresh disk, unless it has `founded` the group: the disk before that one may have had
/// anything.
pub(crate) fn arena(
    memory: &Mapped,
    page: &Mapped,
    options: &GroupOptions,
    alone: bool,
    founded: bool,
    log: &Log,
) -> Result<(CheckedArena<Mapped>, Kept), StartError> {
    let arena = CheckedArena { memory: memory.clone(), sums: SumKey::new(options.sum_key) };
    longarm_store::format(&arena.memory, &arena.sums)?;
    let Some(durable) = &options.durable else { return Ok((arena, Kept::default())) };
    let Loaded { disk, note, floors } = load(&arena, durable, options.id, log)?;
    let said = note.clone().unwrap_or_default();
    let fresh = said.term == Term::ZERO && !Mutant::FoundByDisk.is_on();
    let counts = match durable.durability {
        _ if alone => true,
        Durability::Async { .. } => founded && fresh || Mutant::VoteCold.is_on(),
        Durability::Sync => founded || !fresh,
    };
    tell_page(page, &said);
    let ceiling = if Mutant::ResetCeiling.is_on() { Csn::NONE } else { said.ceiling };
    let (term, mixed, same) = (said.term, said.mixed, alone);
    let disk = KeptDisk { disk, note, term, floors, same, lacks_all: mixed };
    Ok((arena, Kept { disk: Some(disk), sync: counts.then_some(term), mixed, ceiling }))
}

/// Notes in the page of a replica what its disk says, as if a leader had told it.
fn tell_page(page: &Mapped, note: &Note) {
    for (stream, floor) in note.floors.iter().take(STREAMS_MAX).enumerate() {
        page.store(page::floor_at(stream), *floor);
    }
    for (at, word) in [(page::ITEMS, note.items), (page::UNIX, note.unix), (page::RECLAIMED, note.reclaimed)]
    {
        page.store(at, word);
    }
}
