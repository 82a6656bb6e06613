//! GET through the server, for clients whose one-sided READs cannot settle it.

use longarm_base::{Csn, EntryRef, Mutant, UnixMillis};
use longarm_index::hash::Record;
use longarm_memory::{Hash, OwnedWords};
use longarm_wire::{Request, SpilledKey, Status};

use crate::commit::Commit;
use crate::engine::{ATTEMPTS, Engine};
use crate::outcome::{Outcome, Short};
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;

/// Bytes of the keys in one answer.
const SPILLED_BYTES: usize = 16 << 10;

impl<M: OwnedWords> Engine<M> {
    /// Reads an item; the value is left in [`WorkerContext::value`], and `number` is the time to live that is
    /// left. [`Short::Busy`] if the item's time is over and a write that may have found it alive is on its
    /// way to the followers: once that write is applied, the item may be there again, with another expiry.
    pub fn get(
        &self,
        context: &mut WorkerContext<M>,
        times: Timestamps,
        request: &Request<'_>,
    ) -> Result<Outcome, Short> {
        context.value = 0..0;
        let hash = self.hash(request.key);
        for _ in 0..ATTEMPTS {
            let index = self.index.read();
            let pair = index.lock(hash);
            let found = pair.find(request.key);
            let current = found.as_ref().map(|found| self.current(found, times));
            let live = found.as_ref().zip(current).filter(|(_, current)| !current.gone);
            let Some((found, current)) = live else { return self.absent(hash, current.is_some()) };
            let outcome = Outcome { number: left(current.expiry, times), ..Outcome::ok(current.csn) };
            if let Record::Inline { value, .. } = found.record() {
                context.bytes.clear();
                context.bytes.extend_from_slice(value);
                context.value = 0..value.len();
                self.mark(hash);
                return Ok(outcome);
            }
            drop(pair);
            drop(index);
            let place = current.place.expect("what is not inline has an entry");
            // Not under the lock: a long copy would keep writers waiting. Meanwhile the entry may have been
            // replaced; then the copy is the value of a moment ago. If its room was used again, the entry
            // does not verify.
            if self.read_value(context, place, current.csn) {
                self.mark(hash);
                return Ok(outcome);
            }
        }
        // Writers of this key came between every time, so the last look is under the lock.
        self.get_locked(context, times, request)
    }

    /// Keys of items that are stored beside the index, for a walk over all items: the keys that come after
    /// `after`, or the first ones if it is empty. Each comes with the time that its item has left.
    pub fn spilled(&self, after: &[u8], times: Timestamps) -> Vec<u8> {
        let last = (!after.is_empty()).then_some(after);
        let mut list = Vec::new();
        for key in self.index.spilled_keys(last, SPILLED_BYTES) {
            let index = self.index.read();
            let pair = index.lock(self.hash(&key));
            let expiry =
                pair.find(&key).map_or(UnixMillis::NEVER, |found| self.current(&found, times).expiry);
            SpilledKey { key: &key, expiry }.encode(&mut list);
        }
        list
    }

    /// The answer for an item that is absent or gone. The caller holds the lock of its pair. A write that is
    /// not under way now is either applied, and was found, or will be judged, and find that the item is gone.
    fn absent(&self, hash: Hash, gone: bool) -> Result<Outcome, Short> {
        match &self.commit {
            Commit::Replicated(group) if gone && !Mutant::TellGone.is_on() => {
                match group.stripes.is_held_alone(hash) {
                    true => Err(Short::Busy),
                    false => Ok(Outcome::of(Status::NotFound)),
                }
            }
            _ => Ok(Outcome::of(Status::NotFound)),
        }
    }

    fn get_locked(
        &self,
        context: &mut WorkerContext<M>,
        times: Timestamps,
        request: &Request<'_>,
    ) -> Result<Outcome, Short> {
        let hash = self.hash(request.key);
        let index = self.index.read();
        let pair = index.lock(hash);
        let found = pair.find(request.key);
        let current = found.as_ref().map(|found| self.current(found, times));
        let live = current.filter(|current| !current.gone);
        let Some(current) = live else { return self.absent(hash, current.is_some()) };
        if let Some(Record::Inline { value, .. }) = found.as_ref().map(|found| found.record()) {
            context.bytes.clear();
            context.bytes.extend_from_slice(value);
            context.value = 0..value.len();
        } else {
            let place = current.place.expect("what is not inline has an entry");
            assert!(
                self.read_value(context, place, current.csn),
                "a slot names {place:?}, which does not verify"
            );
        }
        Ok(Outcome { number: left(current.expiry, times), ..Outcome::ok(current.csn) })
    }

    fn read_value(&self, context: &mut WorkerContext<M>, place: EntryRef, csn: Csn) -> bool {
        let start = match self.store.read(place, csn, &mut context.bytes) {
            Ok(entry) => (entry.value.as_ptr().addr(), entry.value.len()),
            Err(_) => return false,
        };
        let at = start.0 - context.bytes.as_ptr().addr();
        context.value = at..at + start.1;
        true
    }
}

fn left(expiry: UnixMillis, times: Timestamps) -> i64 {
    if expiry == UnixMillis::NEVER {
        return 0;
    }
    i64::try_from(expiry.0.saturating_sub(times.unix.0)).unwrap_or(i64::MAX)
}
