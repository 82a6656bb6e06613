//! Multi-GET: many lookups in flight at once. One doorbell a round; on shared memory a round's READs are
//! prefetched together, elsewhere they share round trips.

use longarm_base::{Csn, Nanos};
use longarm_fabric::{QueuePair, Transport};
use longarm_host::now;

use crate::client::Client;
use crate::error::Error;
use crate::get::{PATIENT_TRIES, READ_TRIES, check_key};
use crate::link::{BATCH, Link, Trouble};
use crate::lookup::{Lookup, Want};

/// Lookups that are judged together while the lines of the next are under way: a core keeps about so many
/// misses in flight.
const GROUP: usize = 8;

/// One key's lookup in a batch.
pub(crate) struct Flight {
    key: usize,
    lookup: Lookup,
    want: Want,
    /// The READ wanted is in the queue.
    posted: bool,
}

/// Begins the READs that these lookups, the first of which has number `first`, want; returns how many.
///
/// A loop of its own: a prefetch whose page is not in the TLB does not retire before its page walk ends, so
/// walks overlap only as far as the prefetches stand close together.
#[inline(always)]
fn begin_reads<Q: QueuePair>(
    link: &mut Link<Q>,
    flights: &mut [Flight],
    first: usize,
    deadline: Nanos,
) -> Result<usize, Trouble> {
    let mut begun = 0;
    for (i, flight) in flights.iter_mut().enumerate() {
        if let Want::Read(place) = flight.want {
            flight.posted = !link.qp.prefetch(place);
            if flight.posted {
                link.post_read(place, Link::<Q>::slot(first + i), deadline)?;
            }
            begun += 1;
        }
    }
    Ok(begun)
}

impl<T: Transport> Client<T> {
    /// Looks up all keys, pipelined, and shows each value (or `None`) with its key's number, in any order.
    pub fn multi_get(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        mut show: impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<(), Error> {
        for key in keys {
            check_key(key.as_ref())?;
        }
        let deadline = self.deadline();
        let mut flights = std::mem::take(&mut self.flights);
        let mut rest = std::mem::take(&mut self.unfinished);
        let mut outcome = Ok(());
        'batches: for first in (0..keys.len()).step_by(BATCH) {
            rest.clear();
            rest.extend(first..keys.len().min(first + BATCH));
            let mut large = Vec::new();
            let mut tries = 0;
            while !rest.is_empty() {
                let tried = self.try_batch(keys, &mut rest, &mut large, &mut flights, deadline, &mut show);
                tries += 1;
                let step = match tried {
                    Ok(()) if tries > READ_TRIES => {
                        large.append(&mut rest);
                        Ok(())
                    }
                    // Somebody writes faster than we read, or was stopped in the middle: let them, briefly.
                    Ok(()) if tries > PATIENT_TRIES && !rest.is_empty() => {
                        match self.link()?.wait_a_little(deadline) {
                            Ok(()) => Ok(()),
                            Err(trouble) => self.recover(trouble, deadline),
                        }
                    }
                    Ok(()) => Ok(()),
                    Err(Trouble::NoLease) => {
                        // One by one, through the server where that must be.
                        large.append(&mut rest);
                        Ok(())
                    }
                    Err(trouble) => self.recover(trouble, deadline),
                };
                if step.is_err() {
                    outcome = step;
                    break 'batches;
                }
            }
            // Long values one by one: their bytes, not their round trips, are what they cost.
            for key in large {
                match self.get_with(keys[key].as_ref(), |value, csn| show(key, Some((value, csn)))) {
                    Ok(Some(())) => {}
                    Ok(None) => show(key, None),
                    Err(error) => {
                        outcome = Err(error);
                        break 'batches;
                    }
                }
            }
        }
        flights.clear();
        rest.clear();
        (self.flights, self.unfinished) = (flights, rest);
        outcome
    }

    /// Tries all keys of `rest` once; keeps in `rest` those that must be tried again.
    fn try_batch(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        rest: &mut Vec<usize>,
        large: &mut Vec<usize>,
        flights: &mut Vec<Flight>,
        deadline: Nanos,
        show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<(), Trouble> {
        let begin = self.ensure_lease(deadline)?;
        let Client { link, cache, .. } = self;
        let link = link.as_mut().expect("a lease has a link");
        flights.clear();
        let view = link.view();
        flights.extend(rest.iter().map(|&key| {
            let hash = link.hasher.hash(keys[key].as_ref());
            let (lookup, want) = Lookup::start(hash, link.look, cache.find(hash), &view);
            Flight { key, lookup, want, posted: false }
        }));
        let mut open = 0;
        for (group, flights) in flights.chunks_mut(GROUP).enumerate() {
            open += begin_reads(link, flights, group * GROUP, deadline)?;
        }
        while open > 0 {
            link.finish_reads(deadline)?;
            open = 0;
            for (group, flights) in flights.chunks_mut(GROUP).enumerate() {
                for (i, flight) in flights.iter_mut().enumerate() {
                    if let Want::Read(place) = flight.want {
                        let into = Link::<T::Qp>::slot(group * GROUP + i);
                        if !flight.posted {
                            link.read(place, into, deadline)?;
                        }
                        let bytes = link.qp.landing(into, place.len);
                        flight.want = flight.lookup.feed(keys[flight.key].as_ref(), bytes, &link.view());
                    }
                }
                open += begin_reads(link, flights, group * GROUP, deadline)?;
            }
        }
        let end = now();
        let counts = link.trusted(begin, end);
        self.began = if counts { end } else { Nanos(0) };
        self.settle(rest, large, flights, (end, counts), show);
        if flights.iter().any(|flight| flight.want == Want::Refresh) {
            self.connected()?.look_at_heartbeat(deadline)?;
        }
        Ok(())
    }

    /// Shows what was found if the READs count, and keeps the rest for another try.
    fn settle(
        &mut self,
        rest: &mut Vec<usize>,
        large: &mut Vec<usize>,
        flights: &[Flight],
        (end, counts): (Nanos, bool),
        show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
    ) {
        rest.clear();
        for (i, flight) in flights.iter().enumerate() {
            let link = self.link.as_mut().expect("READs had a link");
            match flight.want {
                Want::Hit { expiry, .. } if counts && expiry.expired(link.unix_now(end)) => {
                    show(flight.key, None)
                }
                Want::Hit { csn, at, len, .. } if counts => {
                    show(flight.key, Some((link.qp.landing(Link::<T::Qp>::slot(i) + at, len), csn)));
                    let before = self.cache.find(flight.lookup.hash());
                    self.found(&flight.lookup, before);
                }
                Want::Miss if counts => show(flight.key, None),
                Want::Large { .. } => large.push(flight.key),
                other => {
                    link.counters.torn += u64::from(other == Want::Again);
                    self.cache.forget(flight.lookup.hash());
                    rest.push(flight.key);
                }
            }
        }
    }
}
