//! Admits clients and replicas, with one thread an address: it checks their hello, and hands each to the
//! endpoint of the group that the hello names. There a client is lent its regions and given to the worker
//! with the fewest connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longarm_base::Csn;
use longarm_base::limits::QUEUE_DEPTH;
use longarm_fabric::ring::{Mailbox, RING_MIN};
use longarm_fabric::{Grant, Granted, Incoming, Listener, QueuePair, Rights, SetupError};
use longarm_host::{Pause, now};
use longarm_memory::{Backing, Mapped, Region, RegionOptions};
use longarm_wire::{
    Agreed, Bad, Hello, MESSAGE_MAX, PeerHello, RING_REGION, Refusal, RefusalCode, ScanHello, VERSIONS,
    Versions, Welcome,
};

use crate::connection::Connection;
use longarm_group::reject;

use crate::endpoint::Serving;
use crate::options::RING_MAX;
use crate::regions::lend;
use crate::router::Router;
use crate::shared::{ClientSlot, ConnectedClient};
use crate::worker_inbox::WorkerInbox;
use longarm_engine::Eviction;
use longarm_engine::session::SessionHello;
use longarm_group::Seldom;

/// The longest wait for a peer, and so the longest time until this thread sees that the server closes.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);
/// Why a client that scans is refused where no index is kept.
const NOT_ORDERED: &str = "there is no ordered index here: start the servers with --ordered true";
/// Pause after the system refused to accept.
const PAUSE: Duration = Duration::from_millis(50);
/// The landing buffer of a server's queue pair: the server READs nothing of its clients.
const LANDING: u32 = 0;

/// The acceptor of one address.
pub(crate) struct Acceptor<L: Listener> {
    pub listener: L,
    pub router: Arc<Router<L::Qp>>,
    pub pause: Arc<Pause>,
    /// Peers that were refused.
    pub refused: Seldom,
}

impl<L: Listener> Acceptor<L> {
    /// Accepts until the router is closed; then the address is no longer listened on.
    pub fn run(mut self) {
        while !self.router.is_closed() {
            let incoming = self.listener.accept(ACCEPT_WAIT);
            for failure in self.listener.failures() {
                self.refuse(&format!("a client did not get in: {failure}"));
            }
            if let Some(count) = self.refused.withheld(now()) {
                self.router.log(&format!("{count} more did not get in"));
            }
            match incoming {
                Ok(Some(incoming)) if self.router.is_closed() => {
                    reject(incoming, &Refusal::new(RefusalCode::Closing, "the server is closing"));
                }
                Ok(Some(incoming)) => self.admit(incoming),
                Ok(None) => {}
                Err(error) => {
                    self.router.log(&format!("cannot accept at {}: {error}", self.listener.address()));
                    self.pause.sleep(PAUSE);
                }
            }
        }
    }

    fn refuse(&mut self, line: &str) {
        match self.refused.admit(now()) {
            None => {}
            Some(0) => self.router.log(line),
            Some(count) => self.router.log(&format!("{count} more did not get in; {line}")),
        }
    }

    fn admit(&mut self, incoming: L::Incoming) {
        let kind = HelloKind::decode(incoming.hello());
        let found = kind.and_then(|kind| Ok((self.router.endpoint(kind.group())?, kind)));
        let (endpoint, kind) = match found {
            Ok(found) => found,
            Err(refusal) => {
                self.refuse(&format!("{} refused: {}", incoming.peer().name, refusal.text));
                return reject(incoming, &refusal);
            }
        };
        match (kind, &endpoint.inbound) {
            (HelloKind::Replica(hello), Some(inbound)) => inbound.admit(incoming, &hello),
            (HelloKind::Replica(_), None) => {
                reject(incoming, &Refusal::new(RefusalCode::WrongGroup, "this node is in no group"));
            }
            (HelloKind::Scan(hello, agreed), _) => match &endpoint.scans {
                Some(scans) => scans.admit(incoming, &hello, agreed),
                None => reject(incoming, &Refusal::new(RefusalCode::NotOrdered, NOT_ORDERED)),
            },
            (HelloKind::Client(hello, agreed), _) => match endpoint.serving() {
                Some(serving) => serving.admit(incoming, &hello, agreed),
                None => reject(incoming, &endpoint.not_leader()),
            },
        }
    }
}

/// The hello of a peer that connects.
enum HelloKind {
    Client(Hello, Agreed),
    Scan(ScanHello, Agreed),
    Replica(PeerHello),
}

impl HelloKind {
    fn decode(hello: &[u8]) -> Result<HelloKind, Refusal> {
        let invalid = |bad: Bad| Refusal::new(RefusalCode::Invalid, bad.to_string());
        let theirs = Versions::of_hello(hello).map_err(invalid)?;
        let agreed = VERSIONS.meet(theirs).map_err(|text| Refusal::new(RefusalCode::Versions, text))?;
        let kind = if PeerHello::is(hello) {
            PeerHello::decode(hello).map(HelloKind::Replica)
        } else if ScanHello::is(hello) {
            ScanHello::decode(hello).map(|hello| HelloKind::Scan(hello, agreed))
        } else {
            Hello::decode(hello).map(|hello| HelloKind::Client(hello, agreed))
        };
        kind.map_err(invalid)
    }

    fn group(&self) -> u64 {
        match self {
            HelloKind::Client(hello, _) => hello.group,
            HelloKind::Scan(hello, _) => hello.group,
            HelloKind::Replica(hello) => hello.group,
        }
    }
}

impl<Q: QueuePair + 'static> Serving<Q> {
    fn admit<I: Incoming<Qp = Q>>(&self, incoming: I, hello: &Hello, agreed: Agreed) {
        let peer = incoming.peer().name;
        if let Err(reason) = check_ring(hello.ring_bytes) {
            self.shared.log(&format!("client {:?} ({peer}) refused: {reason}", hello.name));
            return reject(incoming, &Refusal::new(RefusalCode::Invalid, reason));
        }
        let Some(slot) = self.shared.take_slot() else {
            let reason = format!(
                "the server has its limit of {} clients (its option max_clients)",
                self.shared.options.max_clients
            );
            self.shared.log(&format!("client {:?} ({peer}) refused: {reason}", hello.name));
            return reject(incoming, &Refusal::new(RefusalCode::Limit, reason));
        };
        if let Err(error) = self.welcome(incoming, hello, agreed, &peer, slot) {
            self.shared.log(&format!("client {:?} ({peer}) did not get in: {error}", hello.name));
        }
    }

    fn welcome<I: Incoming<Qp = Q>>(
        &self,
        incoming: I,
        hello: &Hello,
        agreed: Agreed,
        peer: &str,
        slot: ClientSlot,
    ) -> Result<(), SetupError> {
        let options = &self.shared.options;
        let backing = if incoming.needs_files() { Backing::Memory } else { Backing::Private };
        let ring = RegionOptions { name: "longarm-ring".into(), bytes: options.ring_bytes, backing };
        let ring = match Region::create(&ring) {
            Ok(ring) => Arc::new(ring),
            Err(error) => {
                reject(incoming, &Refusal::new(RefusalCode::Limit, "the server has no memory for a ring"));
                return Err(error.into());
            }
        };
        let inbox = self.inbox_for(incoming.needs_files());
        let welcome = self.welcome_text(agreed).encode();
        // The old connection of the same client is fenced before the client can know that this connection
        // stands.
        let coming = SessionHello { id: hello.session, fresh: hello.fresh, since: Csn(hello.since) };
        let (session, generation) = self.shared.core.sessions.open(coming);
        let grants = self.grants(&ring);
        let accepted = incoming.accept(&welcome, grants, LANDING, &inbox.channel);
        let opened = accepted.and_then(|qp| Ok((mailbox(&qp, hello, ring.memory().clone())?, qp)));
        let (mailbox, qp) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                session.lock().leave(generation, now());
                return Err(error);
            }
        };
        let client = Arc::new(ConnectedClient {
            name: hello.name.clone(),
            peer: peer.to_string(),
            transport: qp.describe(),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(qp.held_bytes() as u64),
        });
        slot.list(client.clone());
        // Relaxed: a hint for spreading the load.
        inbox.pulse.load.fetch_add(1, Ordering::Relaxed);
        inbox.put(Connection::new(qp, mailbox, session, generation, client, slot));
        Ok(())
    }

    fn welcome_text(&self, agreed: Agreed) -> Welcome {
        let (options, core) = (&self.shared.options, &self.shared.core);
        Welcome {
            agreed,
            boot: core.boot,
            sum_key: core.sum_key,
            // The clock is read after the hello came; it is the clock of the heartbeats.
            stamp: now().0,
            // For a group the lease follows from its timing, whatever the server's own would be.
            lease: core.options.lease.as_nanos() as u64,
            read_bound: core.options.read_bound.as_nanos() as u64,
            ring_bytes: options.ring_bytes,
            pid: u64::from(std::process::id()),
            wants_hints: u64::from(options.eviction == Eviction::Lru),
            group: options.groups.first().map_or(0, |group| group.id),
            csn: core.engine.csn().0,
            keep_sessions: core.options.keep_sessions.as_nanos() as u64,
            term: core.engine.options.term.map_or(0, |term| term.bits()),
        }
    }

    fn grants(&self, ring: &Arc<Region>) -> Vec<Grant> {
        let mut grants = lend(&self.shared.core.lent);
        grants.push(Grant { id: RING_REGION, region: ring.clone(), rights: Rights::WRITE });
        grants
    }

    /// The worker for a new connection; `looked_at` if workers look for what comes on it, while that pays.
    fn inbox_for(&self, looked_at: bool) -> &Arc<WorkerInbox<Q>> {
        // Relaxed: a hint.
        let loads =
            self.inboxes.iter().map(|inbox| inbox.pulse.load.load(Ordering::Relaxed)).collect::<Vec<_>>();
        &self.inboxes[choose(&loads, looked_at.then(longarm_host::cores))]
    }
}

/// The worker with the fewest connections. Where workers look for requests on so many cores, few clients are
/// served by as few workers as there are cores left to look on: two clients and two workers that share two
/// cores would all have to sleep. With more clients than cores nobody looks for long, and workers find more
/// to do each time that they are woken.
fn choose(loads: &[usize], cores: Option<usize>) -> usize {
    let (clients, used) = (loads.iter().sum::<usize>() + 1, loads.iter().filter(|load| **load > 0).count());
    let packs = cores.is_some_and(|cores| clients <= cores && clients + used + 1 > cores);
    let first = if packs { loads.iter().position(|load| *load > 0) } else { None };
    let least = || (0..loads.len()).min_by_key(|at| loads[*at]).expect("a server has a worker");
    first.unwrap_or_else(least)
}

/// Checks that a client's answer ring has a usable size.
fn check_ring(bytes: u64) -> Result<(), String> {
    if !bytes.is_multiple_of(4096) || !(RING_MIN..=RING_MAX).contains(&bytes) {
        return Err(format!(
            "an answer ring of {bytes} bytes: it must be a multiple of 4096, up to {RING_MAX}"
        ));
    }
    Ok(())
}

/// The mailbox over the server's ring and the client's, if the client lent the ring that it announced.
fn mailbox(qp: &impl QueuePair, hello: &Hello, own: Mapped) -> Result<Mailbox, SetupError> {
    let fits = |lent: &&Granted| lent.id == RING_REGION && lent.rights.allow(Rights::WRITE);
    match qp.granted().iter().find(fits) {
        Some(lent) if lent.bytes == hello.ring_bytes => {
            Ok(Mailbox::new(own, RING_REGION, lent.bytes, MESSAGE_MAX))
        }
        _ => Err(SetupError::Protocol(format!(
            "it lent no answer ring (region {}) of the {} bytes it announced",
            RING_REGION.0, hello.ring_bytes
        ))),
    }
}

const _: () = assert!(QUEUE_DEPTH >= crate::connection::BATCH);

#[cfg(test)]
mod tests {
    use super::*;

    /// The connections of three workers after so many clients came.
    fn spread(clients: usize, cores: Option<usize>) -> [usize; 3] {
        let mut loads = [0; 3];
        (0..clients).for_each(|_| loads[choose(&loads, cores)] += 1);
        loads
    }

    #[test]
    fn few_clients_share_a_worker_where_cores_are_few() {
        assert_eq!(spread(2, Some(2)), [2, 0, 0]);
        assert_eq!(spread(4, Some(2)), [2, 1, 1]);
        assert_eq!(spread(9, Some(2)), [3, 3, 3]);
        assert_eq!(spread(3, Some(16)), [1, 1, 1], "all may look");
        assert_eq!(spread(2, None), [1, 1, 0], "whoever waits in calls of the system");
        assert_eq!(spread(100, Some(4)), [34, 33, 33]);
    }
}
