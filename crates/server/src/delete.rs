//! DELETE: removes a key, if its condition holds. A volatile node that nobody replicates needs no tombstone.

use std::sync::atomic::Ordering;

use longarm_base::Csn;
use longarm_memory::OwnedWords;
use longarm_wire::{Condition, Request, Status};

use crate::clock::Moment;
use crate::engine::{Engine, Outcome, holds};

impl<M: OwnedWords> Engine<M> {
    pub(crate) fn delete(&self, moment: Moment, request: &Request<'_>) -> Outcome {
        let mut pair = self.index.lock(self.hash(request.key));
        let Some(found) = pair.find(request.key) else {
            return absent(request);
        };
        let current = self.current(&found, moment);
        if current.gone {
            self.remove(&mut pair, &found);
            // Relaxed: a counter.
            self.counts.expired.fetch_add(1, Ordering::Relaxed);
            return absent(request);
        }
        if !holds(request.condition, request.argument, current.csn) {
            return Outcome::mismatch(current.csn);
        }
        // A delete is a write: it takes its place among the versions.
        let csn = self.next_csn();
        self.remove(&mut pair, &found);
        Outcome::ok(csn)
    }
}

/// There is nothing to delete; a version that was asked for is not there either.
fn absent(request: &Request<'_>) -> Outcome {
    match request.condition {
        Condition::Version if request.argument != 0 => Outcome::mismatch(Csn::NONE),
        _ => Outcome::of(Status::NotFound),
    }
}
