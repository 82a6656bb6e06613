//! WRITE, WRITE_WITH_IMM, SEND and the atomics: done on the spot by the poster's CPU, so in posting order.
//! `post` has checked their form.
//!
//! Every change goes through [`ShmQp::change`], which checks region, bounds and rights first and, for a peer
//! in this same process or one that we promised to heed, stands between the change and a revocation
//! (`queue.rs`: busy, revoked). Any other peer in another process is fenced by being killed.

use longarm_base::{Place, RegionId};
use longarm_memory::{Mapped, OwnedWords};

use super::qp::ShmQp;
use super::queue::LaneEvent;
use crate::{Broken, PostError, Rights, Ticket};

impl ShmQp {
    pub(super) fn post_write(
        &mut self,
        region: RegionId,
        offset: u64,
        bytes: &[u8],
        imm: Option<u32>,
        ticket: Ticket,
    ) -> Result<(), PostError> {
        if imm.is_some() {
            self.need_room()?;
        }
        let len = bytes.len() as u32;
        self.change(Place::new(region, offset, len), Rights::WRITE, ticket, |memory| {
            memory.copy_in(offset, bytes);
            u64::from(len)
        })?;
        if let (Some(imm), Ok(())) = (imm, self.broken_or_ok()) {
            self.outbox.push(LaneEvent::Write(imm, len));
            self.unrung = true;
        }
        Ok(())
    }

    pub(super) fn post_send(&mut self, bytes: &[u8], ticket: Ticket) -> Result<(), PostError> {
        self.need_room()?;
        let buffer = self.outbox.free_buffer().ok_or(PostError::Full)?;
        if !self.enter() {
            return Err(PostError::Broken);
        }
        self.outbox.fill(buffer, bytes);
        self.outbox.push(LaneEvent::Send(buffer, bytes.len() as u32));
        self.leave();
        self.unrung = true;
        self.succeed(ticket, bytes.len() as u64);
        Ok(())
    }

    pub(super) fn post_compare_swap(
        &mut self,
        region: RegionId,
        offset: u64,
        expected: u64,
        new: u64,
        ticket: Ticket,
    ) -> Result<(), PostError> {
        self.change(Place::new(region, offset, 8), Rights::ATOMIC, ticket, |memory| {
            match memory.compare_exchange(offset, expected, new) {
                Ok(()) => expected,
                Err(before) => before,
            }
        })
    }

    pub(super) fn post_fetch_add(
        &mut self,
        region: RegionId,
        offset: u64,
        add: u64,
        ticket: Ticket,
    ) -> Result<(), PostError> {
        self.change(Place::new(region, offset, 8), Rights::ATOMIC, ticket, |memory| {
            memory.fetch_add(offset, add)
        })
    }

    /// Changes the peer's memory if that is allowed, and completes the request either way.
    #[inline]
    fn change(
        &mut self,
        place: Place,
        wanted: Rights,
        ticket: Ticket,
        act: impl FnOnce(&Mapped) -> u64,
    ) -> Result<(), PostError> {
        let Place { region, offset, len } = place;
        let found = self.remotes.find(region).map(|(_, remote)| remote);
        let allowed = found.filter(|remote| remote.allows(offset, u64::from(len), wanted));
        let Some(memory) = allowed.and_then(|remote| remote.change.as_ref()) else {
            let name = if wanted == Rights::ATOMIC { "atomic" } else { "WRITE" };
            return self.refuse(ticket, name, region, offset, len);
        };
        if self.heeds && !self.outbox.enter() {
            self.break_off(Broken::PeerLost("it revoked us".into()));
            return Err(PostError::Broken);
        }
        let result = act(memory);
        self.leave();
        self.succeed(ticket, result);
        Ok(())
    }

    /// [`Full`](PostError::Full) unless one more arrival fits.
    fn need_room(&mut self) -> Result<(), PostError> {
        match self.outbox.has_room() {
            Ok(true) => Ok(()),
            Ok(false) => Err(PostError::Full),
            Err(what) => {
                self.break_off(Broken::Protocol(format!("the peer wrote {what} into the queue page")));
                Err(PostError::Broken)
            }
        }
    }

    fn enter(&mut self) -> bool {
        let allowed = !self.heeds || self.outbox.enter();
        if !allowed {
            self.break_off(Broken::PeerLost("it revoked us".into()));
        }
        allowed
    }

    fn leave(&self) {
        if self.heeds {
            self.outbox.leave();
        }
    }

    #[inline]
    fn succeed(&mut self, ticket: Ticket, result: u64) {
        if ticket != Ticket::SILENT {
            self.pending.push_done(ticket, Ok(result));
        }
    }
}
