//! TOUCH: changes when an item is gone, and nothing else of it. The item gets a new version all the same,
//! because a client that cached the old one must see the new expiry.

use longarm_base::Csn;
use longarm_index::hash::{INLINE_MAX, Record};
use longarm_memory::OwnedWords;
use longarm_store::EntryPlace;
use longarm_wire::{Request, Status};

use crate::clock::Moment;
use crate::engine::{ATTEMPTS, Engine, Hand, Outcome, Short, holds};

/// What the item is, as seen at the first look.
enum Seen {
    /// A copy of an inline value.
    Inline([u8; INLINE_MAX], usize),
    /// Where its entry is.
    Entry(EntryPlace),
}

impl<M: OwnedWords> Engine<M> {
    pub(crate) fn touch(
        &self,
        hand: &mut Hand<M>,
        moment: Moment,
        request: &Request<'_>,
    ) -> Result<Outcome, Short> {
        let hash = self.hash(request.key);
        let Some(expiry) = self.expiry_in(request.ttl_ms, moment) else {
            return Ok(Outcome::of(Status::Invalid));
        };
        for _ in 0..ATTEMPTS {
            let (csn, seen) = match self.look(moment, request) {
                Ok(seen) => seen,
                Err(outcome) => return Ok(outcome),
            };
            let Hand { writer, bytes, .. } = &mut *hand;
            let value = match &seen {
                Seen::Inline(value, len) => &value[..*len],
                Seen::Entry(place) => match self.store.read(*place, csn, bytes) {
                    Ok(entry) => entry.value,
                    // Replaced, and its room used again, since the look.
                    Err(_) => continue,
                },
            };
            let item = match self.prepare(writer, moment, (request.key, value), hash, expiry) {
                Ok(item) => item,
                Err(refusal) => return refusal.outcome(),
            };
            let mut pair = self.index.lock(hash);
            let found = pair.find(request.key);
            let current = found.as_ref().map(|found| self.current(found, moment));
            let Some((found, current)) = found.as_ref().zip(current.as_ref()) else { continue };
            // Gone: somebody was told so since the look.
            if current.csn != csn || current.gone {
                continue;
            }
            if pair.reserve(Some(found)).is_err() {
                drop(pair);
                self.make_room(hash, moment)?;
                continue;
            }
            let csn = self.switch(writer, &mut pair, Some((found, current)), item);
            return Ok(Outcome::ok(csn));
        }
        Err(Short::Wait)
    }

    /// The item's version and value, or why there is nothing to do.
    fn look(&self, moment: Moment, request: &Request<'_>) -> Result<(Csn, Seen), Outcome> {
        let pair = self.index.lock(self.hash(request.key));
        let Some(found) = pair.find(request.key) else { return Err(Outcome::of(Status::NotFound)) };
        let current = self.current(&found, moment);
        if current.gone {
            return Err(Outcome::of(Status::NotFound));
        }
        if !holds(request.condition, request.argument, current.csn) {
            return Err(Outcome::mismatch(current.csn));
        }
        let seen = match found.record() {
            Record::Inline { value, .. } => {
                let mut copy = [0; INLINE_MAX];
                copy[..value.len()].copy_from_slice(value);
                Seen::Inline(copy, value.len())
            }
            Record::Entry { entry, .. } => Seen::Entry(self.arena.place(entry)),
        };
        Ok((current.csn, seen))
    }
}
