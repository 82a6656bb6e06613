//! READ: the doorbell prefetches, the poll copies.
//!
//! `post` asks the CPU for the lines and returns; the copy waits for `poll`. So the cache misses of a batch
//! overlap, as the READs of a doorbell batch do on a NIC (one core keeps 10 to 16 misses in flight), and a
//! GET's two dependent READs cost two misses and little more (NoSQL landscape 3.3, of HERD's prefetching).

use std::sync::atomic::{Ordering, fence};

use longarm_base::limits::{LINE, READ_MAX};
use longarm_base::{Place, RegionId};
use longarm_memory::{Mapped, ReadOnly, Words};

use super::fds::Lent;
use super::qp::ShmQp;
use crate::{Granted, Op, PostError, Rights, Ticket};

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

    /// Asks the CPU for the first lines of a READ.
    #[inline(always)]
    fn prefetch(&self, from: Place) {
        let mut line = from.offset & !(LINE - 1);
        if u64::from(from.len) <= LINE - (from.offset - line) {
            return self.look.prefetch(line);
        }
        let end = (from.offset + u64::from(from.len)).min(line + PREFETCH_LINES * LINE);
        while line < end {
            self.look.prefetch(line);
            line += LINE;
        }
    }
}

impl Remotes {
    /// The region of a READ that is aligned, short enough and allowed.
    #[inline(always)]
    fn readable(&self, from: Place) -> Option<(u8, &Remote)> {
        let sound = from.offset.is_multiple_of(8) && from.len <= READ_MAX;
        let found = if sound { self.find(from.region) } else { None };
        found.filter(|(_, remote)| remote.allows(from.offset, u64::from(from.len), Rights::READ))
    }
}

impl ShmQp {
    #[inline]
    pub(super) fn post_read(&mut self, from: Place, into: u32, ticket: Ticket) -> Result<(), PostError> {
        let Some((at, remote)) = self.remotes.readable(from) else {
            return self.refuse(ticket, "READ", from.region, from.offset, from.len);
        };
        remote.prefetch(from);
        self.pending.push_read(ticket, at, from.offset, from.len, into);
        Ok(())
    }

    /// Asks the CPU for the lines; `false` if `post` is to judge the READ.
    #[inline(always)]
    pub(super) fn prefetch_here(&self, from: Place) -> bool {
        match self.remotes.readable(from) {
            Some((_, remote)) if self.broken_or_ok().is_ok() => {
                remote.prefetch(from);
                true
            }
            _ => false,
        }
    }

    /// The copy without a queue; `false` if `post` is to judge the READ.
    #[inline(always)]
    pub(super) fn read_here(&mut self, from: Place, into: u32) -> bool {
        let lands = Op::Read { from, into }.is_well_formed(self.landing.len());
        let whole = self.broken_or_ok().is_ok() && lands;
        let Some((_, remote)) = self.remotes.readable(from).filter(|_| whole) else { return false };
        remote.look.copy_out(from.offset, &mut self.landing[into as usize..][..from.len as usize]);
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
        // Acquire: as in `read_here`; a READ that is posted after this one is reported is of a later moment.
        fence(Ordering::Acquire);
    }
}
