//! What replicas say when they elect a leader from what their disks have, since most of them have lost what
//! was in their memory.

use longarm_base::{Csn, Term};

use crate::codec::{Bad, Fields, Out, take_term, yes};

/// A question of a replica that wants to lead with what is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recall {
    /// Whether the replica would promise the term and report, if it were asked.
    PreVote,
    /// Promise the term, and report.
    Promise,
    /// Stand at once, since the asker, whose term it is, may not lead.
    Stand {
        /// An operator accepts that replicas are missing: a majority is enough.
        lossy: bool,
    },
}

/// What is on a replica's disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskReport {
    /// The term whose start set is there; zero if nothing is.
    pub term: Term,
    /// Parts of another start set may be there, too.
    pub mixed: bool,
    /// All entries up to this version are there, and what they replaced may be gone.
    pub stable: Csn,
    /// No version beyond this one was drawn, as far as the disk says.
    pub ceiling: Csn,
    /// The replica can lead with that: it has all of it in its memory.
    pub ready: bool,
    /// The replica has lost nothing of its memory since it was last in sync.
    pub has_memory: bool,
}

impl Recall {
    pub(crate) fn put(self, out: &mut Out) {
        out.u64(match self {
            Recall::PreVote => 0,
            Recall::Promise => 1,
            Recall::Stand { lossy: false } => 2,
            Recall::Stand { lossy: true } => 3,
        });
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Result<Recall, Bad> {
        match fields.u64()? {
            0 => Ok(Recall::PreVote),
            1 => Ok(Recall::Promise),
            2 => Ok(Recall::Stand { lossy: false }),
            3 => Ok(Recall::Stand { lossy: true }),
            _ => Err(Bad("unknown question of an election from disks")),
        }
    }
}

impl DiskReport {
    pub(crate) fn put(&self, out: &mut Out) {
        [self.term.bits(), self.stable.0, self.ceiling.0].into_iter().for_each(|word| out.u64(word));
        [self.mixed, self.ready, self.has_memory].into_iter().for_each(|flag| out.u64(u64::from(flag)));
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Result<DiskReport, Bad> {
        let (term, stable, ceiling) = (take_term(fields)?, Csn(fields.u64()?), Csn(fields.u64()?));
        let (mixed, ready, has_memory) = (yes(fields)?, yes(fields)?, yes(fields)?);
        Ok(DiskReport { term, mixed, stable, ceiling, ready, has_memory })
    }
}
