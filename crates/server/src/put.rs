//! PUT: stores a value, if its condition holds.

use std::sync::atomic::Ordering;

use longarm_base::{Csn, UnixMillis};
use longarm_memory::{Hash, OwnedWords};
use longarm_wire::{Request, Status};

use crate::clock::Moment;
use crate::engine::{ATTEMPTS, Engine, Hand, Outcome, Short, holds};

impl<M: OwnedWords> Engine<M> {
    pub(crate) fn put(
        &self,
        hand: &mut Hand<M>,
        moment: Moment,
        request: &Request<'_>,
    ) -> Result<Outcome, Short> {
        let (key, value) = (request.key, request.value);
        let hash = self.hash(key);
        let Some(mut expiry) = self.expiry_in(request.ttl_ms, moment) else {
            return Ok(Outcome::of(Status::Invalid));
        };
        if request.keep_ttl {
            expiry = self.expiry_of(hash, key, moment);
        }
        let mut prepared = None;
        for _ in 0..ATTEMPTS {
            let item = match prepared.take() {
                Some(item) => item,
                None => match self.prepare(&mut hand.writer, moment, (key, value), hash, expiry) {
                    Ok(item) => item,
                    Err(refusal) => return refusal.outcome(),
                },
            };
            let mut pair = self.index.lock(hash);
            let found = pair.find(key);
            let current = found.as_ref().map(|found| self.current(found, moment));
            let live = current.filter(|current| !current.gone);
            let csn = live.map_or(Csn::NONE, |current| current.csn);
            if !holds(request.condition, request.argument, csn) {
                return Ok(Outcome::mismatch(csn));
            }
            let kept = live.map_or(UnixMillis::NEVER, |current| current.expiry);
            if request.keep_ttl && kept != expiry {
                // Somebody changed it since we looked; the entry says the old one.
                expiry = kept;
                continue;
            }
            if pair.reserve(found.as_ref()).is_err() {
                drop(pair);
                self.make_room(hash, moment)?;
                prepared = Some(item);
                continue;
            }
            if current.is_some_and(|current| current.gone) {
                // Relaxed: a counter.
                self.counts.expired.fetch_add(1, Ordering::Relaxed);
            }
            let csn = self.switch(&mut hand.writer, &mut pair, found.as_ref().zip(current.as_ref()), item);
            drop(pair);
            self.mark(hash);
            return Ok(Outcome::ok(csn));
        }
        Err(Short::Wait)
    }

    /// The expiry that a key's item has now.
    fn expiry_of(&self, hash: Hash, key: &[u8], moment: Moment) -> UnixMillis {
        let pair = self.index.lock(hash);
        let current = pair.find(key).map(|found| self.current(&found, moment));
        current.filter(|current| !current.gone).map_or(UnixMillis::NEVER, |current| current.expiry)
    }
}
