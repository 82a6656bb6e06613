//! What the streams of a term wrote, named to the scribe of the leader's disk: from the words by which the
//! streams say how far they are (`longarm_store::progress`). The threads that write do nothing for it.

use longarm_base::limits::LINE;
use longarm_disk::{Medium, Scribe};
use longarm_memory::{Mapped, Words};
use longarm_store::object::total_len;
use longarm_store::progress::layout::{entry_at, offset_of};
use longarm_store::segment::layout::segment_of;
use longarm_store::segment::{claim_number, replica_line, room_length, run_length};

use crate::checked_arena::CheckedArena;

/// What is known of a segment.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The claim whose line was named; zero if none was.
    claim: u64,
    /// Bytes of a room; zero in a run.
    room: u32,
}

/// How much of each stream is named.
pub(crate) struct Feed {
    arena: CheckedArena<Mapped>,
    progress: Mapped,
    /// By stream: all positions below are named.
    taken: Vec<u64>,
    /// By segment.
    known: Vec<Known>,
}

impl Feed {
    /// The feed of a term's streams, nothing of which is written yet. `progress` has their words.
    pub fn new(arena: CheckedArena<Mapped>, progress: Mapped, streams: usize, segments: u32) -> Feed {
        Feed { arena, progress, taken: vec![0; streams], known: vec![Known::default(); segments as usize] }
    }

    /// By stream: all positions below are named.
    pub fn taken(&self) -> &[u64] {
        &self.taken
    }

    /// Names what a stream wrote, up to a position. It names less if a line that it must name is being
    /// changed; the rest is for the next time.
    ///
    /// # Panics
    /// If the directory has lost the place of a position that is not named: the gate keeps streams from
    /// writing so far.
    pub fn take(&mut self, stream: usize, until: u64, scribe: &mut Scribe<impl Medium>) {
        while self.taken[stream] < until {
            let position = self.taken[stream];
            let word = self.progress.load(entry_at(stream, position));
            let offset = offset_of(word, position).expect("the gate keeps the directory long enough");
            let Some(room) = self.named_line(segment_of(offset), scribe) else { return };
            let len = if room > 0 { u64::from(room) } else { self.entry_len(offset) };
            scribe.name_entry(stream, offset, len);
            self.taken[stream] += 1;
        }
    }

    /// Names the line of a segment, or those of the run that begins there, unless they are named. Returns the
    /// bytes of a room; `None` if a line is being changed.
    fn named_line(&mut self, segment: u32, scribe: &mut Scribe<impl Medium>) -> Option<u32> {
        let CheckedArena { memory, sums } = &self.arena;
        let (known, claim) = (self.known[segment as usize], claim_number(memory, segment));
        if known.claim == claim {
            return Some(known.room);
        }
        for line in segment..segment + run_length(memory, segment) {
            scribe.name_line(line, &replica_line(memory, sums, line)?);
        }
        let room = room_length(memory, segment).unwrap_or(0);
        self.known[segment as usize] = Known { claim, room };
        Some(room)
    }

    /// The bytes of an entry that is alone in its run.
    fn entry_len(&self, offset: u64) -> u64 {
        let mut line = [0; LINE as usize];
        self.arena.memory.copy_out(offset, &mut line);
        let len = total_len(&line).expect("the stream wrote an entry there");
        u64::from(len).next_multiple_of(8)
    }
}
