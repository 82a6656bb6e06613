//! The accepting side of one connection, shared by the user's queue pair and whoever is its NIC: the NIC
//! thread of the listener, or the thread that waits on the channel of the queue pair.
//!
//! Writes: the NIC ([`TcpLink::serve`]) and the user, both under `state`. Only the NIC reads the socket.
//! (1) Whatever is executed for the peer is executed under the lock, by the NIC: a user who holds the
//!     lock knows that nothing is being executed, and what it marks holds from then on (`revoke`).
//! (2) No wake-up is lost: "nothing is here" and "armed" are one step under the lock, as are "something is
//!     here" and "take the arming away, notify". The notification itself may come after the unlock, as it is
//!     remembered.
//! (3) `news` only saves polls the lock. It is set after each addition, under the lock; a poll that misses it
//!     is a poll that came earlier. Arming does not rely on it.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::codec::{Codec, Flushed};
use super::inbox::{Deliver, Relay, TcpInbox};
use super::session::TcpSession;
use super::socket::{self, Received};
use crate::buffer::{Buffer, INPUT};
use crate::channel::{Driven, Drove};
use crate::poller::Poller;
use crate::{Broken, Channel, Op, PostError, Ticket, stream};

/// Bytes of one read: many, as all connections of a thread share its buffer, but one of them does not keep
/// the thread from the others.
const READ_CHUNK: RangeInclusive<usize> = 64 << 10..=128 << 10;

/// A connection with a NIC.
#[derive(Debug)]
pub struct TcpLink {
    pub(super) socket: Arc<TcpStream>,
    /// The NIC is whoever waits on the channel, and needs no notification.
    driven: bool,
    news: AtomicBool,
    /// Bytes came since the user asked where from.
    came: AtomicBool,
    state: Mutex<LinkState>,
    moved: Condvar,
}

#[derive(Debug)]
struct LinkState {
    /// Under which name who waits for it, and the channel of its user.
    token: u64,
    poller: Arc<Poller>,
    channel: Channel,
    session: TcpSession,
    codec: Codec,
    relay: Relay,
    /// The channel is to be notified.
    armed: bool,
    /// The user sleeps on `moved`.
    sleeping: bool,
    /// The session waits for room: the NIC reads no more.
    stuck: bool,
    /// Events the NIC waits for: what epoll was told last, once the NIC has taken the link in.
    interest: EventFlags,
    /// The kernel takes no bytes for now.
    blocked: bool,
    /// The break was told to the user by `news`.
    told: bool,
}

/// What the NIC does with a link next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NicTurn {
    /// Goes on, having moved bytes.
    Busy,
    /// Goes on; there was nothing.
    Idle,
    /// Forgets the link.
    Forget,
}

impl TcpLink {
    /// A link, to be entered into the channel that drives it. It is `driven` if that is the user's own.
    pub fn new(
        poller: &Arc<Poller>,
        socket: Arc<TcpStream>,
        codec: Codec,
        session: TcpSession,
        channel: &Channel,
        driven: bool,
    ) -> Arc<TcpLink> {
        let state = LinkState {
            token: poller.token(),
            poller: poller.clone(),
            channel: channel.clone(),
            session,
            codec,
            relay: Relay::default(),
            armed: false,
            sleeping: false,
            stuck: false,
            interest: EventFlags::empty(),
            blocked: false,
            told: false,
        };
        Arc::new(TcpLink {
            socket,
            driven,
            news: AtomicBool::new(false),
            came: AtomicBool::new(false),
            state: Mutex::new(state),
            moved: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        // A panic under the lock is a broken invariant of ours, reported by the thread that had it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// NIC thread: waits for the link from now on. It is writable at once: so the NIC looks at what came
    /// along with the handshake, and at what the user, who may have been faster, could not send.
    pub fn take_in(&self) -> io::Result<()> {
        // Under the lock: a user who rang before told epoll nothing, whatever it noted.
        let mut state = self.lock();
        state.interest = EventFlags::IN | EventFlags::OUT;
        state.poller.add(&self.socket, state.token, state.interest)
    }

    /// The name under which it is waited for.
    pub fn token(&self) -> u64 {
        self.lock().token
    }

    /// User, which is the thread that serves the link: has the thread of another channel serve it. It wakes,
    /// and looks at what has come. Whether it does; a link that is over ends where it is.
    pub fn move_to(&self, channel: &Channel) -> bool {
        let Some(poller) = channel.poller().filter(|_| self.driven) else { return false };
        // Under the lock: nobody sends or tells meanwhile.
        let mut state = self.lock();
        if state.session.broken().is_some() {
            return false;
        }
        let Some(link) = state.channel.leave(state.token) else { return false };
        let token = poller.token();
        if !channel.enter(token, link.clone()) {
            state.channel.enter(state.token, link);
            return false;
        }
        state.poller.forget(&self.socket);
        (state.token, state.poller, state.channel) = (token, poller.clone(), channel.clone());
        state.interest = EventFlags::IN | EventFlags::OUT;
        if let Err(error) = poller.add(&self.socket, token, state.interest) {
            channel.leave(token);
            let LinkState { session, relay, .. } = &mut *state;
            session.lose(&format!("it cannot be waited for: {error}"), relay);
            stream::leave(&self.socket);
        }
        true
    }

    /// User: the core on which the kernel took in the last bytes, if some came since this was asked last.
    pub fn came_in_on(&self) -> Option<u32> {
        // Relaxed: a hint, which its own thread set.
        if !self.came.swap(false, Ordering::Relaxed) {
            return None;
        }
        rustix::net::sockopt::socket_incoming_cpu(&self.socket).ok()
    }

    /// NIC thread: reads once, executes, writes.
    pub fn serve(&self, raw: &mut Buffer, events: EventFlags) -> NicTurn {
        let may_read =
            events.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
        let mut received = Received::Empty;
        // Outside the lock: nobody else reads this socket.
        if may_read && raw.room() > 0 {
            received = socket::receive(&self.socket, raw, READ_CHUNK);
            // Relaxed: see `came_in_on`. Read first: the line is mostly here, and need not be owned.
            if !self.came.load(Ordering::Relaxed) {
                self.came.store(true, Ordering::Relaxed);
            }
        }
        let mut state = self.lock();
        let moved = received != Received::Empty || state.blocked || state.stuck;
        let was_broken = state.session.broken().is_some();
        state.take(raw);
        self.flush(&mut state);
        // Answers filled the out buffer, and the kernel took them.
        while state.has_room_again() {
            state.take(raw);
            self.flush(&mut state);
        }
        if let Received::Gone(why) = &received {
            let LinkState { session, relay, .. } = &mut *state;
            session.lose(why, relay);
        }
        let ended = state.session.broken().is_some() && !state.blocked;
        let forget = ended || (was_broken && matches!(received, Received::Gone(_)));
        if forget {
            stream::leave(&self.socket);
        } else {
            self.watch(&mut state);
        }
        self.tell(state);
        match (forget, moved) {
            (true, _) => NicTurn::Forget,
            (false, true) => NicTurn::Busy,
            (false, false) => NicTurn::Idle,
        }
    }

    /// Tells epoll what the link waits for, if that changed.
    fn watch(&self, state: &mut LinkState) {
        let mut wanted = EventFlags::empty();
        if !state.stuck && state.session.broken().is_none() {
            wanted |= EventFlags::IN;
        }
        if state.blocked {
            wanted |= EventFlags::OUT;
        }
        if wanted != state.interest {
            state.interest = wanted;
            state.poller.watch(&self.socket, state.token, wanted);
        }
    }

    /// Makes the NIC look at the link.
    fn kick(&self, state: &mut LinkState) {
        state.interest |= EventFlags::OUT;
        state.poller.watch(&self.socket, state.token, state.interest);
    }

    fn flush(&self, state: &mut LinkState) {
        if state.session.out.is_empty() && !state.codec.wants_write() {
            state.blocked = false;
            return;
        }
        match state.codec.flush(&self.socket, &mut state.session.out) {
            Flushed::All => state.blocked = false,
            Flushed::Blocked => state.blocked = true,
            Flushed::Failed(_) => {
                // The NIC reads on to the end of the stream, where it may find why the peer left.
                state.blocked = false;
                let unsent = state.session.out.len();
                state.session.out.consume(unsent);
            }
        }
    }

    /// Wakes the user if there is something for it. Consumes the lock: notifications come after the unlock.
    fn tell(&self, mut state: MutexGuard<'_, LinkState>) {
        let broke = state.session.broken().is_some() && !state.told;
        if state.relay.is_empty() && !broke {
            return;
        }
        state.told |= broke;
        // Release: pairs with the Acquire of `has_news`; the lock orders the relay itself.
        self.news.store(true, Ordering::Release);
        let notify = std::mem::take(&mut state.armed).then(|| state.channel.clone());
        let wake = state.sleeping;
        drop(state);
        if let Some(channel) = notify {
            channel.notify();
        }
        if wake {
            self.moved.notify_one();
        }
    }

    /// Whether a poll may find something new.
    pub fn has_news(&self) -> bool {
        // Acquire: pairs with the Release of `tell`.
        self.news.load(Ordering::Acquire)
    }

    /// User: queues a request.
    pub fn post(&self, op: Op<'_>, ticket: Ticket, inbox: &TcpInbox) -> Result<(), PostError> {
        let mut state = self.lock();
        let (waiting, held) = (inbox.own() + state.relay.own(), state.relay.held());
        state.session.post(op, ticket, inbox.landing_len(), waiting, held)
    }

    /// User: writes what is queued, unless the kernel is full: then the NIC goes on.
    pub fn ring(&self) {
        let mut state = self.lock();
        if !state.blocked {
            self.flush(&mut state);
            self.watch(&mut state);
        }
    }

    /// User: exchanges the (empty) relay for what happened since.
    pub fn take(&self, empty: &mut Relay) {
        debug_assert!(empty.is_empty(), "the relay handed in was replayed");
        let mut state = self.lock();
        std::mem::swap(&mut state.relay, empty);
        // Relaxed: only `tell` sets it, under this lock.
        self.news.store(false, Ordering::Relaxed);
        if state.stuck {
            self.kick(&mut state);
        }
    }

    /// User: a receive buffer is free again.
    pub fn release(&self) {
        let mut state = self.lock();
        state.session.release();
        drop(state);
        self.ring();
    }

    /// User: asks for a notification; `true` if there is something already.
    pub fn arm(&self) -> bool {
        let mut state = self.lock();
        // Relaxed: under the lock that `tell` holds.
        if self.news.load(Ordering::Relaxed) {
            return true;
        }
        state.armed = !self.driven;
        false
    }

    /// User: sleeps until there is something, the connection is broken, or the time is over.
    pub fn wait(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let mut state = self.lock();
        state.sleeping = true;
        // Relaxed: under the lock that `tell` holds.
        while !self.news.load(Ordering::Relaxed) && state.session.broken().is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.sleeping = false;
    }

    /// Under which name its channel tells that there is something to poll, if the channel's thread is its
    /// NIC.
    pub fn driven_token(&self) -> Option<u64> {
        self.driven.then(|| self.token())
    }

    /// Bytes of memory that it takes, buffers included.
    pub fn held(&self) -> usize {
        let state = self.lock();
        size_of::<TcpLink>() + state.session.out.held() + state.relay.held()
    }

    /// Why the connection is over, if it is.
    pub fn broken(&self) -> Option<Broken> {
        self.lock().session.broken().cloned()
    }

    /// User: fences the peer (invariant 1). The NIC forgets the link when it next looks.
    pub fn revoke(&self) {
        let mut state = self.lock();
        let LinkState { session, relay, .. } = &mut *state;
        session.revoke(relay);
        self.flush(&mut state);
        let _ = self.socket.shutdown(Shutdown::Both);
        self.kick(&mut state);
        self.tell(state);
    }

    /// User: leaves in good order. What the kernel does not take now the NIC sends later.
    pub fn close(&self) {
        let mut state = self.lock();
        let LinkState { session, relay, .. } = &mut *state;
        session.close(relay);
        self.flush(&mut state);
        self.kick(&mut state);
    }
}

/// A link that is served by the waits of its channel.
#[derive(Debug)]
pub struct DrivenLink {
    link: Arc<TcpLink>,
    /// Part of a frame, or what the session had no room for.
    rest: Mutex<Buffer>,
}

impl DrivenLink {
    pub fn new(link: Arc<TcpLink>) -> DrivenLink {
        DrivenLink { link, rest: Mutex::new(Buffer::new(INPUT)) }
    }
}

impl Driven for DrivenLink {
    fn drive(&self, events: EventFlags, raw: &mut Buffer) -> Drove {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if !rest.is_empty() {
            std::mem::swap(&mut *rest, raw);
        }
        let turn = self.link.serve(raw, events);
        // What is left stays here, in its memory. Mostly nothing is, and the connection has no buffer.
        *rest = match raw.is_empty() {
            true => Buffer::new(INPUT),
            false => std::mem::replace(raw, Buffer::new(INPUT)),
        };
        Drove { news: self.link.has_news(), ended: turn == NicTurn::Forget }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.link.socket.as_fd()
    }
}

impl LinkState {
    fn take(&mut self, raw: &mut Buffer) {
        self.stuck = self.codec.intake(raw, &mut self.session, &mut self.relay);
    }

    /// Whether a stuck session can go on without the user.
    fn has_room_again(&self) -> bool {
        self.stuck && !self.blocked && !self.relay.is_full()
    }
}

#[cfg(test)]
mod tests;
