//! The queue pair: what was posted and not yet polled, what arrives, and how it ends.
//!
//! Nothing here waits for the peer: operations are done by the poster's CPU (`read.rs`, `write.rs`), news
//! comes through the queue page. So a completion is only held back to keep the order, and the poll of an idle
//! queue pair loads one line of the page.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use longarm_base::{Place, RegionId};
use longarm_memory::{Mapped, Words};
use rustix::time::ClockId;

use super::death::Peer;
use super::fds::Lent;
use super::pending::{NextStep, ShmSendQueue};
use super::queue::{Armed, LaneConsumer, LaneEvent, LaneProducer, Scribble};
use super::remote::Remotes;
use crate::{
    Broken, Channel, Completion, Completions, Grant, Granted, Op, PEER_DEATH, PostError, QueuePair, RECEIVES,
    SEND_MAX, SetupError, Ticket, Told, WorkError,
};

/// Every so many polls the clock is read, and every [`CHECK_EVERY`] the socket is looked at.
const CLOCK_EVERY: u32 = 8;
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long a thread sleeps that waits for a peer before it looks whether that is gone: its socket ends then,
/// which wakes nobody who sleeps on a word.
const DEATH_EVERY: Duration = Duration::from_millis(5);
/// How long a change of a peer in this process may be under way when it is revoked.
const IDLE_BOUND: Duration = Duration::from_secs(2);
/// The same of a peer in another process that heeds the fence; one that takes longer is killed.
const HEED_BOUND: Duration = Duration::from_millis(200);

const _: () = assert!(CHECK_EVERY.as_millis() * 4 < PEER_DEATH.as_millis());

/// One end of a connection over shared memory.
pub struct ShmQp {
    pub(super) pending: ShmSendQueue,
    pub(super) landing: Box<[u8]>,
    pub(super) remotes: Remotes,
    pub(super) inbox: LaneConsumer,
    pub(super) outbox: LaneProducer,
    /// An arrival was announced since the last doorbell.
    pub(super) unrung: bool,
    /// Both ends are in this process: revocation is by word, not by signal.
    same_process: bool,
    /// Before each change we look whether the peer has fenced us.
    pub(super) heeds: bool,
    broken: Option<Broken>,
    /// Empty until the peer sends something.
    messages: Vec<u8>,
    granted: Vec<Granted>,
    lent: Vec<Grant>,
    peer: Peer,
    channel: Option<Channel>,
    /// The name under which the channel tells of it.
    name: Option<u64>,
    place: String,
    /// Bytes of the page with both queues.
    page_bytes: usize,
    polls: u32,
    checked: Duration,
    hangups: u64,
}

/// What the handshake made.
pub(super) struct ShmParts {
    pub(super) page: Mapped,
    /// The lane we produce into: 0 the listener, 1 the one who connects.
    pub(super) side: u64,
    pub(super) peer: Peer,
    pub(super) lent: Vec<Grant>,
    pub(super) granted: Vec<(Granted, Lent)>,
    pub(super) landing: u32,
    pub(super) channel: Option<Channel>,
    pub(super) place: String,
}

impl ShmQp {
    pub(super) fn new(parts: ShmParts) -> Result<ShmQp, SetupError> {
        let page_bytes = parts.page.bytes() as usize;
        let name = parts.channel.as_ref().map(|channel| watch(channel, &parts.peer)).transpose()?;
        Ok(ShmQp {
            pending: ShmSendQueue::new(),
            landing: vec![0; parts.landing as usize].into_boxed_slice(),
            inbox: LaneConsumer::new(parts.page.clone(), 1 - parts.side),
            outbox: LaneProducer::new(parts.page, parts.side),
            unrung: false,
            same_process: parts.peer.is_us(),
            heeds: parts.peer.is_us(),
            broken: None,
            messages: Vec::new(),
            granted: parts.granted.iter().map(|(granted, _)| *granted).collect(),
            remotes: Remotes::new(parts.granted),
            lent: parts.lent,
            peer: parts.peer,
            hangups: parts.channel.as_ref().map_or(0, Channel::hangups),
            channel: parts.channel,
            name,
            place: parts.place,
            page_bytes,
            polls: 0,
            checked: now(),
        })
    }

    #[inline(always)]
    pub(super) fn broken_or_ok(&self) -> Result<(), PostError> {
        if self.broken.is_some() { Err(PostError::Broken) } else { Ok(()) }
    }

    /// Completes a request that is not allowed, and breaks the queue pair at both ends (rule 5).
    #[cold]
    pub(super) fn refuse(
        &mut self,
        ticket: Ticket,
        name: &str,
        region: RegionId,
        offset: u64,
        len: u32,
    ) -> Result<(), PostError> {
        let text = format!(
            "{name} of {len} bytes at {offset:#x} of region {} is outside it or beyond the rights granted",
            region.0
        );
        // Those posted before stay as they are: they are allowed, and complete in order.
        self.pending.push_done(ticket, Err(WorkError::Access));
        self.broken = Some(Broken::Protocol(text));
        self.farewell(LaneEvent::Broke);
        Ok(())
    }

    /// The connection is over: outstanding READs are flushed, what was done stays done.
    #[cold]
    pub(super) fn break_off(&mut self, why: Broken) {
        if self.broken.is_none() {
            self.pending.flush();
            let ours = matches!(why, Broken::Protocol(_));
            self.broken = Some(why);
            if ours {
                self.farewell(LaneEvent::Broke);
            }
        }
    }

    /// The last descriptor of our lane, which always has room.
    fn farewell(&mut self, news: LaneEvent) {
        self.outbox.push(news);
        self.wake_peer();
    }

    /// Wakes the peer if it sleeps.
    #[inline]
    fn wake_peer(&self) {
        match self.outbox.take_armed() {
            None => {}
            Some(Armed::Bell) => self.peer.ring_bell(),
            Some(Armed::Word) => self.outbox.wake(),
        }
    }

    #[inline]
    fn poll_pending(&mut self, done: &mut Completions, mut room: usize) {
        while room > 0 && !self.pending.is_empty() {
            let (ticket, next) = self.pending.pop();
            let result = match next {
                NextStep::Read { remote, from, len, into } => {
                    self.finish_read(remote, from, len, into);
                    Ok(0)
                }
                NextStep::Done(result) => result,
            };
            if ticket != Ticket::SILENT || result.is_err() {
                done.push(Completion::Done(ticket, result));
                room -= 1;
            }
        }
    }

    fn poll_inbox(&mut self, done: &mut Completions, mut room: usize) {
        while room > 0 && self.broken.is_none() {
            let Some(news) = self.inbox.take() else { break };
            if let Some(completion) = self.deliver(news) {
                done.push(completion);
                room -= 1;
            }
        }
        self.inbox.taken();
    }

    fn deliver(&mut self, news: Result<LaneEvent, Scribble>) -> Option<Completion> {
        match news {
            Ok(LaneEvent::Write(imm, len)) => return Some(Completion::Arrived { imm, len }),
            Ok(LaneEvent::Send(buffer, len)) => {
                // Copied, because the peer may change its buffer at any time and `message` hands out a
                // reference.
                if self.messages.is_empty() {
                    self.messages.resize(RECEIVES * SEND_MAX, 0);
                }
                let at = usize::from(buffer) * SEND_MAX;
                self.inbox.copy_out(buffer, &mut self.messages[at..at + len as usize]);
                return Some(Completion::Message { buffer, len });
            }
            Ok(LaneEvent::Closed) => self.break_off(Broken::Closed),
            Ok(LaneEvent::Revoked) => self.break_off(Broken::PeerLost("it revoked us".into())),
            Ok(LaneEvent::Broke) => {
                // Not `break_off`: the peer knows already.
                self.pending.flush();
                self.broken = Some(Broken::Protocol(
                    "the peer broke the connection after a request that was not \
                     allowed, ours or its own"
                        .into(),
                ));
            }
            Err(what) => {
                self.break_off(Broken::Protocol(format!("the peer wrote {what} into the queue page")))
            }
        }
        None
    }

    /// Looks at the socket if it is time. What the peer said before its end is still polled first.
    #[cold]
    fn check_peer(&mut self, at_once: bool) {
        let now = now();
        if !at_once && now.saturating_sub(self.checked) < CHECK_EVERY {
            return;
        }
        self.checked = now;
        if self.peer.hung_up() {
            self.lost();
        }
    }

    fn lost(&mut self) {
        // The farewell of a peer that closed is stored before its socket ends, so it is seen here.
        if !self.inbox.has_news() {
            let who = self.peer.pid().map_or("its process".into(), |pid| format!("process {pid}"));
            self.break_off(Broken::PeerLost(format!("{who} ended or cut the connection")));
        }
    }

    /// Waits until no change of a peer that heeds is under way, having forbidden new ones.
    fn fence_by_word(&self, bound: Duration) -> Result<(), SetupError> {
        self.inbox.fence_off();
        let until = Instant::now() + bound;
        while !self.inbox.idle() && !self.peer.is_dead() {
            if Instant::now() > until {
                return Err(SetupError::Timeout("a change of the revoked peer, which is under way,".into()));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Nothing of the peer takes effect any more: says so.
    fn cut_off(&mut self) {
        if self.broken.is_none() {
            self.pending.flush();
            self.farewell(LaneEvent::Revoked);
        }
        self.broken = Some(Broken::Revoked);
        self.peer.hang_up();
    }
}

#[cfg(test)]
impl ShmQp {
    /// The queue page, to scribble on.
    pub(super) fn page_for_tests(&self) -> &Mapped {
        self.inbox.page()
    }
}

/// Has what the peer announces wake the channel.
fn watch(channel: &Channel, peer: &Peer) -> Result<u64, SetupError> {
    channel.watch(peer.socket()).map_err(|e| SetupError::Os("watch the peer's socket", e))
}

/// Coarse time: a few nanoseconds to read, a few milliseconds wrong.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl QueuePair for ShmQp {
    #[inline]
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        self.broken_or_ok()?;
        if self.pending.is_full() {
            return Err(PostError::Full);
        }
        if !op.is_well_formed(self.landing.len()) {
            return Err(PostError::Malformed);
        }
        match op {
            Op::Read { from, into } => self.post_read(from, into, ticket),
            Op::Write { region, offset, bytes } => self.post_write(region, offset, bytes, None, ticket),
            Op::WriteImm { region, offset, bytes, imm } => {
                self.post_write(region, offset, bytes, Some(imm), ticket)
            }
            Op::Send { bytes } => self.post_send(bytes, ticket),
            Op::CompareSwap { region, offset, expected, new } => {
                self.post_compare_swap(region, offset, expected, new, ticket)
            }
            Op::FetchAdd { region, offset, add } => self.post_fetch_add(region, offset, add, ticket),
        }
    }

    #[inline]
    fn ring(&mut self) {
        if self.unrung {
            self.unrung = false;
            self.wake_peer();
        }
    }

    #[inline]
    fn poll(&mut self, done: &mut Completions) -> usize {
        let room = done.room();
        if !self.pending.is_empty() {
            self.poll_pending(done, room);
        }
        if self.broken.is_none() {
            if self.inbox.has_news() {
                self.poll_inbox(done, done.room());
            }
            self.polls = self.polls.wrapping_add(1);
            if self.polls.is_multiple_of(CLOCK_EVERY) {
                self.check_peer(false);
            }
        }
        room - done.room()
    }

    #[inline(always)]
    fn prefetch(&self, from: Place) -> bool {
        self.prefetch_here(from);
        true
    }

    #[inline(always)]
    fn read_now(&mut self, from: Place, into: u32) -> bool {
        self.read_here(from, into)
    }

    #[inline]
    fn landing(&self, at: u32, len: u32) -> &[u8] {
        &self.landing[at as usize..at as usize + len as usize]
    }

    fn message(&self, buffer: u16, len: u32) -> &[u8] {
        assert!(len as usize <= SEND_MAX, "a message has at most {SEND_MAX} bytes, not {len}");
        let at = usize::from(buffer) * SEND_MAX;
        &self.messages[at..at + len as usize]
    }

    fn release(&mut self, buffer: u16) {
        assert!(self.inbox.release(buffer), "receive buffer {buffer} was handed back without being held");
    }

    fn arm(&mut self) -> bool {
        if !self.pending.is_empty() {
            return true;
        }
        if self.broken.is_some() {
            return false;
        }
        if self.inbox.bell_rang() {
            self.peer.hush();
        }
        let hangups = self.channel.as_ref().map_or(self.hangups, Channel::hangups);
        let somebody_left = hangups != self.hangups;
        self.hangups = hangups;
        self.check_peer(somebody_left);
        // A peer found dead just now is news too: the caller polls, and sees the state.
        self.broken.is_some() || !self.pending.is_empty() || self.inbox.arm()
    }

    #[inline]
    fn ready(&mut self) -> bool {
        !self.pending.is_empty() || self.inbox.has_news()
    }

    fn wait(&mut self, timeout: Duration) {
        let until = Instant::now() + timeout;
        if self.inbox.bell_rang() {
            self.peer.hush();
        }
        while self.broken.is_none() && !self.ready() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.inbox.sleep(left.min(DEATH_EVERY)) {
                return;
            }
            if self.peer.hung_up() {
                return self.lost();
            }
        }
    }

    fn attend(&mut self, channel: &Channel) -> Result<(), SetupError> {
        self.name = Some(watch(channel, &self.peer)?);
        (self.hangups, self.channel) = (channel.hangups(), Some(channel.clone()));
        Ok(())
    }

    fn told(&self) -> Option<Told> {
        self.name.map(Told::Armed)
    }

    fn state(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn granted(&self) -> &[Granted] {
        &self.granted
    }

    fn revoke(&mut self) -> Result<(), SetupError> {
        if self.lent.iter().any(|grant| grant.rights.can_change()) {
            // Also when the connection is broken already: the mapping outlives it.
            match self.same_process {
                true => self.fence_by_word(IDLE_BOUND)?,
                false => self.peer.kill()?,
            }
        }
        self.cut_off();
        Ok(())
    }

    fn heed_fence(&mut self) {
        self.heeds = true;
    }

    fn fence(&mut self) -> Result<(), SetupError> {
        let can_change = self.lent.iter().any(|grant| grant.rights.can_change());
        if self.same_process || !can_change {
            return self.revoke();
        }
        // Also when the connection is broken already, as in `revoke`. One that is stopped in the middle of a
        // change does not come to its end.
        if self.fence_by_word(HEED_BOUND).is_err() {
            self.peer.kill()?;
        }
        self.cut_off();
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        size_of::<ShmQp>() + self.page_bytes + self.landing.len() + self.messages.capacity()
    }

    fn describe(&self) -> String {
        match self.peer.pid() {
            Some(pid) => format!("shm {} pid {pid}", self.place),
            None => format!("shm {} uid {}", self.place, self.peer.uid()),
        }
    }
}

impl Drop for ShmQp {
    fn drop(&mut self) {
        if self.broken.is_none() {
            self.farewell(LaneEvent::Closed);
        }
        if let Some(channel) = &self.channel {
            channel.unwatch(self.peer.socket().as_fd());
        }
        self.peer.hang_up();
    }
}
