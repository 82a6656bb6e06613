//! Looks at requests that have arrived and wait for their turn, and has the index lines of their keys
//! fetched. A request that finds none of them in the cache waits for memory twice, for the header of its pair
//! and for the slot, and that is half the time of a short write.
//!
//! What it sees is a hint: the frame is not taken, so nothing of it was checked.

use longarm_fabric::Completion;
use longarm_fabric::ring::Mailbox;
use longarm_index::hash::Table;
use longarm_memory::{Hash, Mapped};
use longarm_wire::Request;

use longarm_engine::Engine;

/// How many requests ahead a header is fetched.
const HEADER: usize = 6;
/// How many requests ahead a slot is fetched: the header has come by then.
const SLOT: usize = 3;
/// Bytes of a message that are looked at: a longer key is not seen.
const BEGINNING: usize = 128;

/// How far the requests of one poll were looked at.
pub(crate) struct Lookahead {
    /// Of the last few requests that were looked at, each at its number modulo [`HEADER`].
    hashes: [Option<Hash>; HEADER],
    headers: usize,
    slots: usize,
}

impl Lookahead {
    pub fn new() -> Lookahead {
        Lookahead { hashes: [None; HEADER], headers: 0, slots: 0 }
    }

    /// Forgets the requests of the last poll.
    pub fn clear(&mut self) {
        (self.headers, self.slots) = (0, 0);
    }

    /// Has the lines of the requests from the `next`-th on fetched, so far as it is their time.
    #[inline]
    pub fn fetch(
        &mut self,
        engine: &Engine<Mapped>,
        table: &Table,
        mailbox: &Mailbox,
        arrivals: &[Completion],
        next: usize,
    ) {
        let headers = arrivals.len().min(next + HEADER);
        for (at, arrival) in arrivals.iter().enumerate().take(headers).skip(self.headers) {
            let hash = hash(engine, mailbox, *arrival);
            hash.iter().for_each(|hash| engine.index.prefetch(table, *hash));
            self.hashes[at % HEADER] = hash;
        }
        self.headers = headers;
        let slots = headers.min(next + SLOT);
        for at in self.slots..slots {
            self.hashes[at % HEADER].iter().for_each(|hash| engine.index.prefetch_slot(table, *hash));
        }
        self.slots = slots;
    }
}

/// The hash of the key of the request that has arrived so.
#[inline]
fn hash(engine: &Engine<Mapped>, mailbox: &Mailbox, arrival: Completion) -> Option<Hash> {
    let Completion::Arrived { imm, len } = arrival else { return None };
    let mut beginning = [0; BEGINNING];
    let key = Request::peek_key(mailbox.peek(imm, len, &mut beginning))?;
    Some(engine.hash(key))
}
