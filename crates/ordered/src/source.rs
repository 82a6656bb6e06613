//! What a replica knows of its leader without a look at the leader's words.

use longarm_base::Csn;
use longarm_memory::{Mapped, Words};
use longarm_replica::page;

use crate::order::StableOf;

/// Where the stable point comes from, and what this replica surely has.
pub(crate) enum Source {
    /// The page that the leader WRITEs.
    Page(Mapped),
    /// The replica's own engine: it has all that it wrote.
    Own(StableOf),
}

impl Source {
    pub fn stable(&self) -> Csn {
        match self {
            Source::Page(page) => Csn(page.load(page::STABLE)),
            Source::Own(stable) => stable(),
        }
    }

    /// A number that grows with whatever the leader's heartbeats tell of so many streams: once an entry is
    /// applied, or acknowledged by this replica.
    pub fn told(&self, streams: usize) -> Option<u64> {
        let Source::Page(page) = self else { return None };
        let floors = (0..streams).map(|stream| page.load(page::floor_at(stream)));
        Some(floors.fold(page.load(page::STABLE), u64::wrapping_add))
    }

    /// This replica surely has all positions of the stream below, except reclaimed ones.
    pub fn floor(&self, stream: usize) -> u64 {
        match self {
            Source::Page(page) => page.load(page::floor_at(stream)),
            Source::Own(_) => u64::MAX,
        }
    }
}
