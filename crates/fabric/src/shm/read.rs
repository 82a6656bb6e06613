//! READ: the doorbell prefetches, the poll copies.
//!
//! `post` asks the CPU for the lines and returns; the copy waits for `poll`. So the cache misses of a batch
//! overlap, as the READs of a doorbell batch do on a NIC (one core keeps 10 to 16 misses in flight), and a
//! GET's two dependent READs cost two misses and little more.

use std::sync::atomic::{Ordering, fence};

use longarm_base::limits::{LINE, READ_MAX};
use longarm_base::{Place, RegionId};
use longarm_memory::{Mapped, ReadOnly, Words};

use super::fds::Lent;
use super::qp::ShmQp;
use crate::{Granted, PostError, Rights, Ticket};

/// Lines prefetched by one READ; the copy of a longer one is a stream that the CPU itself runs ahead of.
const PREFETCH_LINES: u64 = 16;
/// Ids below this are found by index.
const DIRECT: usize = 64;
const NONE: u8 = u8::MAX;

/// The peer's regions, found without hashing.
pub(super) struct Remotes {
    all: Vec<Remote>,
    direct: [u8; DIRECT],
}

/// One region of the peer.
pub(super) struct Remote {
    pub(super) granted: Granted,
    pub(super) look: ReadOnly,
    pub(super) change: Option<Mapped>,
}

impl Remotes {
    pub(super) fn new(lent: Vec<(Granted, Lent)>) -> Remotes {
        assert!(lent.len() < usize::from(NONE), "{} regions, the handshake allows fewer", lent.len());
        let mut direct = [NONE; DIRECT];
        for (i, (granted, _)) in lent.iter().enumerate() {
            if let Some(slot) = direct.get_mut(granted.id.0 as usize) {
                *slot = i as u8;
            }
        }
        let all =
            lent.into_iter().map(|(granted, l)| Remote { granted, look: l.look, change: l.change }).collect();
        Remotes { all, direct }
    }

    /// The region of that name and its index.
    #[inline(always)]
    pub(super) fn find(&self, id: RegionId) -> Option<(u8, &Remote)> {
        match self.direct.get(id.0 as usize) {
            Some(&at) => self.all.get(usize::from(at)).map(|remote| (at, remote)),
            None => {
                let at = self.all.iter().position(|remote| remote.granted.id == id)?;
                Some((at as u8, &self.all[at]))
            }
        }
    }

    #[inline(always)]
    pub(super) fn at(&self, index: u8) -> &Remote {
        &self.all[usize::from(index)]
    }
}

impl Remote {
    /// Whether the bytes are inside the region and the rights allow what is wanted.
    #[inline(always)]
    pub(super) fn allows(&self, offset: u64, len: u64, wanted: Rights) -> bool {
        self.granted.rights.allow(wanted)
            && offset <= self.granted.bytes
            && len <= self.granted.bytes - offset
    }
}

impl ShmQp {
    #[inline]
    pub(super) fn post_read(&mut self, from: Place, into: u32, ticket: Ticket) -> Result<(), PostError> {
        let end = u64::from(into) + u64::from(from.len);
        if !from.offset.is_multiple_of(8)
            || !into.is_multiple_of(8)
            || from.len > READ_MAX
            || end > self.landing.len() as u64
        {
            return Err(PostError::Malformed);
        }
        let found = self.remotes.find(from.region);
        let Some((remote, place)) =
            found.filter(|(_, r)| r.allows(from.offset, u64::from(from.len), Rights::READ))
        else {
            return self.refuse(ticket, "READ", from.region, from.offset, from.len);
        };
        let first = from.offset & !(LINE - 1);
        let last = (from.offset + u64::from(from.len)).min(first + PREFETCH_LINES * LINE);
        let mut line = first;
        while line < last {
            place.look.prefetch(line);
            line += LINE;
        }
        self.pending.push_read(ticket, remote, from.offset, from.len, into);
        Ok(())
    }

    /// The region of a READ that is sound, allowed and on a whole connection.
    #[inline(always)]
    fn readable(&self, from: Place) -> Option<&Remote> {
        let sound = from.offset.is_multiple_of(8) && from.len <= READ_MAX && self.broken_or_ok().is_ok();
        let (_, remote) = self.remotes.find(from.region).filter(|_| sound)?;
        remote.allows(from.offset, u64::from(from.len), Rights::READ).then_some(remote)
    }

    /// Asks the CPU for the lines; `false` if `post` is to judge the READ.
    #[inline(always)]
    pub(super) fn prefetch_here(&self, from: Place) -> bool {
        let Some(remote) = self.readable(from) else { return false };
        let first = from.offset & !(LINE - 1);
        let last = (from.offset + u64::from(from.len)).min(first + PREFETCH_LINES * LINE);
        (first..last).step_by(LINE as usize).for_each(|line| remote.look.prefetch(line));
        true
    }

    /// The copy without a queue; `false` if `post` is to judge the READ.
    #[inline(always)]
    pub(super) fn read_here(&mut self, from: Place, into: u32) -> bool {
        let end = u64::from(into) + u64::from(from.len);
        if !into.is_multiple_of(8) || end > self.landing.len() as u64 || self.readable(from).is_none() {
            return false;
        }
        let (remote, _) = self.remotes.find(from.region).expect("found just now");
        self.finish_read(remote, from.offset, from.len, into);
        // Acquire: what is read next is of a later moment than this; pairs with the Release of
        // OwnedWords::store.
        fence(Ordering::Acquire);
        true
    }

    /// The copy, at the time of the poll.
    #[inline(always)]
    pub(super) fn finish_read(&mut self, remote: u8, from: u64, len: u32, into: u32) {
        let to = &mut self.landing[into as usize..into as usize + len as usize];
        self.remotes.at(remote).look.copy_out(from, to);
    }
}
