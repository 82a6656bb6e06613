//! From an [`Op`] to a request of the device.

use longarm_base::RegionId;
use longarm_ibverbs as ib;

use super::pending::PostedRequest;
use super::qp::VerbsQp;
use super::staging::{StagingPlace, UNSIGNALLED};
use crate::{Broken, Op, PostError, RECEIVES, Rights, Ticket};

/// Of silent requests every so many is signalled.
const SIGNAL_EVERY: usize = 32;

impl VerbsQp {
    /// The rest of `post`, on a queue pair that stands.
    #[inline]
    pub(super) fn queue_request(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        if !op.is_well_formed(self.landing.len()) {
            return Err(PostError::Malformed);
        }
        if self.pending.is_full() || self.batch.is_full() {
            return Err(PostError::Full);
        }
        match op {
            Op::Read { from, .. } if !self.pending.may_read(from.len) => return Err(PostError::Full),
            Op::Read { from, into } => {
                let key = self.landing.region().local_key();
                let local = ib::Local { address: self.landing.address(into as usize), bytes: from.len, key };
                let (remote, allowed) = self.remote(from.region, from.offset, from.len.into(), Rights::READ);
                let request = PostedRequest {
                    ticket: Some(ticket),
                    staged: None,
                    word: false,
                    allowed,
                    reads: from.len,
                };
                self.push(ib::Request::Read(local, remote), request, 0);
            }
            Op::Write { region, offset, bytes } => self.write(region, offset, bytes, None, ticket)?,
            Op::WriteImm { region, offset, bytes, imm } => {
                self.write(region, offset, bytes, Some(imm), ticket)?;
            }
            Op::Send { bytes } => {
                self.may_send()?;
                let (place, local) = self.stage(bytes)?;
                self.receives.sent += 1;
                let request = PostedRequest {
                    ticket: Some(ticket),
                    staged: Some(place),
                    word: false,
                    allowed: true,
                    reads: 0,
                };
                self.push(ib::Request::Send(local, None), request, bytes.len());
            }
            Op::CompareSwap { region, offset, expected, new } => {
                let (local, remote, request) = self.atomic(region, offset, ticket)?;
                self.push(ib::Request::CompareSwap(local, remote, expected, new), request, 8);
            }
            Op::FetchAdd { region, offset, add } => {
                let (local, remote, request) = self.atomic(region, offset, ticket)?;
                self.push(ib::Request::FetchAdd(local, remote, add), request, 8);
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        region: RegionId,
        offset: u64,
        bytes: &[u8],
        imm: Option<u32>,
        ticket: Ticket,
    ) -> Result<(), PostError> {
        let (place, local) = self.stage(bytes)?;
        let (remote, allowed) = self.remote(region, offset, bytes.len() as u64, Rights::WRITE);
        let request =
            PostedRequest { ticket: Some(ticket), staged: Some(place), word: false, allowed, reads: 0 };
        self.push(ib::Request::Write(local, remote, imm), request, bytes.len());
        Ok(())
    }

    fn atomic(
        &mut self,
        region: RegionId,
        offset: u64,
        ticket: Ticket,
    ) -> Result<(ib::Local, ib::Remote, PostedRequest), PostError> {
        let (place, local) = self.stage(&[0; 8])?;
        let (remote, allowed) = self.remote(region, offset, 8, Rights::ATOMIC);
        let request =
            PostedRequest { ticket: Some(ticket), staged: Some(place), word: true, allowed, reads: 0 };
        Ok((local, remote, request))
    }

    /// Copies outgoing bytes.
    fn stage(&mut self, bytes: &[u8]) -> Result<(StagingPlace, ib::Local), PostError> {
        let place = self.staging.take(bytes.len()).ok_or(PostError::Full)?;
        // SAFETY: the place is ours until it is given back.
        unsafe { self.staging.buffer.fill(place.at, bytes) };
        Ok((place, self.staged(place, bytes.len())))
    }

    pub(super) fn staged(&self, place: StagingPlace, len: usize) -> ib::Local {
        let buffer = &self.staging.buffer;
        let key = buffer.region().local_key();
        ib::Local { address: buffer.address(place.at), bytes: len as u32, key }
    }

    /// Whether the peer has a buffer for a SEND.
    fn may_send(&mut self) -> Result<(), PostError> {
        match self.receives.unreleased() {
            Ok(unreleased) if unreleased < RECEIVES as u64 => Ok(()),
            Ok(_) => Err(PostError::Full),
            Err(_) => {
                let text = "the peer gave back more receive buffers than it got";
                self.break_off(Broken::Protocol(text.into()), Some(super::lifeline::Farewell::Broke));
                Err(PostError::Broken)
            }
        }
    }

    /// Where an offset of a region is at the peer, and whether what the peer lent allows the access. The
    /// peer's device is the judge, not we: a region that nobody lent gets a place that is surely refused, so
    /// that what was posted before still completes, and both ends break. Our own opinion tells a refusal from
    /// a peer whose memory is gone, because its process ended.
    #[inline]
    fn remote(&self, region: RegionId, offset: u64, len: u64, wanted: Rights) -> (ib::Remote, bool) {
        match self.remotes.iter().find(|(granted, _)| granted.id == region) {
            Some((granted, key)) => {
                let inside = offset.checked_add(len).is_some_and(|end| end <= granted.bytes);
                // Wrapping: the sum lies in the registration only if the offset lies in the region.
                let remote = ib::Remote { address: key.address.wrapping_add(offset), key: key.key };
                (remote, inside && granted.rights.allow(wanted))
            }
            None => {
                let nowhere =
                    self.remotes.first().map_or(ib::Remote { address: 0, key: 0 }, |(granted, key)| {
                        ib::Remote { address: key.address.wrapping_add(granted.bytes), key: key.key }
                    });
                (nowhere, false)
            }
        }
    }

    /// Queues the request. `bytes` it takes along.
    #[inline]
    fn push(&mut self, request: ib::Request<'_>, pending: PostedRequest, bytes: usize) {
        let (requests, waiting) = (self.unsignalled.0 + 1, self.unsignalled.1 + bytes);
        let silent = pending.ticket == Some(Ticket::SILENT);
        let signalled = !silent || requests >= SIGNAL_EVERY || waiting >= UNSIGNALLED;
        self.unsignalled = if signalled { (0, 0) } else { (requests, waiting) };
        let is_store = matches!(request, ib::Request::Write(..) | ib::Request::Send(..));
        let inline = is_store && bytes <= self.inline_max && bytes > 0;
        let number = self.pending.push(pending);
        self.batch.push(number, request, ib::Flags { signalled, inline, fence: false });
    }
}
