//! Multi-GET: many lookups in flight at once. One doorbell a round; on shared memory a round's READs are
//! prefetched together, elsewhere they share round trips.

use longarm_base::{Csn, Nanos};
use longarm_fabric::{QueuePair, Transport};
use longarm_host::now;

use crate::batch::{Batch, BatchLookup};
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::get::{PATIENT_TRIES, READ_TRIES, check_key};
use crate::link::{BATCH, Link, Trouble};
use crate::lookup::{Found, Lookup, LookupStep};

/// Lookups whose READs are begun together. A core keeps about so many misses in flight; with more the copies
/// were measured to wait for their lines (decision 40).
const GROUP: usize = 16;

/// Begins the READs that these lookups, the first of which has number `first`, want; returns how many.
///
/// It is a loop of its own: a prefetch whose page is not in the TLB does not retire before its page walk
/// ends, so walks overlap only if the prefetches are close together.
#[inline(always)]
fn begin_reads<Q: QueuePair>(
    link: &mut Link<Q>,
    flights: &mut [BatchLookup],
    first: usize,
    deadline: &Deadline,
) -> Result<usize, Trouble> {
    let mut begun = 0;
    for (i, flight) in flights.iter_mut().enumerate().filter(|(_, flight)| flight.step == LookupStep::Read) {
        if !link.qp.prefetch(flight.lookup.place()) {
            let place = flight.lookup.place();
            link.post_read(place, Link::<Q>::landing_of(first + i, place.len), deadline)?;
            flight.posted = true;
        }
        begun += 1;
    }
    Ok(begun)
}

impl<T: Transport> Client<T> {
    /// Looks up all keys, pipelined, and shows each value (or `None`) with its key's number, in any order. No
    /// key is shown twice. If this ends with an error, the values shown are right, and nothing is known of
    /// the other keys: they may be asked for again.
    pub fn multi_get(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        mut show: impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<(), Error> {
        for key in keys {
            check_key(key.as_ref())?;
        }
        self.get_all(keys, 0..keys.len(), &mut show)
    }

    /// Looks up the keys of these numbers; the caller has checked the keys.
    pub(crate) fn get_all(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        mut numbers: impl Iterator<Item = usize>,
        show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<(), Error> {
        let deadline = &self.deadline();
        let mut batch = std::mem::take(&mut self.batch);
        let mut outcome = Ok(());
        while outcome.is_ok() && batch.load(&mut numbers, BATCH) {
            outcome = self.finish_batch(keys, &mut batch, deadline, show);
        }
        batch.flights.clear();
        self.batch = batch;
        outcome
    }

    /// Tries until every key of the batch has its answer.
    fn finish_batch(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        batch: &mut Batch,
        deadline: &Deadline,
        show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<(), Error> {
        batch.large.clear();
        let mut tries = 0;
        while !batch.rest.is_empty() {
            let before = batch.rest.len();
            let alone = self.batch_limit.keys() == 1;
            if alone && self.link.as_mut().is_some_and(|link| link.fallback.asks()) {
                self.ask_for_all(keys, &mut batch.rest, deadline, show)?;
                break;
            }
            match self.try_batch(keys, batch, deadline, show) {
                // Fewer are tried next.
                Ok(false) if !alone => {}
                // Not even one is done within a lease.
                Ok(false) | Err(Trouble::NoLease) => {
                    self.link()?.fallback.in_vain();
                    self.ask_for_all(keys, &mut batch.rest, deadline, show)?;
                }
                Ok(true) => {
                    if alone {
                        self.link()?.fallback.counted();
                    }
                    let again = batch.rest.len() + batch.flights.len() - before;
                    tries += u32::from(again > 0);
                    if tries > READ_TRIES {
                        batch.large.append(&mut batch.rest);
                    } else if tries > PATIENT_TRIES && again > 0 {
                        // A writer is faster than this reader, or was stopped in the middle: let it write,
                        // briefly.
                        let waited = self.link()?.wait_a_little(deadline);
                        waited.or_else(|trouble| self.recover(trouble, deadline))?;
                    }
                }
                Err(trouble) => self.recover(trouble, deadline)?,
            }
        }
        // Long values are got one by one: their cost is their bytes, not their round trips.
        for at in 0..batch.large.len() {
            let key = batch.large[at];
            let found = self.get_with(keys[key].as_ref(), |value, csn| show(key, Some((value, csn))))?;
            if found.is_none() {
                show(key, None);
            }
        }
        Ok(())
    }

    /// Asks the server for these keys, some at a time.
    fn ask_for_all(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        rest: &mut Vec<usize>,
        deadline: &Deadline,
        show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<(), Error> {
        for some in rest.chunks(GROUP) {
            let mut asked = Vec::with_capacity(some.len());
            let mut outcome = Ok(());
            for &key in some {
                match self.ask_for(keys[key].as_ref(), deadline) {
                    Ok(ticket) => asked.push((key, ticket)),
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
            // Also after an error: an answer that nobody fetches takes a place.
            for (key, ticket) in asked {
                match self.served(ticket) {
                    Ok(found) => show(key, found.as_ref().map(|(value, csn)| (&value[..], *csn))),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            outcome?;
        }
        rest.clear();
        Ok(())
    }

    /// Tries keys of the batch once, as many as may be looked up together; keeps in it those that must be
    /// tried again. Whether the READs counted.
    fn try_batch(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        batch: &mut Batch,
        deadline: &Deadline,
        show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<bool, Trouble> {
        self.begin_batch(keys, batch, deadline)?;
        while batch.open > 0 {
            self.turn_batch(keys, batch, deadline)?;
        }
        self.end_batch(batch, deadline, show)
    }

    /// Begins lookups of the first keys, as many as may be looked up together, each with its first READ.
    pub(crate) fn begin_batch(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        batch: &mut Batch,
        deadline: &Deadline,
    ) -> Result<(), Trouble> {
        batch.begin = self.ensure_lease(deadline)?;
        let Client { link, cache, batch_limit, .. } = self;
        let link = link.as_mut().expect("a lease has a link");
        let Batch { rest, flights, open, .. } = batch;
        flights.clear();
        *open = 0;
        let together = rest.len().min(batch_limit.keys());
        for some in rest[..together].chunks(GROUP) {
            let first = flights.len();
            let view = link.view();
            flights.extend(some.iter().map(|&key| {
                let hash = link.hasher.hash(keys[key].as_ref());
                let (lookup, step) = Lookup::start(hash, link.granularity, cache.find(hash), &view);
                BatchLookup { key, lookup, step, posted: false }
            }));
            *open += begin_reads(link, &mut flights[first..], first, deadline)?;
        }
        Ok(())
    }

    /// Feeds the lookups the READs under way, and begins the READs that they want next.
    pub(crate) fn turn_batch(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        batch: &mut Batch,
        deadline: &Deadline,
    ) -> Result<(), Trouble> {
        let link = self.connected()?;
        link.finish_reads(deadline)?;
        batch.open = 0;
        for (group, flights) in batch.flights.chunks_mut(GROUP).enumerate() {
            let first = group * GROUP;
            for (i, flight) in flights.iter_mut().enumerate() {
                if flight.step != LookupStep::Read {
                    continue;
                }
                let place = flight.lookup.place();
                let into = Link::<T::Qp>::landing_of(first + i, place.len);
                if !std::mem::take(&mut flight.posted) {
                    link.read(place, into, deadline)?;
                }
                let bytes = link.qp.landing(into, place.len);
                flight.step = flight.lookup.feed(keys[flight.key].as_ref(), bytes, &link.view());
            }
            batch.open += begin_reads(link, flights, first, deadline)?;
        }
        Ok(())
    }

    /// Ends a batch without READs under way: shows the values found, if they count. Whether they did.
    pub(crate) fn end_batch(
        &mut self,
        batch: &mut Batch,
        deadline: &Deadline,
        show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<bool, Trouble> {
        let end = now();
        let counts = self.connected()?.trusted(batch.begin, end);
        if counts {
            self.earlier.leave(end);
            self.batch_limit.counted(batch.flights.len());
        } else {
            self.batch_limit.late(batch.flights.len());
        }
        self.settle(batch, end, counts, show);
        if batch.flights.iter().any(|flight| flight.step == LookupStep::Refresh) {
            self.connected()?.look_at_heartbeat(deadline)?;
        }
        Ok(counts)
    }

    /// Shows the values found if the READs count, and keeps the other keys for another try.
    fn settle(
        &mut self,
        batch: &mut Batch,
        end: Nanos,
        counts: bool,
        show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
    ) {
        let Batch { rest, large, flights, .. } = batch;
        rest.drain(..flights.len());
        for (i, flight) in flights.iter().enumerate() {
            let link = self.link.as_mut().expect("READs had a link");
            let Found { csn, at, len, expiry } = flight.lookup.found();
            match flight.step {
                // The key is got alone, through the server.
                LookupStep::Hit if counts && !link.is_in_time(expiry, end) => large.push(flight.key),
                LookupStep::Hit if counts => {
                    let landed = Link::<T::Qp>::landing_of(i, flight.lookup.place().len);
                    show(flight.key, Some((link.qp.landing(landed + at, len), csn)));
                    let before = self.cache.find(flight.lookup.hash());
                    self.found(&flight.lookup, before);
                }
                LookupStep::Miss if counts => show(flight.key, None),
                LookupStep::Large | LookupStep::Ask => large.push(flight.key),
                other => {
                    link.counters.torn += u64::from(other == LookupStep::Again);
                    self.cache.forget(flight.lookup.hash());
                    rest.push(flight.key);
                }
            }
        }
    }
}
