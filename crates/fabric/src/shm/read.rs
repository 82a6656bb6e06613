//! READ: the doorbell prefetches, the poll copies.
//!
//! `post` asks the CPU for the lines and returns; the copy waits for `poll`. So the cache misses of a batch
//! overlap, as the READs of a doorbell batch do on a NIC (one core keeps 10 to 16 misses in flight), and a
//! GET's two dependent READs cost two misses and little more (NoSQL landscape 3.3, of HERD's prefetching).

use std::sync::atomic::{Ordering, fence};

use longarm_base::Place;
use longarm_memory::Words;

use super::qp::ShmQp;
use crate::{Op, PostError, Ticket};

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

    /// Asks the CPU for the lines. The READ is judged when it is made: a prefetch reads nothing.
    #[inline(always)]
    pub(super) fn prefetch_here(&self, from: Place) {
        if let Some((_, remote)) = self.remotes.find(from.region) {
            remote.prefetch(from);
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
