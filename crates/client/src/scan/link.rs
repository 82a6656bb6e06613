//! The connection of a client's scans: to a replica of the group, which need not be the leader.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Csn, EntryRef, Nanos, Place, limits};
use longarm_fabric::ring::Mailbox;
use longarm_fabric::{
    Address, Completion, Completions, ConnectRequest, Grant, Op, PostError, QueuePair, Rights, SetupError,
    Ticket, Transport, spin_and_wait,
};
use longarm_host::{AdaptiveSpin, now};
use longarm_index::tree::layout::TREE_REGION;
use longarm_memory::{Backing, Region, RegionOptions, SumKey};
use longarm_store::object;
use longarm_wire::{
    ARENA_REGION, RING_REGION, SCAN_MESSAGE_MAX, ScanAnswer, ScanHello, ScanWelcome, page_time,
};

use super::nodes::Nodes;
use super::replicas::Replicas;
use crate::deadline::Deadline;
use crate::link::{Trouble, check_ring};
use crate::options::Options;
use crate::side::Selector;

/// Landing bytes for values that are fetched in pieces.
pub(super) const PIECES: u32 = 4;
const LANDING: u32 = PIECES * limits::READ_MAX;
/// Streams of a leader that a READ of the tree's header has room for at first.
const STREAMS: usize = 16;
/// How long a replica may take for an answer, before another one is asked: it tries for 20 milliseconds, and
/// then says so.
const ANSWER_WITHIN: Nanos = Nanos::from_millis(500);
/// The longest wait before the connection and the time are looked at.
const PAUSE: Duration = Duration::from_millis(1);

/// What a client has for its scans.
pub(crate) struct Scans<Q> {
    pub(crate) replicas: Replicas,
    /// One connection a replica at most; the last one is that which was asked last.
    pub(crate) links: Vec<ScanLink<Q>>,
    /// The number of the last request.
    pub(crate) operation: u64,
    /// Who makes pages, if nobody has decided.
    pub(crate) selector: Selector,
}

impl<Q> Scans<Q> {
    /// No connection yet; `first` spreads clients over replicas.
    pub(crate) fn new(first: u64) -> Scans<Q> {
        // Any bits of the number will do.
        let replicas = Replicas::new(first as u32 as usize);
        Scans { replicas, links: Vec::new(), operation: 0, selector: Selector::by_times(first) }
    }

    /// Asks this replica next; `false` if there is no connection to it.
    pub(crate) fn take_up(&mut self, address: &Address) -> bool {
        let at = self.links.iter().position(|link| *link.address == *address);
        if let Some(at) = at {
            let link = self.links.remove(at);
            self.links.push(link);
        }
        at.is_some()
    }
}

/// An answer, copied out of the ring.
pub(crate) struct ScanArrived {
    pub(crate) bytes: Vec<u8>,
    /// The client's clock, read after the answer came.
    pub(crate) at: Nanos,
}

/// Where a READ landed.
#[derive(Clone, Copy, Debug)]
struct Landed {
    at: u32,
    len: u32,
}

pub(crate) struct ScanLink<Q> {
    pub(crate) address: Arc<Address>,
    qp: Q,
    mailbox: Mailbox,
    pub(super) sums: SumKey,
    arena_bytes: u64,
    /// Bytes of the tree's region; zero if the replica does not lend it.
    pub(super) tree_bytes: u64,
    /// Streams for which the tree's header has room, as far as is known.
    pub(super) streams: usize,
    /// Inner nodes of the tree.
    pub(super) nodes: Nodes,
    done: Completions,
    reads_open: usize,
    /// The READs that were made together last.
    landed: Vec<Landed>,
    /// Why the connection is of no use any more.
    foul: Option<String>,
    /// The number of the request that waits for its answer, and when it was sent.
    awaited: Option<Awaited>,
    answer: Option<Vec<u8>>,
    /// How long it looks for an answer before it sleeps.
    spin: AdaptiveSpin,
}

#[derive(Clone, Copy)]
struct Awaited {
    operation: u64,
    sent: Nanos,
    /// About how long the replica works on it.
    work: Nanos,
}

impl<Q: QueuePair> ScanLink<Q> {
    /// Connects within `limit`.
    pub(crate) fn connect<T: Transport<Qp = Q>>(
        transport: &T,
        address: &Address,
        options: &Options,
        limit: Duration,
    ) -> Result<ScanLink<Q>, SetupError> {
        let ring_bytes = options.ring_bytes.next_multiple_of(4096).max(8192);
        let ring =
            RegionOptions { name: "longarm-pages".into(), bytes: ring_bytes, backing: Backing::Memory };
        let ring = Arc::new(Region::create(&ring)?);
        let hello = ScanHello { group: options.group, ring_bytes, name: options.name.clone() };
        let request = ConnectRequest {
            hello: &hello.encode(),
            grants: vec![Grant { id: RING_REGION, region: ring.clone(), rights: Rights::WRITE }],
            landing: LANDING,
            login: options.login.clone(),
            timeout: limit,
        };
        let connected = transport.connect(address, request)?;
        let welcome =
            ScanWelcome::decode(&connected.welcome).map_err(|bad| SetupError::Protocol(bad.to_string()))?;
        let granted = |id| {
            let found = connected.qp.granted().iter().find(|granted| granted.id == id);
            found.map(|granted| granted.bytes)
        };
        let missing = |what: &str| SetupError::Protocol(format!("the replica lent no {what}"));
        let arena_bytes = granted(ARENA_REGION).ok_or_else(|| missing("arena"))?;
        let tree_bytes = granted(TREE_REGION).unwrap_or(0);
        check_ring(granted(RING_REGION).ok_or_else(|| missing("request ring"))?, welcome.ring_bytes)?;
        if options.group != 0 && welcome.group != options.group {
            return Err(SetupError::Protocol(format!("the replica is of group {:016x}", welcome.group)));
        }
        let own = ring.memory().clone();
        Ok(ScanLink {
            address: Arc::new(address.clone()),
            mailbox: Mailbox::new(own, RING_REGION, welcome.ring_bytes, SCAN_MESSAGE_MAX),
            qp: connected.qp,
            sums: SumKey::new(welcome.sum_key),
            arena_bytes,
            tree_bytes,
            streams: STREAMS,
            nodes: Nodes::default(),
            done: Completions::new(limits::QUEUE_DEPTH),
            reads_open: 0,
            landed: Vec::new(),
            foul: None,
            awaited: None,
            answer: None,
            spin: AdaptiveSpin::new(Nanos(options.spin.as_nanos() as u64)),
        })
    }

    /// Sends a request for up to so many items without waiting; the answer to any earlier one is not taken
    /// any more.
    pub(crate) fn send(&mut self, operation: u64, request: &[u8], items: u32) -> Result<(), PostError> {
        self.pump();
        self.answer = None;
        self.mailbox.send(&mut self.qp, &[request])?;
        self.awaited = Some(Awaited { operation, sent: now(), work: page_time(items) });
        self.qp.ring();
        Ok(())
    }

    /// Waits for the answer to this request, which was the last one sent.
    pub(crate) fn wait(&mut self, operation: u64, deadline: &Deadline) -> Result<ScanArrived, Trouble> {
        let Some(awaited) = self.awaited.filter(|awaited| awaited.operation == operation) else {
            return Err(Trouble::Broken("another page was asked for".into()));
        };
        self.qp.ring();
        let begun = now();
        loop {
            self.pump();
            if let Some(bytes) = self.answer.take() {
                self.awaited = None;
                return Ok(ScanArrived { bytes, at: now() });
            }
            let time = self.check(deadline)?;
            // A page asked for ahead may have been on its way for long: its patience begins with the wait.
            if time.since(awaited.sent.max(begun) + awaited.work) > ANSWER_WITHIN {
                return Err(Trouble::Unresponsive);
            }
            self.wait_for_news(awaited.work);
        }
    }

    fn wait_for_news(&mut self, work: Nanos) {
        spin_and_wait(&mut self.qp, &mut self.spin, work, |_| PAUSE);
    }

    /// The value of an item of this key and version, which is in this entry of the replica's arena; `None` if
    /// the entry is not that one any more.
    pub(crate) fn value(
        &mut self,
        entry: EntryRef,
        wanted: &ScanWanted<'_>,
        deadline: &Deadline,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        self.check_place(entry)?;
        let mut bytes = Vec::new();
        self.fetch(entry, &mut bytes, deadline)?;
        Ok(match object::read(&bytes, entry.offset, &self.sums) {
            Ok(found) if found.csn == wanted.csn && found.key == wanted.key => Some(found.value.to_vec()),
            _ => None,
        })
    }

    /// Checks a place, which came from another machine, before it is used.
    pub(super) fn check_place(&self, entry: EntryRef) -> Result<(), Trouble> {
        let end = entry.offset.checked_add(u64::from(entry.len));
        let longest = limits::KEY_MAX + limits::VALUE_MAX + 4096;
        if end.is_none_or(|end| end > self.arena_bytes) || entry.len as usize > longest {
            return Err(Trouble::Broken("the replica names a value outside of its arena".into()));
        }
        Ok(())
    }

    /// READs all of these places, which together fit the landing buffer; complete on return.
    pub(super) fn read_all(&mut self, places: &[Place], deadline: &Deadline) -> Result<(), Trouble> {
        self.landed.clear();
        let mut at = 0;
        // In a loop that does nothing else, so that their page walks overlap.
        let _ = self.reads_open == 0 && places.iter().all(|from| self.qp.prefetch(*from));
        for &from in places {
            self.landed.push(Landed { at, len: from.len });
            if self.reads_open > 0 || !self.qp.read_now(from, at) {
                self.post(Op::Read { from, into: at }, deadline)?;
            }
            at += from.len.next_multiple_of(64);
        }
        if self.reads_open > 0 { self.finish_reads(deadline) } else { Ok(()) }
    }

    /// What was READ as number `i` of those that were made together last.
    pub(super) fn landed(&self, i: usize) -> &[u8] {
        self.qp.landing(self.landed[i].at, self.landed[i].len)
    }

    /// Asks for the lines of entries that are to be READ soon, where a READ is no more than loads: they come
    /// while something else is looked at.
    pub(super) fn expect(&self, entries: &[EntryRef]) {
        for entry in entries {
            let _ = self.qp.prefetch(Place::new(ARENA_REGION, entry.offset, entry.len));
        }
    }

    /// Waits until every READ posted is complete.
    fn finish_reads(&mut self, deadline: &Deadline) -> Result<(), Trouble> {
        self.qp.ring();
        while self.reads_open > 0 {
            if self.pump() == 0 {
                self.check(deadline)?;
                self.wait_for_news(Nanos(0));
            }
        }
        self.check(deadline)?;
        Ok(())
    }

    /// READs an entry in pieces, whatever its length.
    pub(super) fn fetch(
        &mut self,
        entry: EntryRef,
        into: &mut Vec<u8>,
        deadline: &Deadline,
    ) -> Result<(), Trouble> {
        into.reserve(entry.len as usize);
        let mut at = 0;
        while at < entry.len {
            let first = at;
            for piece in 0..PIECES {
                let len = (entry.len - at).min(limits::READ_MAX);
                if len > 0 {
                    let from = Place::new(ARENA_REGION, entry.offset + u64::from(at), len);
                    self.post(Op::Read { from, into: piece * limits::READ_MAX }, deadline)?;
                    at += len;
                }
            }
            self.finish_reads(deadline)?;
            // The pieces landed one behind the other.
            into.extend_from_slice(self.qp.landing(0, at - first));
        }
        Ok(())
    }

    fn post(&mut self, op: Op<'_>, deadline: &Deadline) -> Result<(), Trouble> {
        let Op::Read { from, into } = op else { unreachable!("a scan's connection READs") };
        loop {
            match self.qp.post(Op::Read { from, into }, Ticket(u64::from(into))) {
                Ok(()) => {
                    self.reads_open += 1;
                    return Ok(());
                }
                Err(PostError::Full) => {
                    self.qp.ring();
                    if self.pump() == 0 {
                        self.check(deadline)?;
                        self.wait_for_news(Nanos(0));
                    }
                }
                Err(error) => return Err(Trouble::Broken(error.to_string())),
            }
        }
    }

    /// The time, if the connection stands and the deadline is not over.
    fn check(&self, deadline: &Deadline) -> Result<Nanos, Trouble> {
        if let Some(why) = &self.foul {
            return Err(Trouble::Broken(why.clone()));
        }
        self.qp.state().map_err(|broken| Trouble::Broken(broken.to_string()))?;
        let time = now();
        if deadline.is_over(time) { Err(Trouble::Late) } else { Ok(time) }
    }

    /// Takes completions and arrivals; returns how many there were.
    fn pump(&mut self) -> usize {
        let count = self.qp.poll(&mut self.done);
        if count == 0 && !self.mailbox.is_sending() {
            return 0;
        }
        for i in 0..self.done.as_slice().len() {
            match self.done.as_slice()[i] {
                Completion::Done(ticket, outcome) => {
                    if ticket != Ticket::SILENT {
                        self.reads_open -= 1;
                    }
                    if let Err(error) = outcome {
                        self.foul = Some(error.to_string());
                    }
                }
                Completion::Arrived { imm, len } => self.take(imm, len),
                Completion::Message { buffer, .. } => self.qp.release(buffer),
            }
        }
        self.done.clear();
        let _ = self.mailbox.pump(&mut self.qp);
        self.qp.ring();
        count
    }

    fn take(&mut self, imm: u32, len: u32) {
        if self.foul.is_some() {
            return;
        }
        let operation = match self.mailbox.receive(imm, len) {
            Ok(false) => return,
            Ok(true) => ScanAnswer::decode(self.mailbox.message()).map(|answer| answer.head.operation),
            Err(bad) => {
                self.foul = Some(bad.to_string());
                return;
            }
        };
        match operation {
            // The answer to a request that nobody waits for any more is dropped.
            Ok(operation) if self.awaited.is_some_and(|awaited| awaited.operation == operation) => {
                self.answer = Some(self.mailbox.message().to_vec());
            }
            Ok(_) => {}
            Err(bad) => self.foul = Some(format!("the replica sent an answer that cannot be read: {bad}")),
        }
        self.mailbox.shrink();
    }
}

/// The item whose value is fetched.
#[derive(Clone, Copy)]
pub(crate) struct ScanWanted<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) csn: Csn,
}
