//! The queue pair: posts, completions in order, and how it ends.
//!
//! It ends by the device (a request failed, or receives were flushed) or by the lifeline (a last word, or the
//! end of the peer's process). Either way the device's queue pair is put into ERR, what the device already
//! reported is still polled, and the rest is flushed by us: nobody waits for a device that may be gone.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_ibverbs as ib;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::time::ClockId;

use super::adapter::Adapter;
use super::endpoint::{Endpoint, RemoteKey};
use super::failed::failed;
use super::lifeline::{Farewell, Lifeline};
use super::open::Opened;
use super::pending::{PostedRequest, VerbsSendQueue};
use super::receives::{CREDITS_MAX, Receives};
use super::register::Registered;
use super::slot::QueuePairSlot;
use super::staging::Staging;
use crate::{
    Broken, Channel, Completion, Completions, Granted, Op, PEER_DEATH, PostError, QueuePair, RECEIVES,
    SetupError, Ticket, Told, WorkError,
};

/// Every so many polls the clock is read, and every [`CHECK_EVERY`] the lifeline is listened to.
const CLOCK_EVERY: u32 = 8;
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Where cores are few: every so many polls in vain yield.
const YIELD_EVERY: u32 = 16;
/// Completions taken from the device at once.
const AT_ONCE: usize = 16;
/// How long a queue pair that is dropped waits for what it posted.
const LINGER: Duration = Duration::from_millis(50);
/// How long a revocation waits for the flush that proves it.
const FLUSH_BOUND: Duration = Duration::from_secs(2);

const _: () = assert!(CHECK_EVERY.as_millis() * 4 < PEER_DEATH.as_millis());

/// One end of a connection over RDMA. Fields drop in this order: the device's queue pair, then what it uses.
pub struct VerbsQp {
    /// `None` once revoked: destroyed.
    qp: Option<ib::QueuePair>,
    pub(super) batch: ib::Batch,
    pub(super) pending: VerbsSendQueue,
    pub(super) staging: Staging,
    pub(super) receives: Receives,
    pub(super) landing: ib::Buffer,
    /// What the peer lent, and where.
    pub(super) remotes: Vec<(Granted, RemoteKey)>,
    /// Requests, and staged bytes, since the last signalled one.
    pub(super) unsignalled: (usize, usize),
    pub(super) inline_max: usize,
    queue: Arc<ib::CompletionQueue>,
    events: Arc<ib::CompletionChannel>,
    /// Taken from the device, not polled yet.
    early: VecDeque<ib::WorkCompletion>,
    broken: Option<Broken>,
    /// The lifeline's news; breaks the queue pair once the device has nothing more.
    ending: Option<Broken>,
    /// Credits that could not be posted.
    owed: bool,
    armed: bool,
    lifeline: Lifeline,
    granted: Vec<Granted>,
    their_credit: RemoteKey,
    _lent: Vec<Arc<Registered>>,
    channel: Option<Channel>,
    /// The name under which the channel tells of it.
    told: Option<u64>,
    hangups: u64,
    adapter: Arc<Adapter>,
    _slot: Option<QueuePairSlot>,
    yields: bool,
    name: String,
    polls: u32,
    checked: Duration,
}

/// What the handshake made.
pub(super) struct VerbsParts {
    pub opened: Opened,
    pub lifeline: Lifeline,
    pub landing: ib::Buffer,
    pub lent: Vec<Arc<Registered>>,
    pub granted: Vec<Granted>,
    pub theirs: Endpoint,
    pub channel: Option<Channel>,
    pub yields: bool,
    pub slot: Option<QueuePairSlot>,
    pub name: String,
}

impl VerbsQp {
    pub(super) fn new(parts: VerbsParts) -> Result<VerbsQp, SetupError> {
        let Opened { qp, queue, channel: events, receives, staging, adapter, .. } = parts.opened;
        let told =
            parts.channel.as_ref().map(|channel| watch(channel, &parts.lifeline, &events)).transpose()?;
        Ok(VerbsQp {
            inline_max: qp.inline_max() as usize,
            qp: Some(qp),
            batch: ib::Batch::new(super::pending::SLOTS),
            pending: VerbsSendQueue::new(),
            staging,
            receives,
            landing: parts.landing,
            remotes: parts.granted.iter().copied().zip(parts.theirs.keys).collect(),
            unsignalled: (0, 0),
            queue,
            events,
            early: VecDeque::with_capacity(AT_ONCE),
            broken: None,
            ending: None,
            owed: false,
            armed: false,
            lifeline: parts.lifeline,
            granted: parts.granted,
            their_credit: parts.theirs.credit,
            _lent: parts.lent,
            hangups: parts.channel.as_ref().map_or(0, Channel::hangups),
            channel: parts.channel,
            told,
            adapter,
            _slot: parts.slot,
            yields: parts.yields,
            name: parts.name,
            polls: 0,
            checked: now(),
        })
    }

    /// Takes what the device has; `false` if there is nothing.
    #[inline]
    fn fetch(&mut self) -> bool {
        let mut some = [ib::WorkCompletion::default(); AT_ONCE];
        match self.queue.poll(&mut some) {
            Ok(count) => {
                self.early.extend(&some[..count]);
                count > 0
            }
            Err(error) => {
                self.ending.get_or_insert(Broken::PeerLost(error.to_string()));
                false
            }
        }
    }

    /// What a completion of the device means to the user, if anything.
    #[inline]
    fn take(&mut self, done: ib::WorkCompletion) -> Option<Completion> {
        match Receives::buffer_of(done.id()) {
            Some(buffer) => self.take_receive(buffer, done),
            None => self.take_request(done),
        }
    }

    #[inline]
    fn take_receive(&mut self, buffer: u16, done: ib::WorkCompletion) -> Option<Completion> {
        if done.status() != ib::Status::Success {
            // The device ended the connection; the lifeline may know why, else a peer's access was refused.
            let why = self.lifeline.listen().unwrap_or_else(|| {
                Broken::Protocol("a request of the peer was refused by our device, or ours by its".into())
            });
            self.break_off(why, Some(Farewell::Broke));
            return None;
        }
        match (done.kind(), done.immediate()) {
            (ib::WorkKind::Written, Some(imm)) => {
                self.repost(buffer);
                Some(Completion::Arrived { imm, len: done.bytes() })
            }
            _ => {
                self.receives.hold(buffer);
                Some(Completion::Message { buffer, len: done.bytes() })
            }
        }
    }

    fn repost(&mut self, buffer: u16) {
        let Some(qp) = &self.qp else { return };
        if let Err(error) = self.receives.post(qp, buffer) {
            self.break_off(Broken::PeerLost(error.to_string()), Some(Farewell::Broke));
        }
    }

    #[inline]
    fn take_request(&mut self, done: ib::WorkCompletion) -> Option<Completion> {
        let number = done.id();
        if self.broken.is_some() || !self.pending.holds(number) {
            // Flushed by us already.
            return None;
        }
        // Success of what came before, all of it silent.
        while self.pending.oldest() < number {
            self.settle();
        }
        if done.status() == ib::Status::Success {
            let (ticket, word) = self.settle()?;
            return (ticket != Ticket::SILENT).then_some(Completion::Done(ticket, Ok(word)));
        }
        let allowed = self.pending.first().is_some_and(|request| request.allowed);
        let refused = done.status() == ib::Status::RemoteAccess && !allowed;
        let (broken, farewell) = self.explain(&done, refused);
        let failed = self.settle();
        self.break_off(broken, farewell);
        let error = if refused { WorkError::Access } else { WorkError::Flushed };
        failed.map(|(ticket, _)| Completion::Done(ticket, Err(error)))
    }

    /// Takes the oldest request away; the user's ticket, if it was the user's, and an atomic's old word.
    #[inline]
    fn settle(&mut self) -> Option<(Ticket, u64)> {
        let PostedRequest { ticket, staged, word, .. } = self.pending.pop()?;
        let mut old = 0;
        if let Some(place) = staged {
            if word {
                old = self.staging.buffer.word(place.at);
            }
            self.staging.give_back(place.end);
        }
        ticket.map(|ticket| (ticket, old))
    }

    #[cold]
    fn explain(&self, done: &ib::WorkCompletion, refused: bool) -> (Broken, Option<Farewell>) {
        let lost = |what: &str| Broken::PeerLost(format!("{what}{}", self.adapter.device.ailment()));
        match done.status() {
            ib::Status::RemoteAccess if refused => {
                let text = "the peer's device refused a request: outside the region, or beyond the rights";
                (Broken::Protocol(text.into()), Some(Farewell::Broke))
            }
            // The lifeline knows more, where it has spoken.
            _ if self.ending.is_some() => (self.ending.clone().expect("just seen"), None),
            // Its device no longer knows memory that it lent: a process that ends loses its memory first.
            ib::Status::RemoteAccess => match self.lifeline.listen() {
                Some(broken) => (broken, None),
                None => (lost("what it lent is gone: its process is ending"), Some(Farewell::Broke)),
            },
            ib::Status::Flushed => match self.lifeline.listen() {
                Some(broken) => (broken, None),
                None => (lost("the connection was ended by a device"), Some(Farewell::Broke)),
            },
            _ => match self.lifeline.listen() {
                Some(broken) => (broken, None),
                None => (lost(&format!("its device does not answer ({})", done.text())), None),
            },
        }
    }

    /// The connection is over: what is pending is flushed by the polls that follow.
    #[cold]
    pub(super) fn break_off(&mut self, why: Broken, farewell: Option<Farewell>) {
        if self.broken.is_some() {
            return;
        }
        if let Some(qp) = &self.qp {
            // A device that refuses is lost, and then so is the connection.
            let _ = qp.fail();
        }
        self.batch.clear();
        self.broken = Some(why);
        if let Some(word) = farewell {
            self.lifeline.say(word);
        }
    }

    /// After the end: pending requests, as failures, oldest first.
    #[cold]
    fn flush(&mut self, done: &mut Completions) {
        while done.room() > 0 {
            let Some(PostedRequest { ticket, .. }) = self.pending.pop() else { return };
            if let Some(ticket) = ticket {
                done.push(Completion::Done(ticket, Err(WorkError::Flushed)));
            }
        }
    }

    /// Listens to the lifeline, if it is time.
    #[cold]
    fn check_peer(&mut self, at_once: bool) {
        let now = now();
        if !at_once && now.saturating_sub(self.checked) < CHECK_EVERY {
            return;
        }
        self.checked = now;
        if self.ending.is_none() && self.broken.is_none() {
            self.ending = match self.adapter.device.is_alive() {
                true => self.lifeline.listen(),
                false => Some(Broken::PeerLost(format!("no way to it{}", self.adapter.device.ailment()))),
            };
        }
    }

    /// Tells the peer how many of its SENDs were released.
    fn pay_credit(&mut self) {
        self.owed = self.pending.own() >= CREDITS_MAX;
        if self.owed || self.broken.is_some() {
            return;
        }
        let released = self.receives.released.to_le_bytes();
        let Some(place) = self.staging.take(released.len()) else {
            self.owed = true;
            return;
        };
        // SAFETY: the place is ours until it is given back.
        unsafe { self.staging.buffer.fill(place.at, &released) };
        let number = self.pending.push(PostedRequest {
            ticket: None,
            staged: Some(place),
            word: false,
            allowed: true,
            reads: 0,
        });
        let RemoteKey { address, key } = self.their_credit;
        let local = self.staged(place, released.len());
        let flags = ib::Flags { signalled: true, inline: self.inline_max >= released.len(), fence: false };
        self.batch.push(number, ib::Request::Write(local, ib::Remote { address, key }, None), flags);
        self.unsignalled = (0, 0);
        self.ring();
    }

    /// Sleeps until the device or the lifeline has news, or the time is over.
    fn sleep(&self, time: Duration) {
        let limit = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos() as i64 };
        let events = self.events.as_fd();
        let mut fds =
            [PollFd::from_borrowed_fd(events, PollFlags::IN), PollFd::new(&self.lifeline, PollFlags::IN)];
        // Woken early by a signal the caller looks and comes back.
        let _ = rustix::event::poll(&mut fds, Some(&limit));
    }

    /// Waits for a receive to be flushed: the proof that nothing of the peer comes after. A peer that was
    /// faster than our polls may have taken them all; then one is posted again, to be flushed.
    fn await_flush(&mut self) -> Result<(), SetupError> {
        let until = Instant::now() + FLUSH_BOUND;
        let mut taken = self.early.iter().find_map(|done| Receives::buffer_of(done.id()));
        let mut some = [ib::WorkCompletion::default(); AT_ONCE];
        loop {
            let count = self.queue.poll(&mut some).map_err(failed)?;
            for done in &some[..count] {
                match Receives::buffer_of(done.id()) {
                    Some(_) if done.status() != ib::Status::Success => return Ok(()),
                    Some(buffer) => taken = Some(buffer),
                    None => {}
                }
            }
            if let (0, Some(buffer), Some(qp)) = (count, taken, &self.qp) {
                taken = None;
                self.receives.post(qp, buffer).map_err(failed)?;
                // Soft-RoCE looks for receives to flush when it is told to fail, and only then.
                qp.fail().map_err(failed)?;
            }
            if Instant::now() > until {
                let text = "the flush of the revoked queue pair: our RDMA device";
                return Err(SetupError::Timeout(text.into()));
            }
            std::thread::yield_now();
        }
    }

    /// Waits, not for long, until what was posted is done: a side that leaves in good order was heard.
    fn linger(&mut self) {
        self.ring();
        let until = Instant::now() + LINGER;
        while self.broken.is_none() && self.ending.is_none() && !self.pending.is_empty() {
            // Silent requests at the end are done when the device says so of one behind them.
            if self.unsignalled != (0, 0) {
                self.pay_credit();
            }
            if !self.fetch() {
                if Instant::now() > until {
                    return;
                }
                self.check_peer(false);
                std::thread::yield_now();
            }
            while let Some(done) = self.early.pop_front() {
                self.take(done);
            }
        }
    }
}

#[cfg(feature = "conformance")]
impl VerbsQp {
    /// Keys of what the peer lent, in its order; for tests.
    pub fn remote_keys(&self) -> Vec<u32> {
        self.remotes.iter().map(|(_, key)| key.key).collect()
    }
}

/// Coarse time: a few nanoseconds to read, a few milliseconds wrong.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl QueuePair for VerbsQp {
    #[inline]
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        if self.broken.is_some() {
            return Err(PostError::Broken);
        }
        self.queue_request(op, ticket)
    }

    #[inline]
    fn ring(&mut self) {
        if self.batch.is_empty() || self.broken.is_some() {
            return;
        }
        let Some(qp) = &self.qp else { return };
        // SAFETY: staging, landing and receives outlive the queue pair (order of the fields); places in the
        // staging memory are not written, and landings not shown, while requests on them are pending.
        let posted = unsafe { self.batch.post(qp) };
        if let Err(error) = posted {
            self.break_off(Broken::PeerLost(error.to_string()), Some(Farewell::Broke));
        }
    }

    #[inline]
    fn poll(&mut self, done: &mut Completions) -> usize {
        let room = done.room();
        if self.owed {
            self.pay_credit();
        }
        while done.room() > 0 && self.qp.is_some() {
            let Some(next) = self.early.pop_front() else {
                if self.fetch() {
                    continue;
                }
                break;
            };
            if let Some(completion) = self.take(next) {
                done.push(completion);
            }
        }
        if self.broken.is_some() {
            self.flush(done);
        } else if done.room() == room {
            self.idle();
        }
        room - done.room()
    }

    fn landing(&self, at: u32, len: u32) -> &[u8] {
        // SAFETY: READs into these bytes are over, and none is posted while the reference lives (rule of the
        // contract; `&mut self` to post).
        unsafe { self.landing.bytes(at as usize, len as usize) }
    }

    fn message(&self, buffer: u16, len: u32) -> &[u8] {
        self.receives.message(buffer, len)
    }

    fn release(&mut self, buffer: u16) {
        self.receives.release(buffer);
        self.repost(buffer);
        self.pay_credit();
    }

    fn arm(&mut self) -> bool {
        if !self.early.is_empty() || (self.broken.is_some() && !self.pending.is_empty()) {
            return true;
        }
        if self.broken.is_some() {
            return false;
        }
        let hangups = self.channel.as_ref().map_or(self.hangups, Channel::hangups);
        let somebody_left = hangups != self.hangups;
        self.hangups = hangups;
        self.check_peer(somebody_left);
        if self.ending.is_some() || self.fetch() {
            return true;
        }
        if self.armed {
            self.events.drain();
        }
        self.armed = true;
        if let Err(error) = self.queue.arm() {
            self.ending = Some(Broken::PeerLost(error.to_string()));
            return true;
        }
        // What came before the arming makes no event.
        self.fetch()
    }

    fn ready(&mut self) -> bool {
        if self.fetch() || !self.early.is_empty() {
            return true;
        }
        // On a machine with few cores the device's own work, or the peer's, waits for this one.
        std::thread::yield_now();
        false
    }

    fn wait(&mut self, timeout: Duration) {
        let start = Instant::now();
        self.ring();
        while self.broken.is_none() {
            if self.fetch() || !self.early.is_empty() {
                return;
            }
            let spent = start.elapsed();
            if spent >= timeout || self.arm() {
                return;
            }
            self.sleep(timeout - spent);
            self.check_peer(true);
        }
    }

    fn attend(&mut self, channel: &Channel) -> Result<(), SetupError> {
        self.told = Some(watch(channel, &self.lifeline, &self.events)?);
        (self.hangups, self.channel) = (channel.hangups(), Some(channel.clone()));
        Ok(())
    }

    fn told(&self) -> Option<Told> {
        self.told.map(Told::Armed)
    }

    fn state(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn granted(&self) -> &[Granted] {
        &self.granted
    }

    fn revoke(&mut self) -> Result<(), SetupError> {
        if self.qp.is_none() {
            return Ok(());
        }
        let was_broken = self.broken.is_some();
        self.break_off(Broken::Revoked, Some(Farewell::Revoked));
        // Measured on Soft-RoCE: ERR returns before the last WRITE has landed; the flush comes after it, and
        // destroying the queue pair waits for all. A queue pair that broke before may be flushed already.
        let flushed = if was_broken { Ok(()) } else { self.await_flush() };
        self.qp = None;
        self.early.clear();
        self.broken = Some(Broken::Revoked);
        self.lifeline.hang_up();
        flushed
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl VerbsQp {
    /// A poll that brought nothing: time to look at the peer, or to end.
    #[inline]
    fn idle(&mut self) {
        if let Some(why) = self.ending.take() {
            // Everything that came before the end has been polled.
            return self.break_off(why, None);
        }
        self.polls = self.polls.wrapping_add(1);
        if self.yields && self.polls.is_multiple_of(YIELD_EVERY) {
            std::thread::yield_now();
        }
        if self.polls.is_multiple_of(CLOCK_EVERY) {
            self.check_peer(false);
        }
    }
}

/// Has events and the end of a connection wake the channel.
fn watch(channel: &Channel, lifeline: &Lifeline, events: &ib::CompletionChannel) -> Result<u64, SetupError> {
    let watched = channel.watch(lifeline);
    let watched = watched.and_then(|name| channel.watch_as(name, events).map(|()| name));
    watched.map_err(|e| SetupError::Os("watch a connection", e))
}

impl Drop for VerbsQp {
    fn drop(&mut self) {
        if self.broken.is_none() {
            self.linger();
            self.lifeline.say(Farewell::Closed);
        }
        if let Some(channel) = &self.channel {
            channel.unwatch(&self.lifeline);
            channel.unwatch(&self.events);
        }
        self.lifeline.hang_up();
    }
}

const _: () = assert!(RECEIVES <= CREDITS_MAX);
