//! One stream's way to the followers: WRITEs of its entries at the same offsets, in order, and what their
//! completions say (LoLKV 3.3.2; M4).
//!
//! (1) Entries go to each follower in order of position, neighbours in the arena in one WRITE.
//! (2) The line that claims a segment goes first, and no entry of the segment before that WRITE completed
//!     (L3: data never lies in a segment that its stream has not claimed there).
//! (3) A completion counts for the gate once the follower is synced; what it acknowledged before was part of
//!     what it was synced with ([`Attachment::start`]).
//! (4) A follower that is too far behind, or whose connection fails, is let go: it is synced anew, and holds
//!     up nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{Mutant, NodeId};
use longarm_fabric::{Completion, Completions, Op, PostError, QueuePair, Ticket, WRITE_MAX};
use longarm_host::Pause;
use longarm_host::observe::{Observation, observe};
use longarm_memory::{OwnedWords, SumKey};
use longarm_replica::{Gate, Group};
use longarm_store::segment::layout::line_at;
use longarm_store::segment::{claim_number, run_length, whole_line};
use longarm_wire::ARENA_REGION;

use crate::inbox::Inbox;
use longarm_engine::stream::{KEPT_MAX, Stream};

/// Completions taken in one poll.
const POLL: usize = 64;
/// Rooms this far apart still go in one WRITE: the bytes between cost less than another packet.
const GAP: u64 = 4 * LINE;
/// Ticket of the WRITE of a line.
const CLAIM: u64 = 1 << 63;
/// Where a stream begins that nobody has told yet.
const UNKNOWN: u64 = u64::MAX;

/// A follower as one stream sees it, shared with whoever syncs it.
#[derive(Debug)]
pub struct Attachment {
    pub node: NodeId,
    /// Set when the follower has said that it is synced.
    pub synced: Arc<AtomicBool>,
    /// Set when it is let go, by anybody.
    pub gone: Arc<AtomicBool>,
    /// Told when it is let go or the start is known.
    pub news: Arc<Pause>,
    start: AtomicU64,
    acked: AtomicU64,
}

impl Attachment {
    pub fn new(node: NodeId, synced: Arc<AtomicBool>, gone: Arc<AtomicBool>, news: Arc<Pause>) -> Attachment {
        let (start, acked) = (AtomicU64::new(UNKNOWN), AtomicU64::new(0));
        Attachment { node, synced, gone, news, start, acked }
    }

    /// From where on the stream sends to the follower; all before is for whoever syncs it.
    pub fn start(&self) -> Option<u64> {
        // Acquire: what is before is whole in the arena; pairs with `set_start`.
        match self.start.load(Ordering::Acquire) {
            UNKNOWN => None,
            start => Some(start),
        }
    }

    /// The stream sends from there on.
    pub fn set_start(&self, start: u64) {
        // Release: pairs with `start`.
        self.start.store(start, Ordering::Release);
        self.news.poke();
    }

    /// All before the start is there: it was pushed by whoever syncs it.
    pub fn count_start(&self) {
        self.ack(self.start().unwrap_or(0));
    }

    /// Positions below this are there.
    pub fn ack(&self, below: u64) {
        // Release: pairs with `acked`.
        self.acked.fetch_max(below, Ordering::Release);
    }

    /// Whether nothing of the stream below that is on its way, or will be: it sends from there on only, or
    /// has an acknowledgement of all that it sent.
    pub fn has_nothing_below(&self, position: u64) -> bool {
        self.start().is_none_or(|start| start >= position) || self.acked() >= position
    }

    /// Positions below this are surely there, once it is synced.
    pub fn acked(&self) -> u64 {
        // Acquire: pairs with the Release of `ack`.
        self.acked.load(Ordering::Acquire)
    }

    pub fn is_synced(&self) -> bool {
        // Acquire: what it was synced with is there.
        self.synced.load(Ordering::Acquire)
    }

    pub fn is_gone(&self) -> bool {
        // Acquire: pairs with `let_go`.
        self.gone.load(Ordering::Acquire)
    }

    pub fn let_go(&self) {
        // Release: pairs with `is_gone`.
        self.gone.store(true, Ordering::Release);
        self.news.poke();
    }
}

/// Where followers are put down for a stream.
pub type Arrivals<Q> = Inbox<(Q, Arc<Attachment>)>;

/// A follower's queue pair, and how far the stream is on it.
struct Outgoing<Q> {
    qp: Q,
    attachment: Arc<Attachment>,
    /// Positions below this were posted.
    posted: u64,
    /// Bytes of the entry at `posted` that were posted already, of one that takes several WRITEs.
    within: u64,
    /// By segment: the version of the claim that is known to be there.
    claimed: Vec<u64>,
    /// Lines whose WRITE has not completed: segment and version.
    claiming: Option<(u32, u64)>,
    synced: bool,
}

/// What a turn came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Nothing moved, and nothing is on its way.
    Idle,
    /// Nothing moved; something is on its way.
    Waiting,
    /// Something moved.
    Busy,
}

/// All followers of a stream.
pub struct Replicator<Q, M> {
    memory: M,
    sums: SumKey,
    arrivals: Arc<Arrivals<Q>>,
    gate: Gate,
    followers: Vec<Outgoing<Q>>,
    done: Completions,
    scratch: Vec<u8>,
}

impl<Q: QueuePair, M: OwnedWords> Replicator<Q, M> {
    /// Of a stream in this arena, without followers yet.
    pub fn new((memory, sums): (M, SumKey), group: Group, arrivals: Arc<Arrivals<Q>>) -> Replicator<Q, M> {
        Replicator {
            memory,
            sums,
            arrivals,
            gate: Gate::new(group),
            followers: Vec::new(),
            done: Completions::new(POLL),
            scratch: Vec::new(),
        }
    }

    /// Sends what is new, takes what completed, and says in the stream what is committed.
    pub fn pump(&mut self, stream: &mut Stream) -> Pumped {
        let mut moved = self.attach(stream);
        let mut at = 0;
        while at < self.followers.len() {
            let follower = &mut self.followers[at];
            let alive = follower.is_alive(stream)
                && follower.send((&self.memory, &self.sums), stream, &mut self.scratch, &mut moved)
                && follower.poll(&mut self.done, &mut moved);
            if !alive {
                self.lose(at);
                moved = true;
                continue;
            }
            follower.tell(&mut self.gate);
            at += 1;
        }
        let committed = self.gate.committed(stream.written());
        if committed > stream.committed {
            moved = true;
            let (stream, below) = (stream.number, committed);
            observe(|| Observation::Committed { stream, below, by: self.gate.counted(below).collect() });
        }
        stream.committed = committed;
        stream.forget(self.followers.iter().map(|follower| follower.posted).min().unwrap_or(u64::MAX));
        // A follower that is merely behind holds up nobody, and is looked at now and then.
        let waiting = committed < stream.written();
        match (moved, waiting) {
            (true, _) => Pumped::Busy,
            (false, true) => Pumped::Waiting,
            (false, false) => Pumped::Idle,
        }
    }

    /// A follower is gone: it counts again once it has been synced anew.
    fn lose(&mut self, at: usize) {
        let gone = self.followers.swap_remove(at);
        self.gate.set_synced(gone.attachment.node, Mutant::CountGone.is_on());
        gone.attachment.let_go();
    }

    fn attach(&mut self, stream: &Stream) -> bool {
        let new = self.arrivals.take();
        let any = !new.is_empty();
        for (qp, attachment) in new {
            // It may have gone, and be back before anybody looked.
            let is_it = |follower: &Outgoing<Q>| follower.attachment.node == attachment.node;
            if let Some(at) = self.followers.iter().position(is_it) {
                self.lose(at);
            }
            let start = stream.written();
            attachment.set_start(start);
            let segments = (self.memory.bytes() / SEGMENT_BYTES) as usize;
            self.followers.push(Outgoing {
                qp,
                attachment,
                posted: start,
                within: 0,
                claimed: vec![0; segments],
                claiming: None,
                synced: false,
            });
        }
        any
    }

    /// Sleeps until the completion comes that most likely commits something, or the time is over. `false` if
    /// there is none to wait for.
    pub fn wait(&mut self, written: u64, limit: Duration) -> bool {
        let behind = self.followers.iter_mut().filter(|follower| follower.attachment.acked() < written);
        match behind.max_by_key(|follower| follower.attachment.acked()) {
            Some(follower) => follower.qp.wait(limit),
            None => return false,
        }
        true
    }

    /// Whether a follower has not acknowledged all that was written.
    pub fn is_behind(&self, written: u64) -> bool {
        self.followers.iter().any(|follower| follower.attachment.acked() < written)
    }

    /// Forgets all followers: their connections end.
    pub fn end(&mut self) {
        for follower in self.followers.drain(..) {
            follower.attachment.let_go();
        }
        self.arrivals.close();
    }
}

impl<Q: QueuePair> Outgoing<Q> {
    fn is_alive(&self, stream: &Stream) -> bool {
        let behind = stream.written().saturating_sub(self.posted) as usize;
        behind < KEPT_MAX && self.posted >= stream.first() && !self.attachment.is_gone()
    }

    /// Posts what is new, as far as there is room. `false` if the connection is gone.
    fn send<M: OwnedWords>(
        &mut self,
        (memory, sums): (&M, &SumKey),
        stream: &Stream,
        scratch: &mut Vec<u8>,
        moved: &mut bool,
    ) -> bool {
        let mut any = false;
        let sound = loop {
            if self.posted == stream.written() || self.claiming.is_some() {
                break true;
            }
            match self.send_next((memory, sums), stream, scratch) {
                Ok(true) => any = true,
                Ok(false) | Err(PostError::Full) => break true,
                Err(_) => break false,
            }
        };
        if any {
            self.qp.ring();
            *moved = true;
        }
        sound
    }

    /// Posts one WRITE. `Ok(false)` if a claim must complete first.
    fn send_next<M: OwnedWords>(
        &mut self,
        (memory, sums): (&M, &SumKey),
        stream: &Stream,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, PostError> {
        let first = stream.at(self.posted).expect("a follower is let go before entries it waits for are");
        let segment = (first.place.offset / SEGMENT_BYTES) as u32;
        let claim = claim_number(memory, segment);
        if self.claimed[segment as usize] != claim {
            return self.send_claim((memory, sums), segment, claim, scratch);
        }
        let (from, len) = (first.place.offset, u64::from(first.place.len).next_multiple_of(8));
        if len > WRITE_MAX as u64 {
            return self.send_piece(memory, (from, len), scratch).map(|()| true);
        }
        // Neighbours in the stream that are neighbours in the arena go along.
        let (mut end, mut until) = (from + len, self.posted + 1);
        while let Some(next) = stream.at(until) {
            let (offset, len) = (next.place.offset, u64::from(next.place.len).next_multiple_of(8));
            let near = offset >= end && offset - end <= GAP;
            if !near
                || offset / SEGMENT_BYTES != from / SEGMENT_BYTES
                || offset + len - from > WRITE_MAX as u64
            {
                break;
            }
            (end, until) = (offset + len, until + 1);
        }
        scratch.resize((end - from) as usize, 0);
        memory.copy_out(from, scratch);
        self.qp.post(Op::Write { region: ARENA_REGION, offset: from, bytes: scratch }, Ticket(until))?;
        self.posted = until;
        Ok(true)
    }

    /// The next piece of a large entry; the last one's completion counts.
    fn send_piece<M: OwnedWords>(
        &mut self,
        memory: &M,
        (from, len): (u64, u64),
        scratch: &mut Vec<u8>,
    ) -> Result<(), PostError> {
        let size = (len - self.within).min(WRITE_MAX as u64);
        let last = self.within + size == len;
        scratch.resize(size as usize, 0);
        memory.copy_out(from + self.within, scratch);
        let ticket = if last { Ticket(self.posted + 1) } else { Ticket::SILENT };
        let offset = from + self.within;
        self.qp.post(Op::Write { region: ARENA_REGION, offset, bytes: scratch }, ticket)?;
        self.within = if last { 0 } else { self.within + size };
        self.posted += u64::from(last);
        Ok(())
    }

    /// Claims the segment, or the run, there. `Ok(false)` if its lines are being changed: later.
    fn send_claim<M: OwnedWords>(
        &mut self,
        (memory, sums): (&M, &SumKey),
        segment: u32,
        claim: u64,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, PostError> {
        scratch.clear();
        for line in segment..segment + run_length(memory, segment) {
            let Some(line) = whole_line(memory, sums, line) else { return Ok(false) };
            scratch.extend_from_slice(&line);
        }
        let op = Op::Write { region: ARENA_REGION, offset: line_at(segment), bytes: scratch };
        self.qp.post(op, Ticket(CLAIM | u64::from(segment)))?;
        self.claiming = Some((segment, claim));
        Ok(true)
    }

    /// Takes completions. `false` if the connection is gone.
    fn poll(&mut self, done: &mut Completions, moved: &mut bool) -> bool {
        while self.qp.poll(done) > 0 {
            *moved = true;
            for completion in done.drain() {
                match completion {
                    Completion::Done(ticket, Ok(_)) if ticket.0 & CLAIM != 0 => {
                        if let Some((segment, claim)) = self.claiming.take() {
                            self.claimed[segment as usize] = claim;
                        }
                    }
                    Completion::Done(ticket, Ok(_)) => {
                        self.attachment.ack(ticket.0);
                    }
                    _ => return false,
                }
            }
        }
        self.qp.state().is_ok()
    }

    /// Tells the gate.
    fn tell(&mut self, gate: &mut Gate) {
        let node = self.attachment.node;
        if !self.synced && self.attachment.is_synced() {
            self.synced = true;
            gate.set_synced(node, true);
        }
        gate.ack(node, self.attachment.acked());
    }
}
