//! This replica's side of its connections to another one: how they are made, how questions and answers pass
//! over them, and how much is written and read over them at once.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::limits::READ_MAX;
use longarm_base::{Mutant, Nanos, Place, ReplicaId, Term};
use longarm_fabric::ring::Mailbox;
use longarm_fabric::{
    Address, Channel, Completion, Completions, ConnectRequest, Grant, Granted, Login, Op, PostError,
    QueuePair, Rights, SetupError, Ticket, Transport, WRITE_MAX,
};
use longarm_host::{Mutex, at_once, now};
use longarm_memory::{Backing, Region, RegionOptions};
use longarm_wire::{Answer, Ask, Bad, GroupTimes, PeerHello, Purpose, RING_REGION};

use crate::{MESSAGE_MAX, RING_BYTES};

/// The number of connections that are made side by side.
const AT_ONCE: usize = 8;
/// The number of completions taken in one poll.
const POLL: usize = 64;
/// The time between two looks at whether the other end is still there.
const PROBE: Nanos = Nanos::from_millis(50);
/// The longest READ of how far a leader's streams are, in bytes.
pub(crate) const LANDING: u32 = 64 << 10;

/// How to reach a replica.
pub(crate) struct PeerAddress<T> {
    pub transport: Arc<T>,
    pub group: u64,
    pub me: ReplicaId,
    pub address: Address,
    pub login: Login,
    /// Of a replica, its times, and what names this start of its process; zeros of an operator.
    pub own: (GroupTimes, u64),
    /// The bound on making a connection.
    pub timeout: Duration,
}

impl<T: Transport> PeerAddress<T> {
    fn connect(
        &self,
        purpose: Purpose,
        term: Term,
        grants: Vec<Grant>,
        landing: u32,
    ) -> Result<T::Qp, SetupError> {
        let ring_bytes = if grants.is_empty() { 0 } else { RING_BYTES };
        let (times, life) = self.own;
        let hello = PeerHello { group: self.group, replica: self.me, term, purpose, ring_bytes, times, life };
        let hello = hello.encode();
        let request = ConnectRequest {
            hello: &hello,
            grants,
            landing,
            login: self.login.clone(),
            timeout: self.timeout,
        };
        let mut qp = self.transport.connect(&self.address, request)?.qp;
        // Replicas trust each other with their memory, so a replica need not kill the process of a leader to
        // fence it.
        qp.heed_fence();
        Ok(qp)
    }

    /// Connects to the replica's memory, for the leader or candidate of `term`.
    pub fn memory(&self, term: Term, landing: u32) -> Result<T::Qp, SetupError> {
        self.connect(Purpose::Memory, term, Vec::new(), landing)
    }

    /// Connects to the words that say how far the streams of the leader of `term` are.
    pub fn progress(&self, term: Term, landing: u32) -> Result<T::Qp, SetupError> {
        self.connect(Purpose::Order, term, Vec::new(), landing)
    }

    /// Makes `count` connections to the replica's memory, for the leader of `term` that catches the replica
    /// up. They are made side by side, since each takes several round trips, and a group without a leader
    /// waits for them. Only over the first of them can the replica's memory be READ.
    pub fn memories(&self, term: Term, count: usize) -> Result<Vec<T::Qp>, SetupError> {
        let made = Mutex::new(Ok(Vec::with_capacity(count)));
        let threads = count.min(AT_ONCE);
        at_once(threads, |first| {
            for number in (first..count).step_by(threads) {
                let one = self.memory(term, if number == 0 { READ_MAX } else { DRAIN });
                let mut made = made.lock();
                match (one, &mut *made) {
                    (Ok(qp), Ok(others)) => others.push((number, qp)),
                    (Err(error), Ok(_)) => *made = Err(error),
                    (_, Err(_)) => return,
                }
            }
        });
        let mut made = std::mem::replace(&mut *made.lock(), Ok(Vec::new()))?;
        made.sort_by_key(|(number, _)| *number);
        Ok(made.into_iter().map(|(_, qp)| qp).collect())
    }

    /// Opens a channel for questions to the replica.
    pub fn channel(&self) -> Result<PeerChannel<T::Qp>, SetupError> {
        self.channel_for(Purpose::Talk)
    }

    /// Opens a channel, for questions or for orders.
    pub fn channel_for(&self, purpose: Purpose) -> Result<PeerChannel<T::Qp>, SetupError> {
        self.channel_of(purpose, Term::ZERO, 0)
    }

    /// Opens a channel to the leader of `term`, on which the disk of this replica reports, and over which it
    /// READs as much as [`LANDING`] bytes of how far the leader's streams are.
    pub fn disk(&self, term: Term) -> Result<PeerChannel<T::Qp>, SetupError> {
        self.channel_of(Purpose::Disk, term, LANDING)
    }

    fn channel_of(
        &self,
        purpose: Purpose,
        term: Term,
        landing: u32,
    ) -> Result<PeerChannel<T::Qp>, SetupError> {
        let ring = RegionOptions { name: "longarm-peer".into(), bytes: RING_BYTES, backing: Backing::Memory };
        let ring = Arc::new(Region::create(&ring)?);
        let grants = vec![Grant { id: RING_REGION, region: ring.clone(), rights: Rights::WRITE }];
        let qp = self.connect(purpose, term, grants, landing)?;
        let lent = |lent: &&Granted| lent.id == RING_REGION && lent.rights.allow(Rights::WRITE);
        let bytes = qp.granted().iter().find(lent).map(|lent| lent.bytes);
        let bytes = bytes.ok_or_else(|| SetupError::Protocol("the replica lent no ring".into()))?;
        let mailbox = Mailbox::new(ring.memory().clone(), RING_REGION, bytes, MESSAGE_MAX);
        Ok(PeerChannel { qp, mailbox, done: Completions::new(POLL), arrived: Vec::new() })
    }
}

/// The reason why a replica could not be asked, or written to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    #[error("{0}")]
    Setup(#[from] SetupError),
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("it does not answer")]
    Late,
    #[error("it promised term {0}")]
    Refused(Term),
    #[error("it answers what it was not asked")]
    Confused,
    #[error("it was let go while it was being synced")]
    LetGo,
    #[error(
        "its memory is of {its} MiB, the leader's of {ours}, and all replicas of a group need the same: give \
         all its nodes the same `memory`"
    )]
    OtherShape {
        /// Segments of the follower's arena behind its table.
        its: u32,
        /// Segments of the leader's arena behind its table.
        ours: u32,
    },
    #[error("there is no use in it any more")]
    Vain,
}

/// Whether there is still use in what the caller waits for.
pub(crate) type Worth<'a> = &'a dyn Fn() -> bool;

/// How long something of another replica is waited for: until the limit, and only while it is of use.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub limit: Nanos,
    pub worth: Worth<'a>,
}

/// An open connection for questions and answers.
pub(crate) struct PeerChannel<Q> {
    qp: Q,
    mailbox: Mailbox,
    done: Completions,
    /// Messages that came while a READ was waited for.
    arrived: Vec<Vec<u8>>,
}

impl<Q: QueuePair> PeerChannel<Q> {
    /// Sends a question.
    pub fn ask(&mut self, ask: &Ask) -> Result<(), PeerError> {
        self.say(&ask.encode())
    }

    /// Sends a message.
    pub fn say(&mut self, message: &[u8]) -> Result<(), PeerError> {
        match self.mailbox.send(&mut self.qp, &[message]) {
            Ok(()) => {
                self.qp.ring();
                Ok(())
            }
            // With so many questions unanswered, the other end does not listen.
            Err(PostError::Full) => Err(PeerError::Late),
            Err(_) => Err(self.broken()),
        }
    }

    fn broken(&self) -> PeerError {
        PeerError::Broken(
            self.qp.state().err().map_or("it cannot be written to".into(), |why| why.to_string()),
        )
    }

    /// Takes the answers that have come.
    pub fn answers(&mut self) -> Result<Vec<Answer>, PeerError> {
        self.take(Answer::decode)
    }

    /// Takes the messages that have come.
    pub fn take<M>(&mut self, decode: impl Fn(&[u8]) -> Result<M, Bad>) -> Result<Vec<M>, PeerError> {
        let bad = |bad: Bad| PeerError::Broken(bad.to_string());
        let before = self.arrived.drain(..).map(|bytes| decode(&bytes).map_err(bad));
        let mut messages = before.collect::<Result<Vec<M>, _>>()?;
        match received(&mut self.qp, &mut self.mailbox, &mut self.done, decode) {
            Ok(Some(more)) => messages.extend(more),
            Ok(None) if messages.is_empty() => return Err(self.broken()),
            // Messages that came before the end of the connection count.
            Ok(None) => {}
            Err(bad) => return Err(PeerError::Broken(bad)),
        }
        Ok(messages)
    }

    /// READs a place that fits the landing buffer.
    pub fn read(&mut self, from: Place, until: Nanos) -> Result<&[u8], PeerError> {
        if !self.qp.read_now(from, 0) {
            self.qp.post(Op::Read { from, into: 0 }, Ticket(0)).map_err(|_| self.broken())?;
            self.qp.ring();
            while !self.is_read()? {
                if now() >= until {
                    return Err(PeerError::Late);
                }
                self.qp.wait(Duration::from_millis(1));
            }
        }
        Ok(self.qp.landing(0, from.len))
    }

    /// Whether the READ that is under way is complete.
    fn is_read(&mut self) -> Result<bool, PeerError> {
        let mut read = false;
        self.qp.poll(&mut self.done);
        for completion in self.done.drain() {
            match completion {
                Completion::Done(_, Ok(_)) => read = true,
                Completion::Done(_, Err(error)) => return Err(PeerError::Broken(error.to_string())),
                Completion::Arrived { imm, len } => {
                    let came =
                        self.mailbox.receive(imm, len).map_err(|e| PeerError::Broken(e.to_string()))?;
                    self.arrived.extend(came.then(|| self.mailbox.message().to_vec()));
                }
                Completion::Message { .. } => return Err(PeerError::Confused),
            }
        }
        if !read && self.qp.state().is_err() {
            return Err(self.broken());
        }
        Ok(read)
    }

    /// From now on whatever comes wakes who sleeps on the channel.
    pub fn sleep_on(&mut self, channel: &Channel) -> Result<(), PeerError> {
        self.qp.attend(channel).map_err(PeerError::from)
    }

    /// Whether nothing has come: what comes from now on wakes the channel that it sleeps on.
    pub fn may_sleep(&mut self) -> bool {
        self.arrived.is_empty() && !self.qp.arm()
    }

    /// Sleeps until something comes.
    pub fn wait(&mut self, limit: Duration) {
        self.qp.wait(limit);
    }

    /// Sends a question, and waits for the answer: the next one that comes for which `wanted` is true. While
    /// it waits it looks now and then whether the other end is still there: only what this end posts tells.
    pub fn settle(
        &mut self,
        ask: &Ask,
        until: Nanos,
        worth: Worth<'_>,
        wanted: impl Fn(&Answer) -> bool,
    ) -> Result<Answer, PeerError> {
        self.ask(ask)?;
        let mut probed = now();
        loop {
            for answer in self.answers()? {
                match answer {
                    Answer::Refused { term, promised } if term == ask.term() => {
                        return Err(PeerError::Refused(promised));
                    }
                    answer if wanted(&answer) => return Ok(answer),
                    _ => {}
                }
            }
            if !worth() {
                return Err(PeerError::Vain);
            }
            if now() >= until {
                return Err(PeerError::Late);
            }
            if now().since(probed) >= PROBE && !Mutant::AskOnce.is_on() {
                probed = now();
                // A peer that is behind is there; a broken connection shows at the next look for answers.
                let _ = self.mailbox.probe(&mut self.qp);
                self.qp.ring();
            }
            self.wait(Duration::from_millis(1));
        }
    }
}

/// Takes the messages that have come over a channel: `None` if none will come any more, and an error if what
/// came is not a message.
pub(super) fn received<Q: QueuePair, M>(
    qp: &mut Q,
    mailbox: &mut Mailbox,
    done: &mut Completions,
    decode: impl Fn(&[u8]) -> Result<M, Bad>,
) -> Result<Option<Vec<M>>, String> {
    let mut messages = Vec::new();
    while qp.poll(done) > 0 {
        for completion in done.drain() {
            let Completion::Arrived { imm, len } = completion else { continue };
            if mailbox.receive(imm, len).map_err(|bad| bad.to_string())? {
                messages.push(decode(mailbox.message()).map_err(|bad| bad.to_string())?);
            }
        }
    }
    let over = mailbox.pump(qp).is_err() || qp.state().is_err();
    qp.ring();
    // Messages that came before the end of the connection count.
    Ok((!over || !messages.is_empty()).then_some(messages))
}

/// The length of a READ that waits for the WRITEs before it.
pub(crate) const DRAIN: u32 = 8;

/// A connection to a replica's memory, whose outstanding operations are counted.
pub(crate) struct Bulk<'a, Q> {
    qp: Q,
    outstanding: usize,
    /// Where the last WRITE went, if no READ has followed it yet.
    written: Option<Place>,
    done: Completions,
    worth: Worth<'a>,
}

impl<'a, Q: QueuePair> Bulk<'a, Q> {
    pub fn new(qp: Q, worth: Worth<'a>) -> Bulk<'a, Q> {
        Bulk { qp, outstanding: 0, written: None, done: Completions::new(POLL), worth }
    }

    pub fn is_sound(&self) -> bool {
        self.qp.state().is_ok()
    }

    fn poll(&mut self) -> Result<usize, PeerError> {
        let taken = self.qp.poll(&mut self.done);
        for completion in self.done.drain() {
            match completion {
                Completion::Done(_, Ok(_)) => self.outstanding -= 1,
                Completion::Done(_, Err(error)) => return Err(PeerError::Broken(error.to_string())),
                Completion::Arrived { .. } | Completion::Message { .. } => return Err(PeerError::Confused),
            }
        }
        match self.qp.state() {
            Ok(()) => Ok(taken),
            Err(why) => Err(PeerError::Broken(why.to_string())),
        }
    }

    fn post(&mut self, op: Op<'_>, until: Nanos) -> Result<(), PeerError> {
        loop {
            match self.qp.post(op, Ticket(0)) {
                Ok(()) => {
                    self.outstanding += 1;
                    return Ok(());
                }
                Err(PostError::Full) => self.one_more(until)?,
                Err(error) => return Err(PeerError::Broken(error.to_string())),
            }
        }
    }

    /// Waits until some operation has completed.
    fn one_more(&mut self, until: Nanos) -> Result<(), PeerError> {
        self.qp.ring();
        while self.poll()? == 0 {
            if !(self.worth)() {
                return Err(PeerError::Vain);
            }
            if now() >= until {
                return Err(PeerError::Late);
            }
            self.qp.wait(Duration::from_millis(1));
        }
        Ok(())
    }

    /// WRITEs whole words, in pieces.
    pub fn write(
        &mut self,
        region: longarm_base::RegionId,
        offset: u64,
        bytes: &[u8],
        until: Nanos,
    ) -> Result<(), PeerError> {
        for (i, piece) in bytes.chunks(WRITE_MAX).enumerate() {
            let offset = offset + (i * WRITE_MAX) as u64;
            self.post(Op::Write { region, offset, bytes: piece }, until)?;
            self.written = Some(Place::new(region, offset, DRAIN));
        }
        Ok(())
    }

    /// Waits until all operations have completed, and all WRITEs have landed. A WRITE may complete before it
    /// lands (the acknowledgement window: L6). A WRITE to the same place that came over another connection
    /// meanwhile would be lost under it. A READ that follows a WRITE completes only after the WRITE landed.
    pub fn flush(&mut self, until: Nanos) -> Result<(), PeerError> {
        if let Some(from) = self.written.take().filter(|_| !Mutant::NoDrain.is_on()) {
            self.post(Op::Read { from, into: 0 }, until)?;
        }
        self.qp.ring();
        while self.outstanding > 0 {
            self.one_more(until)?;
        }
        Ok(())
    }

    /// READs a place that fits the landing buffer.
    pub fn read(&mut self, from: Place, until: Nanos) -> Result<&[u8], PeerError> {
        self.post(Op::Read { from, into: 0 }, until)?;
        // This READ waits for the WRITEs before it, as the one of `flush` does.
        self.written = None;
        self.flush(until)?;
        Ok(self.qp.landing(0, from.len))
    }
}
