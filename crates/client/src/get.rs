//! GET: READs under a lease, tried again within a deadline; no CPU of the server takes part (HiStore 3.2.4,
//! 4.2).

use longarm_base::limits::{KEY_MAX, RETRIES_MAX};
use longarm_base::{Csn, Nanos};
use longarm_fabric::{QueuePair, Transport};
use longarm_host::now;
use longarm_wire::{Request, RequestKind};

use crate::cache::Located;
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::flight::{Reply, RequestId};
use crate::link::{Link, Trouble};
use crate::lookup::{Found, Lookup, LookupStep};
use crate::side::{Side, Size};

/// Tries to READ before the server is asked.
pub(crate) const READ_TRIES: u32 = 64;
/// Tries that renew the lease beside their READs. The first is in vain if the client has rested since it last
/// read the clock.
const BESIDE_TRIES: u32 = 2;
/// Tries in a row, after which a reader pauses between them.
pub(crate) const PATIENT_TRIES: u32 = 8;

/// The end of one attempt.
pub(crate) enum Attempt<R> {
    Value(R),
    Missing,
    Ask,
    Again,
}

impl<Q: QueuePair> Link<Q> {
    /// What to do about results that do not count. READs that took so long that they renew no lease would
    /// take as long again: the server is asked.
    #[cold]
    fn untrusted<R>(&mut self, begin: Nanos, end: Nanos) -> Attempt<R> {
        if !self.is_too_slow(begin, end) {
            return Attempt::Again;
        }
        self.fallback.in_vain();
        Attempt::Ask
    }
}

impl<T: Transport> Client<T> {
    /// The value of a key, or `None`. It takes one READ if the value is inline, two if it is an entry; no CPU
    /// of the server takes part.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(key, |value, _| value.to_vec())
    }

    /// The value and its version, or `None`.
    pub fn get_versioned(&mut self, key: &[u8]) -> Result<Option<(Vec<u8>, Csn)>, Error> {
        self.get_with(key, |value, csn| (value.to_vec(), csn))
    }

    /// Copies the value into `into` (replacing what is there); `false` if there is no such key.
    pub fn get_into(&mut self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, Error> {
        let found = self.get_with(key, |value, _| {
            into.clear();
            into.extend_from_slice(value);
        })?;
        Ok(found.is_some())
    }

    /// Whether the key is there. Costs the same READs as a GET of an inline item.
    pub fn exists(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.get_with(key, |_, _| ())?.is_some())
    }

    /// Shows the value where it landed, without a copy, and its version.
    pub fn get_with<R>(
        &mut self,
        key: &[u8],
        show: impl FnOnce(&[u8], Csn) -> R,
    ) -> Result<Option<R>, Error> {
        check_key(key)?;
        let deadline = &self.deadline();
        let show = &mut Some(show);
        if self.options.get_side == Some(Side::Client) {
            return self.get_by_reads(key, deadline, show);
        }
        self.get_by_choice(key, deadline, show)
    }

    /// A GET by whoever is set, or was sooner done of late (Cell 2.5).
    #[cold]
    fn get_by_choice<R, F: FnOnce(&[u8], Csn) -> R>(
        &mut self,
        key: &[u8],
        deadline: &Deadline,
        show: &mut Option<F>,
    ) -> Result<Option<R>, Error> {
        let began = now();
        let side = self.options.get_side.unwrap_or_else(|| self.gets.choose(began, Size::Short, 1));
        let found = match side {
            Side::Client => self.get_by_reads(key, deadline, show),
            Side::Server => self.get_served(key, deadline, show),
        };
        let ended = now();
        self.gets.ended(ended, Size::Short, side, ended.since(began));
        found
    }

    #[inline]
    fn get_by_reads<R, F: FnOnce(&[u8], Csn) -> R>(
        &mut self,
        key: &[u8],
        deadline: &Deadline,
        show: &mut Option<F>,
    ) -> Result<Option<R>, Error> {
        if self.link.as_mut().is_some_and(|link| link.fallback.asks()) {
            return self.get_served(key, deadline, show);
        }
        for tries in 0..RETRIES_MAX {
            let shown = |value: &[u8], csn| (show.take().expect("a value is shown once"))(value, csn);
            match self.try_get(key, deadline, tries < BESIDE_TRIES, shown) {
                Ok(Attempt::Value(value)) => return Ok(Some(value)),
                Ok(Attempt::Missing) => return Ok(None),
                Ok(Attempt::Ask) => return self.get_served(key, deadline, show),
                Ok(Attempt::Again) if tries > READ_TRIES => return self.get_served(key, deadline, show),
                Err(Trouble::NoLease) => {
                    self.link()?.fallback.in_vain();
                    return self.get_served(key, deadline, show);
                }
                Ok(Attempt::Again) if tries > PATIENT_TRIES => {
                    // A writer is faster than this reader: let it write, briefly.
                    let waited = self.link()?.wait_a_little(deadline);
                    waited.or_else(|trouble| self.recover(trouble, deadline))?;
                }
                Ok(Attempt::Again) => {}
                Err(trouble) => self.recover(trouble, deadline)?,
            }
        }
        Err(Error::Contended(RETRIES_MAX))
    }

    fn try_get<R>(
        &mut self,
        key: &[u8],
        deadline: &Deadline,
        beside: bool,
        show: impl FnOnce(&[u8], Csn) -> R,
    ) -> Result<Attempt<R>, Trouble> {
        let (begin, mut beats) = self.begin_get(beside, deadline)?;
        let Client { link, cache, large, .. } = self;
        let link = link.as_mut().expect("a lease has a link");
        let hash = link.hasher.hash(key);
        let located = cache.find(hash);
        let into = Link::<T::Qp>::slot(0);
        let (mut lookup, mut step) = Lookup::start(hash, link.granularity, located, &link.view());
        let mut whole = false;
        loop {
            match step {
                LookupStep::Read => {
                    link.read(lookup.place(), into, deadline)?;
                    whole = false;
                    if !link.take_beats(beats.take(), deadline)? {
                        return Ok(Attempt::Again);
                    }
                    step = lookup.feed(key, link.qp.landing(into, lookup.place().len), &link.view());
                }
                LookupStep::Large => {
                    link.fetch(lookup.place(), large, deadline)?;
                    whole = true;
                    step = lookup.feed(key, large, &link.view());
                }
                LookupStep::Hit => {
                    let Found { csn, at, len, expiry } = lookup.found();
                    let end = now();
                    // The checksum of a large value shows that it is whole; only its lease depends on time.
                    let begin = if whole { end } else { begin };
                    if !link.trusted(begin, end) {
                        return Ok(link.untrusted(begin, end));
                    }
                    self.earlier.leave(end);
                    if !link.is_in_time(expiry, end) {
                        return Ok(Attempt::Ask);
                    }
                    let bytes = if whole {
                        &large[at as usize..(at + len) as usize]
                    } else {
                        link.qp.landing(into + at, len)
                    };
                    let value = show(bytes, csn);
                    self.found(&lookup, located);
                    return Ok(Attempt::Value(value));
                }
                LookupStep::Miss => {
                    // The remembered place lost the key: another READ there would only lose time.
                    if located.is_some() {
                        cache.forget(hash);
                    }
                    return self.missing(begin);
                }
                LookupStep::Ask | LookupStep::Again => {
                    cache.forget(hash);
                    link.counters.torn += u64::from(step == LookupStep::Again);
                    return Ok(if step == LookupStep::Ask { Attempt::Ask } else { Attempt::Again });
                }
                LookupStep::Refresh => {
                    link.look_at_heartbeat(deadline)?;
                    return Ok(Attempt::Again);
                }
            }
        }
    }

    /// Whether it counts that READs from `begin` on did not find the key.
    fn missing<R>(&mut self, begin: Nanos) -> Result<Attempt<R>, Trouble> {
        let end = now();
        let link = self.connected()?;
        if !link.trusted(begin, end) {
            return Ok(link.untrusted(begin, end));
        }
        self.earlier.leave(end);
        Ok(Attempt::Missing)
    }

    /// Remembers where a key was found, and notes it for the server's eviction now and then.
    #[inline(always)]
    pub(crate) fn found(&mut self, lookup: &Lookup, before: Option<Located>) {
        if let Some(link) = self.link.as_mut().filter(|_| self.cache.remembers()) {
            let found = lookup.located(&link.view());
            if before == Some(found) {
                link.counters.cache_hits += 1;
            } else {
                self.cache.remember(lookup.hash(), found);
            }
        }
        if self.hint_in > 0 {
            self.hint_in -= 1;
            if self.hint_in == 0 {
                self.note_hint(lookup.hash());
            }
        }
    }

    /// A valid lease, and the moment from which READs count.
    #[inline]
    pub(crate) fn ensure_lease(&mut self, deadline: &Deadline) -> Result<Nanos, Trouble> {
        let mut begin = self.earlier.take();
        if self.connected()?.should_renew(begin) {
            begin = self.renew(deadline)?;
        }
        Ok(begin)
    }

    /// A GET that the server's worker answers, if one-sided READs cannot settle it (M7: "retry, finally
    /// RPC"). An answer needs no lease: a server that executes requests is there.
    pub(crate) fn get_served<R, F: FnOnce(&[u8], Csn) -> R>(
        &mut self,
        key: &[u8],
        deadline: &Deadline,
        show: &mut Option<F>,
    ) -> Result<Option<R>, Error> {
        let ticket = self.ask_for(key, deadline)?;
        let found = self.served(ticket)?;
        Ok(found.and_then(|(value, csn)| show.take().map(|show| show(&value, csn))))
    }

    /// Asks the server's worker for a key.
    pub(crate) fn ask_for(&mut self, key: &[u8], deadline: &Deadline) -> Result<RequestId, Error> {
        let mut request = Request::new(RequestKind::Get, self.next_operation);
        request.key = key;
        self.post(request, deadline)
    }

    /// What the worker found.
    pub(crate) fn served(&mut self, ticket: RequestId) -> Result<Option<(Vec<u8>, Csn)>, Error> {
        let outcome = self.wait(ticket);
        if let Some(link) = &mut self.link {
            link.counters.served += 1;
        }
        match outcome {
            Ok(Reply::Value(value, csn)) => Ok(Some((value, csn))),
            Ok(Reply::NotFound) => Ok(None),
            Ok(other) => Err(Error::Protocol(format!("a GET was answered {other:?}"))),
            Err(error) => Err(self.unanswered(error)),
        }
    }

    /// The moment from which READs of a GET count. If it is time to renew the lease, the heartbeat is READ
    /// beside the item, and the second value is when that began; once that was in vain, before it. What it
    /// shows is that the server was there with this geometry, and so it was since the client connected.
    #[inline]
    fn begin_get(&mut self, beside: bool, deadline: &Deadline) -> Result<(Nanos, Option<Nanos>), Trouble> {
        if !beside {
            return Ok((self.ensure_lease(deadline)?, None));
        }
        let begin = self.earlier.take();
        if !self.connected()?.should_renew(begin) {
            return Ok((begin, None));
        }
        let began = self.renew_beside(deadline)?;
        Ok((began, Some(began)))
    }

    /// Posts the READ of the heartbeat, which travels with those of a GET; when it began.
    #[cold]
    fn renew_beside(&mut self, deadline: &Deadline) -> Result<Nanos, Trouble> {
        // As in `renew`.
        self.send_again();
        if self.connected()?.wants_anchor(now()) {
            self.anchor_soon();
        }
        self.connected()?.post_heartbeat(deadline)
    }

    /// Looks at the heartbeat until the lease is valid, and keeps its anchor young. If that takes too long it
    /// gives up, and the server is asked.
    fn renew(&mut self, deadline: &Deadline) -> Result<Nanos, Trouble> {
        // A client that only reads now and then sends on, too.
        self.send_again();
        let patience = now() + self.connected()?.patience();
        let mut asked = false;
        loop {
            let link = self.connected()?;
            link.look_at_heartbeat(deadline)?;
            let begin = now();
            let (valid, loose) = (link.has_lease(begin), link.wants_anchor(begin));
            if loose {
                self.anchor_soon();
            }
            if valid {
                return Ok(begin);
            }
            // Either the anchor is loose (a slow connect), or the server makes no progress: an answer tells
            // which.
            if !asked {
                self.ping_within(deadline).map_err(|error| match error {
                    Error::Lost { reason, .. } => Trouble::Lost(reason),
                    _ => Trouble::Unresponsive,
                })?;
                asked = true;
            }
            let link = self.connected()?;
            match link.wait_a_little(deadline) {
                Err(Trouble::Late) => return Err(Trouble::Unresponsive),
                other => other?,
            }
            link.pump();
            if now() > patience {
                return Err(Trouble::NoLease);
            }
        }
    }
}

/// A key has 1 to 1,024 bytes.
#[inline]
pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.is_empty() || key.len() > KEY_MAX { Err(Error::KeyLength(key.len())) } else { Ok(()) }
}
