//! The connections that other replicas made to this one: for questions, and for the memory that a leader
//! WRITEs.
//!
//! (1) Memory is lent only to the replica to which the promised term belongs, and only for that term.
//! (2) The fence (LoLKV 3.4; M1) closes the door and revokes the queue pairs of all streams of older terms.
//!     It waits for a queue pair that is being accepted meanwhile, which is then revoked by its own thread.
//!     Only after that is the newer term open: none of its connections shares a key with a connection of an
//!     older term, and when the fence returns no WRITE of an older term can land (L6, L7).
//! (3) A queue pair that its other end has closed in good order needs no revocation, only to be dropped.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Mutant, Nanos, ReplicaId, Term};
use longarm_fabric::ring::{Mailbox, RING_MIN};
use longarm_fabric::{
    Address, Broken, Channel, Completions, Grant, Granted, Incoming, PeerRole, QueuePair, Rights, SetupError,
};
use longarm_host::{Mutex, now, sleep};
use longarm_memory::{Backing, Region, RegionOptions};
use longarm_store::progress::layout::PROGRESS_REGION;
use longarm_wire::{
    ARENA_REGION, Bad, GroupTimes, PAGE_REGION, PeerHello, Purpose, RING_REGION, Refusal, RefusalCode,
};

use crate::inbox::Inbox;
use crate::log::Log;
use crate::options::GroupOptions;
use crate::peer_channel::received;
use crate::reject;
use crate::{MESSAGE_MAX, RING_BYTES};

/// The number of connections to the memory at once. A leader has one a stream and two more, and the
/// connections of a new leader may come before those of the older one are gone.
const MEMORY_MAX: usize = 1 << 10;
/// The number of connections for questions at once: two a replica.
const CHANNELS_MAX: usize = 64;
/// The number of connections of replicas that READ how far the streams are: two each.
const READERS_MAX: usize = 32;
/// The number of connections that replicas may have here. Clients leave them that much room.
pub const CONNECTIONS_MAX: usize = MEMORY_MAX + CHANNELS_MAX + READERS_MAX;
/// How long a fence waits for connections that are being accepted.
const ENTERING: Nanos = Nanos::from_millis(5_000);
/// The number of operators at once.
const OPERATORS_MAX: usize = 8;

/// A connection on which another replica, or an operator, asks.
pub(crate) struct PeerRequests<Q> {
    pub qp: Q,
    pub mailbox: Mailbox,
    pub replica: ReplicaId,
    /// Names the start of the other end's process.
    pub life: u64,
}

impl<Q: QueuePair> PeerRequests<Q> {
    /// Accepts a connection, with a ring for its messages; `grants` are lent beside that. Messages wake the
    /// channel.
    fn accept<I: Incoming<Qp = Q>>(
        incoming: I,
        hello: &PeerHello,
        mut grants: Vec<Grant>,
        channel: &Channel,
    ) -> Result<PeerRequests<Q>, SetupError> {
        let ring = RegionOptions { name: "longarm-peer".into(), bytes: RING_BYTES, backing: Backing::Memory };
        let ring = Arc::new(Region::create(&ring)?);
        grants.push(Grant { id: RING_REGION, region: ring.clone(), rights: Rights::WRITE });
        let qp = incoming.accept(&[], grants, 0, channel)?;
        let lent = |lent: &&Granted| lent.id == RING_REGION && lent.rights.allow(Rights::WRITE);
        let bytes = qp.granted().iter().find(lent).map_or(0, |lent| lent.bytes);
        if bytes < RING_MIN {
            return Err(SetupError::Protocol("it lent no ring for answers".into()));
        }
        let mailbox = Mailbox::new(ring.memory().clone(), RING_REGION, bytes, MESSAGE_MAX);
        Ok(PeerRequests { qp, mailbox, replica: hello.replica, life: hello.life })
    }

    /// Takes the messages that have come; an error, perhaps without a reason, if the connection is over.
    /// Messages that come from now on wake the channel.
    pub fn hear<T>(
        &mut self,
        done: &mut Completions,
        channel: &Channel,
        decode: impl Fn(&[u8]) -> Result<T, Bad>,
    ) -> Result<Vec<T>, String> {
        let heard = received(&mut self.qp, &mut self.mailbox, done, decode)?.ok_or_else(String::new)?;
        if self.qp.arm() {
            channel.notify();
        }
        Ok(heard)
    }

    /// Sends an answer. It may be lost if the other end does not take its answers: then that end asks again,
    /// or the connection breaks.
    pub fn say(&mut self, message: &[u8]) {
        let _ = self.mailbox.send(&mut self.qp, &[message]);
        self.qp.ring();
    }
}

/// Where the disks of followers connect to a leader.
pub(crate) struct DeskDoor<Q> {
    /// The leader's term.
    pub term: Term,
    /// How far its streams are.
    pub progress: Arc<Region>,
    /// The connections that were made.
    pub new: Inbox<PeerRequests<Q>>,
    /// Where the desk sleeps.
    pub channel: Channel,
}

/// What the door's lock guards.
struct State<Q> {
    /// The only term in which memory is lent; none while a fence is not over.
    open: Option<Term>,
    /// The number of connections to the memory that are being accepted.
    entering: usize,
    memory: Vec<(Term, Q)>,
    requests: Vec<PeerRequests<Q>>,
    /// How many connections for questions the replica had when it last took new ones over.
    taken: usize,
    /// The youngest term for which a process asked here, and the start of that process.
    owner: (Term, u64),
    operators: Vec<PeerRequests<Q>>,
    /// The leader, as far as it is known.
    leader: Option<(ReplicaId, Option<Address>)>,
    /// The term that this replica serves in, and how far its streams are.
    progress: Option<(Term, Arc<Region>)>,
    /// The connections of replicas that READ that.
    readers: Vec<Q>,
    /// Where followers' disks report, while this replica leads.
    desk: Option<Arc<DeskDoor<Q>>>,
    /// What [`Inbound::tidy`] finds.
    done: Completions,
}

impl<Q> State<Q> {
    fn is_owner(&mut self, term: Term, life: u64) -> bool {
        if term > self.owner.0 {
            self.owner = (term, life);
        }
        term < self.owner.0 || self.owner.1 == life
    }
}

/// What a replica says of its times.
fn said(replica: ReplicaId, times: GroupTimes) -> String {
    let (promise, keep) = (times.promise.0 / 1_000, times.keep.0 / 1_000_000);
    format!("replica {replica} says that leases last {promise} us, and outcomes are kept for {keep} ms")
}

/// The reason why one of two processes of the same replica is not let in.
pub(crate) fn twins(replica: ReplicaId) -> String {
    format!("two processes say that they are replica {replica}: stop one of them")
}

/// The memory of a replica that it lends to the leader of a term.
#[derive(Clone)]
pub struct ReplicaMemory {
    /// The arena with the entries.
    pub arena: Arc<Region>,
    /// The page to which the leader WRITEs its heartbeats.
    pub page: Arc<Region>,
}

/// The replica's door to other replicas.
pub struct Inbound<Q> {
    options: GroupOptions,
    times: GroupTimes,
    /// The least role that a replica or an operator must have proved.
    role: PeerRole,
    memory: ReplicaMemory,
    /// Where the replica sleeps.
    channel: Channel,
    log: Log,
    state: Mutex<State<Q>>,
}

impl<Q: QueuePair> Inbound<Q> {
    /// The door of a replica that starts: no term is open yet.
    pub fn new(
        options: GroupOptions,
        times: GroupTimes,
        role: PeerRole,
        memory: ReplicaMemory,
        channel: Channel,
        log: Log,
    ) -> Inbound<Q> {
        let state = Mutex::new(State {
            open: None,
            entering: 0,
            memory: Vec::new(),
            requests: Vec::new(),
            taken: 0,
            owner: (Term::ZERO, 0),
            operators: Vec::new(),
            leader: None,
            progress: None,
            readers: Vec::new(),
            desk: None,
            done: Completions::new(16),
        });
        Inbound { options, times, role, memory, channel, log, state }
    }

    /// The number of the group.
    pub fn group(&self) -> u64 {
        self.options.id
    }

    /// Sets who leads, for clients that ask here.
    pub fn set_leader(&self, leader: Option<(ReplicaId, Option<Address>)>) {
        self.state.lock().leader = leader;
    }

    /// The leader, as far as it is known.
    pub fn leader(&self) -> Option<ReplicaId> {
        self.state.lock().leader.as_ref().map(|leader| leader.0)
    }

    /// The refusal that a client gets that asks here.
    pub fn not_leader(&self) -> Refusal {
        let leader = self.state.lock().leader.clone();
        Refusal::not_leader(leader.and_then(|leader| leader.1).map(|address| address.to_string()))
    }

    /// What this replica lends to a leader.
    pub fn grants(&self) -> Vec<Grant> {
        let rights = Rights::READ.and(Rights::WRITE);
        let lend = |id, region: &Arc<Region>| Grant { id, region: region.clone(), rights };
        vec![lend(ARENA_REGION, &self.memory.arena), lend(PAGE_REGION, &self.memory.page)]
    }

    /// Lets a replica or an operator in, or refuses it.
    pub fn admit<I: Incoming<Qp = Q>>(&self, incoming: I, hello: &PeerHello) {
        let operates = hello.purpose == Purpose::Operate;
        let peer = incoming.peer();
        if peer.role < self.role {
            let what = if operates { "an operator" } else { "a replica" };
            let reason = format!("{what} of this group shows the secret of its replicas (peer_secret_file)");
            self.log.say(&format!("{what} at {} refused: it did not show the replicas' secret", peer.name));
            return reject(incoming, &Refusal::new(RefusalCode::Denied, reason));
        }
        // A replica that is not of the group any more, or not yet, is let in: its questions are answered.
        let stranger = hello.group != self.options.id || operates != (hello.replica == self.options.replica);
        if stranger {
            let reason = format!("replica {} of group {:x} does not belong here", hello.replica, hello.group);
            self.log.say(&format!("a replica at {} refused: {reason}", peer.name));
            return reject(incoming, &Refusal::new(RefusalCode::WrongGroup, reason));
        }
        let (ours, theirs) = (self.times, hello.times);
        if !operates && theirs != ours {
            let reason = format!(
                "{}; {}: give both the same file of the cluster, and the same options",
                said(hello.replica, theirs),
                said(self.options.replica, ours)
            );
            self.log.say(&format!("a replica at {} refused: {reason}", peer.name));
            return reject(incoming, &Refusal::new(RefusalCode::Invalid, reason));
        }
        let replica = hello.replica;
        let admitted = match hello.purpose {
            Purpose::Talk | Purpose::Operate => self.admit_requests(incoming, hello),
            Purpose::Memory => self.admit_memory(incoming, hello),
            Purpose::Order => self.admit_reader(incoming, hello),
            Purpose::Disk => self.admit_disk(incoming, hello),
        };
        if let Err(error) = admitted {
            self.log.say(&format!("replica {replica} did not get in: {error}"));
        }
    }

    fn admit_requests<I: Incoming<Qp = Q>>(&self, incoming: I, hello: &PeerHello) -> Result<(), SetupError> {
        let (operates, state) = (hello.purpose == Purpose::Operate, self.state.lock());
        let (there, most) = if operates {
            (state.operators.len(), OPERATORS_MAX)
        } else {
            (state.requests.len() + state.taken, CHANNELS_MAX)
        };
        let is_full = there >= most;
        drop(state);
        if hello.ring_bytes < RING_MIN || is_full {
            reject(incoming, &Refusal::new(RefusalCode::Limit, "no room for a talk"));
            return Ok(());
        }
        let requests = PeerRequests::accept(incoming, hello, Vec::new(), &self.channel)?;
        let mut state = self.state.lock();
        if operates {
            state.operators.push(requests)
        } else {
            state.requests.push(requests)
        }
        drop(state);
        self.channel.notify();
        Ok(())
    }

    /// Sets where the disks of followers report, while this replica leads.
    pub(crate) fn set_desk(&self, desk: Option<Arc<DeskDoor<Q>>>) {
        let before = std::mem::replace(&mut self.state.lock().desk, desk);
        before.iter().for_each(|desk| desk.new.close());
    }

    /// Lets the disk of a follower report, if this replica leads in its term.
    fn admit_disk<I: Incoming<Qp = Q>>(&self, incoming: I, hello: &PeerHello) -> Result<(), SetupError> {
        let desk = self.state.lock().desk.clone().filter(|desk| desk.term == hello.term);
        let Some(desk) = desk.filter(|_| hello.ring_bytes >= RING_MIN) else {
            reject(incoming, &self.not_leader());
            return Ok(());
        };
        let region = desk.progress.clone();
        let grants = vec![Grant { id: PROGRESS_REGION, region, rights: Rights::READ }];
        desk.new.put(PeerRequests::accept(incoming, hello, grants, &desk.channel)?);
        desk.channel.notify();
        Ok(())
    }

    /// Sets the term that this replica serves in, with the region that says how far its streams are. Replicas
    /// that READ that of an earlier term are let go.
    pub(crate) fn set_progress(&self, progress: Option<(Term, Arc<Region>)>) {
        let mut state = self.state.lock();
        let gone = std::mem::take(&mut state.readers);
        state.progress = progress;
        drop(state);
        drop(gone);
    }

    /// Lends how far the streams of the term are, if this replica serves in it.
    fn admit_reader<I: Incoming<Qp = Q>>(&self, incoming: I, hello: &PeerHello) -> Result<(), SetupError> {
        let (progress, is_full) = {
            let state = self.state.lock();
            let progress = state.progress.as_ref().filter(|(term, _)| *term == hello.term);
            (progress.map(|(_, region)| region.clone()), state.readers.len() >= READERS_MAX)
        };
        let Some(region) = progress else {
            reject(incoming, &self.not_leader());
            return Ok(());
        };
        if is_full {
            reject(
                incoming,
                &Refusal::new(RefusalCode::Limit, "no room for more connections to the streams"),
            );
            return Ok(());
        }
        let grants = vec![Grant { id: PROGRESS_REGION, region, rights: Rights::READ }];
        let qp = incoming.accept(&[], grants, 0, &self.channel)?;
        let mut state = self.state.lock();
        // The term may be over by now: then this is the end of the connection.
        if state.progress.as_ref().is_some_and(|(term, _)| *term == hello.term) {
            state.readers.push(qp);
        }
        Ok(())
    }

    fn admit_memory<I: Incoming<Qp = Q>>(&self, incoming: I, hello: &PeerHello) -> Result<(), SetupError> {
        let refusal = {
            let mut state = self.state.lock();
            if state.open != Some(hello.term) || hello.term.leader() != hello.replica {
                Some(Refusal::new(RefusalCode::Fenced, format!("term {} is not open here", hello.term)))
            } else if !state.is_owner(hello.term, hello.life) {
                Some(Refusal::new(RefusalCode::Fenced, twins(hello.replica)))
            } else if state.memory.len() >= MEMORY_MAX {
                Some(Refusal::new(RefusalCode::Limit, "no room for more connections to the memory"))
            } else {
                state.entering += 1;
                None
            }
        };
        if let Some(refusal) = refusal {
            reject(incoming, &refusal);
            return Ok(());
        }
        let accepted = incoming.accept(&[], self.grants(), 0, &self.channel);
        let mut state = self.state.lock();
        // Added under one lock with the look at the term: the fence sees the queue pair either in the list or
        // entering.
        let outcome = match accepted {
            Err(error) => Err(error),
            Ok(qp) if state.open == Some(hello.term) => {
                state.memory.push((hello.term, qp));
                Ok(())
            }
            Ok(mut qp) => {
                drop(state);
                let revoked = end(&mut qp);
                state = self.state.lock();
                // The fence that waits for the queue pair must not take it for ended.
                state.memory.extend(revoked.is_err().then_some((hello.term, qp)));
                revoked
            }
        };
        state.entering -= 1;
        outcome
    }

    /// The connections for questions that were made since the last call. `has` is how many the replica has
    /// already.
    pub(crate) fn new_requests(&self, has: usize) -> Vec<PeerRequests<Q>> {
        let mut state = self.state.lock();
        state.taken = has + state.requests.len();
        std::mem::take(&mut state.requests)
    }

    /// Whether the term belongs, on this replica, to this start of its leader's process: to the first that
    /// asks. A replica that was copied, disk and all, is two processes with one id, which may both stand for
    /// one term. Each replica hears only one of them in that term.
    pub fn is_owner(&self, term: Term, replica: ReplicaId, life: u64) -> bool {
        term.leader() != replica || self.state.lock().is_owner(term, life)
    }

    /// The operators that have come since the last call.
    pub(crate) fn new_operators(&self) -> Vec<PeerRequests<Q>> {
        std::mem::take(&mut self.state.lock().operators)
    }

    /// Opens `term`, so that memory is lent to its leader alone. Returns when no WRITE of an older term can
    /// land any more. Fails if that is not certain; then no term is open.
    pub fn fence(&self, term: Term) -> Result<(), SetupError> {
        let mut state = self.state.lock();
        if state.open == Some(term) {
            return Ok(());
        }
        state.open = None;
        drop(state);
        self.end_all(|state| state.open = Some(term))
    }

    /// Ends all connections to the memory, before the leader of the open term makes new ones. The leader may
    /// have begun to write on a connection that is still being accepted here.
    pub fn clear(&self) -> Result<(), SetupError> {
        if Mutant::KeepWriters.is_on() {
            return Ok(());
        }
        self.end_all(|_| {})
    }

    /// Ends all connections to the memory, those included that are being accepted as this begins. Calls
    /// `then` under one lock with the look that there are none left.
    fn end_all(&self, then: impl FnOnce(&mut State<Q>)) -> Result<(), SetupError> {
        let until = now() + ENTERING;
        loop {
            let mut state = self.state.lock();
            let older = std::mem::take(&mut state.memory);
            let all_came = state.entering == 0 || Mutant::NoEntering.is_on();
            drop(state);
            self.revoke(older)?;
            // A connection that came meanwhile, and could not be ended, is in the list.
            let mut state = self.state.lock();
            if all_came && (state.memory.is_empty() || Mutant::NoFence.is_on()) {
                then(&mut state);
                return Ok(());
            }
            drop(state);
            if now() >= until {
                return Err(SetupError::Timeout("a replica that is being let in".into()));
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// Ends these queue pairs. One that cannot be ended goes back to the list, so that the next fence fails
    /// on it.
    fn revoke(&self, queue_pairs: Vec<(Term, Q)>) -> Result<(), SetupError> {
        if Mutant::NoFence.is_on() {
            self.state.lock().memory.extend(queue_pairs);
            return Ok(());
        }
        let mut outcome = Ok(());
        for (term, mut qp) in queue_pairs {
            if let Err(error) = end(&mut qp) {
                self.state.lock().memory.push((term, qp));
                outcome = Err(error);
            }
        }
        outcome
    }

    /// Drops connections whose other end is gone, after ending them so that nothing of them can still land
    /// (L7: a packet of a dead queue pair).
    pub fn tidy(&self) {
        let mut state = self.state.lock();
        let State { memory, readers, done, .. } = &mut *state;
        readers.retain_mut(|qp| {
            qp.poll(done);
            done.clear();
            qp.state().is_ok()
        });
        memory.retain_mut(|(_, qp)| {
            qp.poll(done);
            done.clear();
            qp.state().is_ok() || end(qp).is_err()
        });
    }
}

/// Ends a connection so that nothing of it can land any more. If its other end closed it in good order, after
/// its last WRITE, nothing needs to be revoked.
fn end<Q: QueuePair>(qp: &mut Q) -> Result<(), SetupError> {
    let mut done = Completions::new(16);
    qp.poll(&mut done);
    match qp.state() {
        Err(Broken::Closed | Broken::Revoked) => Ok(()),
        _ => qp.fence(),
    }
}

#[cfg(test)]
mod tests;
