//! The queue pair: the contract over either side of a connection.

use std::sync::Arc;
use std::time::Duration;

use super::alone::Alone;
use super::inbox::{Deliver, Relay, TcpInbox};
use super::link::TcpLink;
use crate::{Broken, Channel, Completions, Granted, Op, PostError, QueuePair, SetupError, Ticket, Told};

/// A queue pair over TCP.
#[derive(Debug)]
pub struct TcpQp {
    side: TcpQpKind,
    granted: Vec<Granted>,
    /// `tcp host:port` or `tls host:port`.
    name: String,
}

#[derive(Debug)]
enum TcpQpKind {
    Alone(Box<Alone>),
    Linked(Box<Linked>),
}

/// The user's part of an accepted connection.
#[derive(Debug)]
struct Linked {
    link: Arc<TcpLink>,
    inbox: TcpInbox,
    /// Empty; exchanged for the link's at each poll.
    spare: Relay,
}

impl TcpQp {
    pub(super) fn alone(alone: Alone, granted: Vec<Granted>, name: String) -> TcpQp {
        TcpQp { side: TcpQpKind::Alone(Box::new(alone)), granted, name }
    }

    pub(super) fn linked(link: Arc<TcpLink>, landing: u32, granted: Vec<Granted>, name: String) -> TcpQp {
        let linked = Linked { link, inbox: TcpInbox::new(landing), spare: Relay::default() };
        TcpQp { side: TcpQpKind::Linked(Box::new(linked)), granted, name }
    }

    fn inbox(&self) -> &TcpInbox {
        match &self.side {
            TcpQpKind::Alone(alone) => &alone.inbox,
            TcpQpKind::Linked(linked) => &linked.inbox,
        }
    }
}

impl Linked {
    fn poll(&mut self, done: &mut Completions) -> usize {
        self.fetch();
        self.inbox.take(done)
    }

    /// Takes over what the NIC put down, once all that was taken before is polled.
    fn fetch(&mut self) {
        if self.inbox.is_empty() && self.link.has_news() {
            self.link.take(&mut self.spare);
            self.spare.replay(&mut self.inbox);
        }
    }

    fn wait(&mut self, timeout: Duration) {
        self.link.ring();
        if self.inbox.is_empty() && !self.link.has_news() {
            self.link.wait(timeout);
        }
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl QueuePair for TcpQp {
    #[inline]
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.post(op, ticket),
            TcpQpKind::Linked(linked) => linked.link.post(op, ticket, &linked.inbox),
        }
    }

    fn ring(&mut self) {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.ring(),
            TcpQpKind::Linked(linked) => linked.link.ring(),
        }
    }

    fn poll(&mut self, done: &mut Completions) -> usize {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.poll(done),
            TcpQpKind::Linked(linked) => linked.poll(done),
        }
    }

    fn landing(&self, at: u32, len: u32) -> &[u8] {
        self.inbox().landing(at, len)
    }

    fn message(&self, buffer: u16, len: u32) -> &[u8] {
        self.inbox().receive(buffer, len)
    }

    fn release(&mut self, buffer: u16) {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.release(buffer),
            TcpQpKind::Linked(linked) => {
                linked.inbox.release(buffer);
                linked.link.release();
            }
        }
    }

    fn arm(&mut self) -> bool {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.ready(),
            TcpQpKind::Linked(linked) => !linked.inbox.is_empty() || linked.link.arm(),
        }
    }

    fn came_in_on(&mut self) -> Option<u32> {
        match &self.side {
            TcpQpKind::Alone(_) => None,
            TcpQpKind::Linked(linked) => linked.link.came_in_on(),
        }
    }

    fn move_to(&mut self, channel: &Channel) -> bool {
        match &self.side {
            TcpQpKind::Alone(_) => false,
            TcpQpKind::Linked(linked) => linked.link.move_to(channel),
        }
    }

    fn offers_core(&self) -> bool {
        true
    }

    fn ready(&mut self) -> bool {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.ready(),
            TcpQpKind::Linked(linked) => !linked.inbox.is_empty() || linked.link.has_news(),
        }
    }

    fn wait(&mut self, timeout: Duration) {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.wait(timeout),
            TcpQpKind::Linked(linked) => linked.wait(timeout),
        }
    }

    fn state(&self) -> Result<(), Broken> {
        let broken = match &self.side {
            TcpQpKind::Alone(alone) => alone.session.broken().cloned(),
            TcpQpKind::Linked(linked) => linked.link.broken(),
        };
        broken.map_or(Ok(()), Err)
    }

    fn attend(&mut self, channel: &Channel) -> Result<(), SetupError> {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.attend(channel),
            TcpQpKind::Linked(_) => Ok(()),
        }
    }

    fn told(&self) -> Option<Told> {
        match &self.side {
            TcpQpKind::Alone(_) => None,
            TcpQpKind::Linked(linked) => linked.link.driven_token().map(Told::Always),
        }
    }

    fn granted(&self) -> &[Granted] {
        &self.granted
    }

    fn revoke(&mut self) -> Result<(), SetupError> {
        match &mut self.side {
            TcpQpKind::Alone(alone) => alone.revoke(),
            TcpQpKind::Linked(linked) => {
                linked.link.revoke();
                linked.inbox.fence();
            }
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        let own = match &self.side {
            TcpQpKind::Alone(alone) => size_of::<Alone>() + alone.held(),
            TcpQpKind::Linked(linked) => size_of::<Linked>() + linked.spare.held() + linked.link.held(),
        };
        size_of::<TcpQp>() + own + self.inbox().held()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}
