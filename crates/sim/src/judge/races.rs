//! I23: no two WRITEs to what a replica lends to its leader race, unless they bring the same bytes. Words of
//! both may stay there for good, whichever of them the leader takes for the last. The judge need not wait for
//! the run in which they do.

use longarm_host::observe::Observation;
use longarm_wire::{ARENA_REGION, PAGE_REGION};

use super::book::Book;
use super::rules::{Rules, Seen};

#[derive(Debug, Default)]
pub(super) struct Races;

impl Rules for Races {
    fn hear(&mut self, seen: Seen<'_>, book: &Book) -> Result<(), String> {
        match seen.event {
            Observation::Raced { from, into, region, offset }
                if *into < book.servers && [ARENA_REGION, PAGE_REGION].contains(region) =>
            {
                let what = if *region == ARENA_REGION { "arena" } else { "page" };
                Err(format!(
                    "I23: two WRITEs of node {from} to the {what} of node {into} race at {offset:#x}"
                ))
            }
            _ => Ok(()),
        }
    }
}
