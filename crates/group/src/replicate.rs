//! The way of one stream to the followers: the leader WRITEs the stream's entries at the same offsets, in
//! order, and learns from completions what each follower has (LoLKV 3.3.2; M4).
//!
//! (1) A value that does no I/O decides what is sent next ([`Sender`]). Neighbours in the arena ([`Run`]) are
//!     found and read once for all followers of a turn.
//! (2) The line that claims a segment is sent first, and no entry of the segment before that WRITE completed
//!     (L3: data never lies in a segment that its stream has not claimed there).
//! (3) A completion counts for the gate once the follower is synced, and while it is kept. What the follower
//!     acknowledged before was part of what it was synced with.
//! (4) A follower that is too far behind, or whose connection fails, is let go: it holds up no write any
//!     more, and is synced anew.

use std::sync::Arc;

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Mutant, Place};
use longarm_engine::stream::{KEPT_MAX, Stream};
use longarm_fabric::{Channel, Completion, Completions, Op, PostError, QueuePair, Ticket, WRITE_MAX};
use longarm_host::observe::{Observation, ReplicaStep, observe, reach};
use longarm_memory::OwnedWords;
use longarm_replica::{Gate, Group, Run, Send, Sender};
use longarm_store::segment::layout::line_at;
use longarm_store::segment::{claim_number, replica_line, run_length};
use longarm_wire::ARENA_REGION;

use crate::checked_arena::CheckedArena;
use crate::durable::gate::DiskGate;
use crate::follower::Attachment;
use crate::inbox::Inbox;
use crate::peer_channel::DRAIN;

/// The number of completions taken in one poll.
const POLL: usize = 64;
/// The ticket of the WRITE of the lines of a claim. The ticket of an entry is a position.
const CLAIM: u64 = 1 << 63;
/// The ticket of a READ that completes once all WRITEs before it have landed.
const LANDED: u64 = 1 << 62;

/// Where new followers of a stream wait for the worker of the stream.
pub type Arrivals<Q> = Inbox<(Q, Attachment)>;

/// A follower's queue pair, and how far the stream is sent on it.
struct Outgoing<Q> {
    qp: Q,
    attachment: Attachment,
    sender: Sender,
    synced: bool,
    /// What the gate was told that it has acknowledged.
    told: u64,
    /// A READ is under way behind all positions below this.
    behind: Option<u64>,
}

/// The run that was last read from the arena in this turn: followers that are equally far get the same bytes.
#[derive(Default)]
struct Ranges {
    run: Option<Run>,
    /// The bytes of the run, unless it is longer than one WRITE.
    bytes: Vec<u8>,
    /// The bytes of lines, or of a piece of a longer run. Only its memory is kept from one use to the next.
    scratch: Vec<u8>,
}

/// The outcome of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Nothing moved, and nothing is on its way.
    Idle,
    /// Nothing moved; something is on its way.
    Waiting,
    /// Something moved.
    Busy,
}

/// The followers of a stream, and what is sent to them.
pub struct Replicator<Q, M> {
    arena: CheckedArena<M>,
    arrivals: Arc<Arrivals<Q>>,
    gate: Gate,
    followers: Vec<Outgoing<Q>>,
    done: Completions,
    ranges: Ranges,
    /// What the stream's thread sleeps on, if it is a channel.
    channel: Option<Channel>,
    /// The disk of this replica, if it has one.
    disk: Option<Arc<DiskGate>>,
}

impl<Q: QueuePair, M: OwnedWords> Replicator<Q, M> {
    /// Replicates a stream in this arena, without followers yet.
    pub fn new(arena: CheckedArena<M>, group: Group, arrivals: Arc<Arrivals<Q>>) -> Replicator<Q, M> {
        Replicator {
            arena,
            arrivals,
            gate: Gate::new(group),
            followers: Vec::new(),
            done: Completions::new(POLL),
            ranges: Ranges::default(),
            channel: None,
            disk: None,
        }
    }

    /// The same with a disk behind this replica's arena.
    pub fn with_disk(self, disk: Option<Arc<DiskGate>>) -> Replicator<Q, M> {
        Replicator { disk, ..self }
    }

    /// From now on the stream's thread sleeps on this channel.
    pub fn sleep_on(&mut self, channel: Channel) {
        self.channel = Some(channel);
    }

    /// Sends what is new, takes completions, and notes in the stream what is committed.
    pub fn pump(&mut self, stream: &mut Stream) -> Pumped {
        self.ranges.begin();
        let mut moved = self.attach(stream);
        let mut at = 0;
        while at < self.followers.len() {
            let follower = &mut self.followers[at];
            let alive = follower.is_alive(stream)
                && follower.send(&self.arena, stream, &mut self.ranges, &mut moved)
                && follower.read_behind(&mut moved)
                && follower.poll(&mut self.done, &mut moved)
                && follower.tell(&mut self.gate);
            if !alive {
                self.lose(at);
                moved = true;
                continue;
            }
            at += 1;
        }
        let committed = self.gate.committed(self.own(stream));
        let news = committed > stream.committed();
        if news {
            moved = true;
            let (stream, below) = (stream.number, committed);
            observe(|| Observation::Committed { stream, below, by: self.gate.counted(below).collect() });
        }
        stream.set_committed(committed);
        if news {
            reach(ReplicaStep::Committed);
        }
        stream.forget(self.followers.iter().map(|follower| follower.sender.sent()).min().unwrap_or(u64::MAX));
        // While all is committed, a follower that is behind holds up no write. It is looked at now and then.
        let waiting = committed < stream.written();
        match (moved, waiting) {
            (true, _) => Pumped::Busy,
            (false, true) => Pumped::Waiting,
            (false, false) => Pumped::Idle,
        }
    }

    /// How many positions of the stream this replica itself counts for. Its disk hears of what is written.
    fn own(&self, stream: &Stream) -> u64 {
        let (written, number) = (stream.written(), stream.number.into());
        self.disk.as_ref().map_or(written, |disk| {
            disk.wrote(number, written);
            disk.own(number, written)
        })
    }

    /// Lets a follower go. It counts again once it has been synced anew.
    fn lose(&mut self, at: usize) {
        let gone = self.followers.swap_remove(at);
        self.gate.set_synced(gone.attachment.replica(), Mutant::CountGone.is_on());
        gone.attachment.let_go();
    }

    fn attach(&mut self, stream: &Stream) -> bool {
        let new = self.arrivals.take();
        let any = !new.is_empty();
        for (mut qp, attachment) in new {
            // The follower may have gone and come back between two turns.
            let is_it = |follower: &Outgoing<Q>| follower.attachment.replica() == attachment.replica();
            if let Some(at) = self.followers.iter().position(is_it) {
                self.lose(at);
            }
            let watched = self.channel.as_ref().map_or(Ok(()), |channel| qp.attend(channel));
            if watched.is_err() {
                // As one whose connection breaks: it comes again.
                attachment.let_go();
                continue;
            }
            let start = stream.written();
            attachment.set_start(start);
            let segments = (self.arena.memory.bytes() / SEGMENT_BYTES) as usize;
            let sender = Sender::new(start, segments, WRITE_MAX as u64);
            self.followers.push(Outgoing { qp, attachment, sender, synced: false, told: 0, behind: None });
        }
        any
    }

    /// Asks that the channel be notified of the completion that most likely commits something; `true` if it
    /// is there already.
    pub fn arm(&mut self, written: u64) -> bool {
        let behind = self.followers.iter_mut().filter(|follower| follower.attachment.acked() < written);
        behind.max_by_key(|follower| follower.attachment.acked()).is_some_and(|follower| follower.qp.arm())
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

impl Ranges {
    /// Begins a turn: the stream may be longer by now, and marks in the arena may have changed.
    fn begin(&mut self) {
        self.run = None;
    }

    /// The run that begins at the position `first`, which has an entry.
    fn at(&mut self, stream: &Stream, first: u64) -> Run {
        self.run.filter(|run| run.first == first).unwrap_or_else(|| {
            let place =
                |position| stream.at(position).map(|written| (written.place.offset, written.place.len));
            let run = Run::at(first, WRITE_MAX as u64, place);
            self.bytes.clear();
            self.run = run;
            run.expect("a follower is let go before entries it waits for are")
        })
    }

    /// The bytes of the run that was asked for last.
    fn bytes(&mut self, memory: &impl OwnedWords, run: &Run) -> &[u8] {
        if self.bytes.is_empty() {
            self.bytes.resize(run.bytes() as usize, 0);
            memory.copy_out(run.from, &mut self.bytes);
        }
        &self.bytes
    }
}

impl<Q: QueuePair> Outgoing<Q> {
    fn is_alive(&self, stream: &Stream) -> bool {
        let sent = self.sender.sent();
        let behind = stream.written().saturating_sub(sent) as usize;
        behind < KEPT_MAX && sent >= stream.first() && !self.attachment.is_gone()
    }

    /// Posts what is new, as far as there is room. Returns `false` if the connection is gone.
    fn send<M: OwnedWords>(
        &mut self,
        arena: &CheckedArena<M>,
        stream: &Stream,
        ranges: &mut Ranges,
        moved: &mut bool,
    ) -> bool {
        let mut any = false;
        let sound = loop {
            if self.sender.sent() == stream.written() || self.sender.awaits_claim() {
                break true;
            }
            match self.send_next(arena, stream, ranges) {
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

    /// Posts a READ behind what was acknowledged, if the leader must know that it has landed. Returns `false`
    /// if the connection is gone.
    fn read_behind(&mut self, moved: &mut bool) -> bool {
        if self.behind.is_some() || !self.attachment.is_landing_wanted() {
            return true;
        }
        let (from, acked) = (Place::new(ARENA_REGION, 0, DRAIN), self.attachment.acked());
        match self.qp.post(Op::Read { from, into: 0 }, Ticket(LANDED)) {
            Ok(()) => self.behind = Some(acked),
            Err(PostError::Full) => return true,
            Err(_) => return false,
        }
        self.qp.ring();
        *moved = true;
        true
    }

    /// Posts one WRITE. Returns `Ok(false)` if a line must be sent first that is being changed: then a later
    /// turn sends it.
    fn send_next<M: OwnedWords>(
        &mut self,
        CheckedArena { memory, sums }: &CheckedArena<M>,
        stream: &Stream,
        ranges: &mut Ranges,
    ) -> Result<bool, PostError> {
        let run = ranges.at(stream, self.sender.sent());
        let send = self.sender.next(&run, claim_number(memory, run.segment()));
        match send {
            Send::Claim { segment, .. } => {
                ranges.scratch.clear();
                for line in segment..segment + run_length(memory, segment) {
                    let Some(line) = replica_line(memory, sums, line) else { return Ok(false) };
                    ranges.scratch.extend_from_slice(&line);
                }
                self.post(line_at(segment), &ranges.scratch, Ticket(CLAIM))?;
            }
            Send::Run { until } => self.post(run.from, ranges.bytes(memory, &run), Ticket(until))?,
            Send::Piece { from, len, last } => {
                ranges.scratch.resize(len as usize, 0);
                memory.copy_out(from, &mut ranges.scratch);
                self.post(from, &ranges.scratch, if last { Ticket(run.first + 1) } else { Ticket::SILENT })?;
            }
        }
        self.sender.posted(send);
        Ok(true)
    }

    fn post(&mut self, offset: u64, bytes: &[u8], ticket: Ticket) -> Result<(), PostError> {
        reach(ReplicaStep::Copied);
        // Looked at after the bytes were copied: while the follower is kept, nothing is freed without asking
        // it, so they are of the use that the stream wrote.
        if !self.attachment.is_kept() {
            return Err(PostError::Broken);
        }
        self.qp.post(Op::Write { region: ARENA_REGION, offset, bytes }, ticket)
    }

    /// Takes completions. Returns `false` if the connection is gone.
    fn poll(&mut self, done: &mut Completions, moved: &mut bool) -> bool {
        while self.qp.poll(done) > 0 {
            *moved = true;
            let (mut acked, mut landed, mut sound) = (None, 0, true);
            for completion in done.drain() {
                match completion {
                    Completion::Done(Ticket(CLAIM), Ok(_)) => self.sender.claimed(),
                    Completion::Done(Ticket(LANDED), Ok(_)) => {
                        self.behind.take().into_iter().for_each(|below| self.attachment.tell_landed(below));
                    }
                    Completion::Done(ticket, Ok(_)) => {
                        // WRITEs of one queue pair take effect in order.
                        landed = acked.replace(ticket.0).unwrap_or_else(|| self.attachment.acked());
                    }
                    _ => sound = false,
                }
            }
            if let Some(acked) = acked {
                self.attachment.land(landed);
                self.attachment.ack(acked);
            }
            if !sound {
                return false;
            }
            reach(ReplicaStep::Took);
        }
        self.qp.state().is_ok()
    }

    /// Tells the gate how much of the stream the follower counts for, and whether it counts. Returns `false`
    /// if the follower was let go: it may have left with less than it has acknowledged since.
    fn tell(&mut self, gate: &mut Gate) -> bool {
        let acked = self.attachment.counted();
        let begins = !self.synced && self.attachment.is_synced();
        if acked == self.told && !begins {
            return true;
        }
        // Looked at after what is counted was noted; the look is dear, and most turns have no news.
        if !self.attachment.is_kept() {
            return false;
        }
        let replica = self.attachment.replica();
        if begins {
            self.synced = true;
            gate.set_synced(replica, true);
        }
        gate.ack(replica, acked);
        self.told = acked;
        true
    }
}

#[cfg(test)]
mod tests;
