//! The server's regions as they are in its memory, for inspection: words fetched by READs, as any reader may.
//!
//! [`Words`] cannot fail, so a READ that fails leaves zeroes and the reason in [`Raw::failure`]. A walk asks
//! for it at the end and believes nothing if there is one. A broken connection stays broken: a walk over two
//! servers' memories would mean nothing.
//!
//! If a READ is a round trip, the client reads ahead of a walk that proceeds in steps. The second look of a
//! walk must be a new look: words that are asked for twice are fetched twice, and only first looks are
//! answered from the bytes read ahead.
//! read ahead.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longarm_base::limits::READ_MAX;
use longarm_base::{Place, RegionId, UnixMillis};
use longarm_fabric::{Address, QueuePair, Transport};
use longarm_host::now;
use longarm_index::hash::Geometry;
use longarm_memory::{SumKey, Words};

use crate::client::Client;
use crate::error::Error;
use crate::link::{Link, Trouble};

/// The memory of a connected server, read as it is.
pub struct Raw<'c, T: Transport> {
    shared: Mutex<RawReader<'c, T>>,
    sums: SumKey,
}

struct RawReader<'c, T: Transport> {
    client: &'c mut Client<T>,
    failure: Option<Error>,
    /// Whether to read ahead at all: not on shared memory, where a READ costs less than the bookkeeping.
    remote: bool,
    ahead: Vec<Ahead>,
}

/// The bytes read ahead of one region.
struct Ahead {
    id: RegionId,
    region_bytes: u64,
    /// The place of the last look.
    last: u64,
    /// The number of looks in a row that were near the previous one.
    near: u32,
    at: u64,
    bytes: Vec<u8>,
    /// Looks that were answered from `bytes`.
    answered: HashSet<(u64, usize)>,
}

/// The distance within which looks are steps of a walk, and how far around a look is read along.
const NEAR: u64 = 8192;
/// The number of steps that make a walk.
const STEPS: u32 = 3;

/// One region of the memory.
pub struct RawRegion<'r, 'c, T: Transport> {
    raw: &'r Raw<'c, T>,
    id: RegionId,
    bytes: u64,
}

impl<T: Transport> Client<T> {
    /// The server's memory as it is, for inspection.
    pub fn raw(&mut self) -> Result<Raw<'_, T>, Error> {
        let sums = self.link()?.sums.clone();
        let remote = !matches!(self.address(), Address::Shm(_));
        let shared = RawReader { client: self, failure: None, remote, ahead: Vec::new() };
        Ok(Raw { shared: Mutex::new(shared), sums })
    }

    /// The boot number, which the server drew when it started: another number means that its memory began
    /// empty again.
    pub fn server_boot(&self) -> u64 {
        self.boot
    }

    /// The server's calendar in Unix milliseconds, which judges expiry, as the last heartbeat seen tells it.
    pub fn server_unix(&mut self) -> Result<UnixMillis, Error> {
        let deadline = &self.deadline();
        if let Err(trouble) = self.ensure_lease(deadline) {
            self.recover(trouble, deadline)?;
        }
        Ok(self.link()?.unix_now(now()))
    }
}

impl<'c, T: Transport> Raw<'c, T> {
    /// Key of the record checksums.
    pub fn sums(&self) -> &SumKey {
        &self.sums
    }

    /// The tables in use now, by the control page.
    pub fn geometry(&self) -> Result<Geometry, Error> {
        let client = &mut *self.lock().client;
        let deadline = &client.deadline();
        let looked =
            client.connected().and_then(|link| link.look_at_heartbeat(deadline).map(|()| link.geometry));
        looked.map_err(|trouble| client.failed(trouble))
    }

    /// One region; `None` if the server lends no such region.
    pub fn region(&self, id: RegionId) -> Option<RawRegion<'_, 'c, T>> {
        let shared = self.lock();
        let granted = shared.client.link.as_ref()?.qp.granted().iter().find(|granted| granted.id == id)?;
        Some(RawRegion { raw: self, id, bytes: granted.bytes })
    }

    /// The reason why bytes shown so far are not the server's, if a READ failed.
    pub fn failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    fn lock(&self) -> MutexGuard<'_, RawReader<'c, T>> {
        // A walker that panicked left a client between two operations.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport> RawReader<'_, T> {
    fn read(&mut self, id: RegionId, region_bytes: u64, at: u64, into: &mut [u8]) {
        into.fill(0);
        if self.failure.is_some() {
            return;
        }
        if let Err(trouble) = self.answer(id, region_bytes, at, into) {
            self.failure = Some(self.client.failed(trouble));
        }
    }

    /// Answers from the bytes read ahead if this is a first look there, else by a READ.
    fn answer(&mut self, id: RegionId, region_bytes: u64, at: u64, into: &mut [u8]) -> Result<(), Trouble> {
        if !self.remote || into.len() as u64 > NEAR {
            return self.try_read(id, at, into);
        }
        let found = self.ahead.iter().position(|ahead| ahead.id == id);
        let mut ahead = match found {
            Some(found) => self.ahead.swap_remove(found),
            None => Ahead::new(id, region_bytes),
        };
        let done = self.answer_with(&mut ahead, at, into);
        self.ahead.push(ahead);
        done
    }

    fn answer_with(&mut self, ahead: &mut Ahead, at: u64, into: &mut [u8]) -> Result<(), Trouble> {
        if ahead.is_walk(at) && !ahead.covers(at, into.len()) && !ahead.answered.contains(&(at, into.len())) {
            ahead.answered.clear();
            ahead.at = at.saturating_sub(NEAR);
            let len = (ahead.region_bytes - ahead.at).min(u64::from(READ_MAX)) as usize;
            ahead.bytes.resize(len, 0);
            let mut bytes = std::mem::take(&mut ahead.bytes);
            self.try_read(ahead.id, ahead.at, &mut bytes)?;
            ahead.bytes = bytes;
        }
        if ahead.covers(at, into.len()) && ahead.answered.insert((at, into.len())) {
            let from = (at - ahead.at) as usize;
            into.copy_from_slice(&ahead.bytes[from..from + into.len()]);
            return Ok(());
        }
        self.try_read(ahead.id, at, into)
    }

    fn try_read(&mut self, id: RegionId, at: u64, into: &mut [u8]) -> Result<(), Trouble> {
        let deadline = &self.client.deadline();
        let link = self.client.connected()?;
        // The landing slots are adjacent: together they hold the longest READ.
        let landing = Link::<T::Qp>::slot(0);
        let mut from = at;
        for piece in into.chunks_mut(READ_MAX as usize) {
            let len = (piece.len() as u32).next_multiple_of(8);
            link.post_read(Place::new(id, from, len), landing, deadline)?;
            link.finish_reads(deadline)?;
            piece.copy_from_slice(&link.qp.landing(landing, len)[..piece.len()]);
            from += u64::from(len);
        }
        Ok(())
    }
}

impl Ahead {
    fn new(id: RegionId, region_bytes: u64) -> Ahead {
        Ahead { id, region_bytes, last: 0, near: 0, at: 0, bytes: Vec::new(), answered: HashSet::new() }
    }

    /// Notes a look; returns whether it is a step of a walk.
    fn is_walk(&mut self, at: u64) -> bool {
        self.near = if at.abs_diff(self.last) <= NEAR { self.near.saturating_add(1) } else { 0 };
        self.last = at;
        self.near >= STEPS
    }

    fn covers(&self, at: u64, len: usize) -> bool {
        at >= self.at && at + len as u64 <= self.at + self.bytes.len() as u64
    }
}

impl<T: Transport> Words for RawRegion<'_, '_, T> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.copy_out(at, &mut word);
        u64::from_le_bytes(word)
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        let inside = at.checked_add(into.len() as u64).is_some_and(|end| end <= self.bytes);
        assert!(
            at.is_multiple_of(8) && inside,
            "bytes {at:#x}+{:#x} outside region {:?}",
            into.len(),
            self.id
        );
        self.raw.lock().read(self.id, self.bytes, at, into);
    }
}
