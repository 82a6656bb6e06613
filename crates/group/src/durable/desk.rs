//! The desk of a leader, at which the disks of followers report.
//!
//! (1) The desk tells each disk in marks how far the streams are, one at a time: in `sync` mode as soon as
//!     the disk has replied to the mark before, so that all writes of that time share its next sync; else at
//!     least a quarter of a window apart.
//! (2) What a disk says it keeps counts for the follower whose connection it is: a follower that is let go,
//!     and comes back, begins anew.
//! (3) A disk that says nothing for long, while it ought to, is not waited for: its follower is let go, since
//!     it would hold up the freeing of segments. A follower without a disk counts as one whose disk failed.
//! (4) A minority of files at a time may become mixtures for the start set, unless these take long. Else a
//!     loss of power while a group forms from a disk would leave all that it has on the leader's disk alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Csn, Mutant, Nanos, ReplicaId};
use longarm_disk::Mark;
use longarm_fabric::{Channel, Completions, QueuePair};
use longarm_host::observe::{Observation as Seen, WATCHED, observe};
use longarm_host::{Pause, Thread, now};
use longarm_wire::{DiskMark, DiskReply, FREED_MAX};

use crate::durable::gate::DiskGate;
use crate::durable::options::Durability;
use crate::durable::scribe::look_at;
use crate::follower::Follower;
use crate::inbound::{DeskDoor, PeerRequests};
use crate::leader_term::LeaderTerm;
use crate::options::StartError;
use crate::threads::spawn;

/// How long a disk may say nothing to a mark.
const PATIENCE: Nanos = Nanos::from_millis(5_000);
/// How long it may take to give the file the start set.
const SETTLING: Nanos = Nanos::from_millis(120_000);
/// For how long the files of others wait for one that may be a mixture: a group is not to wait for one slow
/// disk where another may be done long before.
const MIXING: Nanos = Nanos::from_millis(30_000);
/// The longest time between two marks while segments wait to be freed, or something is new.
const EVERY: Nanos = Nanos::from_millis(20);
/// The longest sleep.
const IDLE: Duration = Duration::from_millis(100);
/// The shortest sleep until the next mark is due.
const TICK: Duration = Duration::from_micros(200);
/// The number of completions taken in one poll.
const POLL: usize = 64;

/// The time between two marks in `async` mode.
fn mark_every(window: Duration) -> Duration {
    window / 4
}

/// The thread of a leader's desk.
pub(crate) struct DeskHandle {
    pause: Arc<Pause>,
    channel: Channel,
    thread: Option<Thread>,
}

impl DeskHandle {
    /// Starts the desk of a term.
    pub fn start<Q: QueuePair + Send + 'static>(
        leader: Arc<LeaderTerm<Q>>,
        gate: Arc<DiskGate>,
        door: Arc<DeskDoor<Q>>,
    ) -> Result<DeskHandle, StartError> {
        let (pause, channel) = (Arc::<Pause>::default(), door.channel.clone());
        let done = Completions::new(POLL);
        let mut desk =
            Desk { leader, gate, door, links: Vec::new(), told: Vec::new(), absent: BTreeMap::new(), done };
        let stop = pause.clone();
        let thread = Some(spawn("longarm-desk", move || desk.run(&stop))?);
        Ok(DeskHandle { pause, channel, thread })
    }

    /// Ends the desk.
    pub fn end(&mut self) {
        self.pause.stop();
        self.channel.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for DeskHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// A mark that a disk was told.
struct Sent {
    number: u64,
    stable: Csn,
    written: Vec<u64>,
    /// The versions that it allows.
    ceiling: Csn,
    freed: Vec<u32>,
    /// Of how many freed segments the follower was told by then; zero if that is not all that it was told of.
    told: u64,
}

/// The connection of a follower's disk.
struct Link<Q> {
    requests: PeerRequests<Q>,
    follower: Arc<Follower>,
    /// Marks that no note covers yet.
    sent: VecDeque<Sent>,
    said: DiskReply,
    /// The number of the last mark.
    number: u64,
    /// What the last mark said.
    last: (Csn, Vec<u64>),
    /// When the first mark said that the file may become a mixture, if it did.
    mixes: Option<Nanos>,
    /// When a mark was last sent, and when the disk last said something new.
    marked: Nanos,
    heard: Nanos,
}

impl<Q> Link<Q> {
    /// Whether the disk has not replied to the last mark.
    fn owes(&self) -> bool {
        self.said.kept < self.number
    }

    /// Whether the file may be a mixture, and is about to have its first note of the term.
    fn is_mixing(&self, now: Nanos) -> bool {
        let counts = self.mixes.is_some_and(|since| now.since(since) < MIXING);
        counts && self.said.noted == 0 && now.since(self.heard) < PATIENCE
    }
}

/// How many files of a group of so many replicas may be mixtures at a time: the rest is a majority, unless
/// there are but two.
fn mixtures_most(replicas: usize) -> usize {
    if Mutant::MixTogether.is_on() { replicas } else { (replicas.saturating_sub(1) / 2).max(1) }
}

struct Desk<Q> {
    leader: Arc<LeaderTerm<Q>>,
    gate: Arc<DiskGate>,
    door: Arc<DeskDoor<Q>>,
    links: Vec<Link<Q>>,
    /// How far the streams were at the last look.
    told: Vec<u64>,
    /// Since when followers that count have no disk here.
    absent: BTreeMap<ReplicaId, Nanos>,
    done: Completions,
}

impl<Q: QueuePair> Desk<Q> {
    fn run(&mut self, pause: &Pause) {
        while !pause.is_stopped() {
            self.admit();
            let mut at = 0;
            while at < self.links.len() {
                if self.hear(at) && self.tell(at) {
                    at += 1;
                } else {
                    self.lose(at);
                }
            }
            self.miss();
            self.rest();
        }
    }

    /// Takes new connections, each for the follower that is attached now.
    fn admit(&mut self) {
        for requests in self.door.new.take() {
            let replica = requests.replica;
            self.links.retain(|link| link.requests.replica != replica);
            // What it said over the connection before was of a file that may be given another start set.
            self.gate.uncover(replica);
            let followers = self.leader.followers.lock();
            let found = followers.iter().find(|it| it.replica == replica && it.disk.is_some()).cloned();
            drop(followers);
            // One that is not attached yet connects again.
            let Some(follower) = found else { continue };
            follower.disk.iter().for_each(|disk| disk.ask_again());
            let (sent, said, last) = (VecDeque::new(), DiskReply::default(), (Csn::NONE, Vec::new()));
            let (mixes, marked, heard) = (None, Nanos(0), now());
            self.links.push(Link { requests, follower, sent, said, number: 0, last, mixes, marked, heard });
        }
    }

    /// Takes what a disk says. Whether its connection is to be kept.
    fn hear(&mut self, at: usize) -> bool {
        let link = &mut self.links[at];
        if link.follower.is_gone() {
            return false;
        }
        let Ok(replies) = link.requests.hear(&mut self.done, &self.door.channel, DiskReply::decode) else {
            return false;
        };
        let disk = link.follower.disk.as_ref().expect("links are of followers with disks");
        for reply in replies {
            if reply.failed {
                let replica = link.follower.replica;
                self.leader
                    .core
                    .log(&format!("the disk of replica {replica} failed: it keeps nothing there"));
                let freeing = disk.fail();
                self.leader.releases.lock().let_go(replica, &freeing);
                return false;
            }
            link.heard = now();
            if !link.follower.is_synced() {
                // A leader that forms does not give up while a file is being given the start set.
                self.leader.set_pushed(link.heard);
            }
            let (more, noted) = (reply.kept > link.said.kept, reply.noted > link.said.noted);
            link.said = reply;
            if let Some(it) = link.sent.iter().take_while(|it| it.number <= reply.kept).last() {
                disk.keep(&it.written);
                self.gate.took(link.follower.replica, &it.written);
            }
            while link.sent.front().is_some_and(|mark| mark.number <= reply.noted.min(reply.kept)) {
                let mark = link.sent.pop_front().expect("there is one");
                let Sent { stable, written, ceiling, freed, told, .. } = mark;
                disk.note(written, stable);
                self.gate.cover(link.follower.replica, stable, ceiling);
                if freed.is_empty() {
                    continue;
                }
                // A replica that knows of fewer than another may not lead, so its note has the count first.
                disk.freed(&freed);
                let replica = link.follower.replica;
                if WATCHED && told > 0 && !self.leader.is_over() {
                    observe(|| Seen::LetGo { replica, reclaimed: told });
                }
                self.leader.releases.lock().let_go(replica, &freed);
                self.leader.core.engine.relief.poke();
            }
            // More may be committed now, or freed.
            if more && self.gate.durability() == Durability::Sync {
                self.leader.wake();
            }
            // It may let go of segments now, or be in sync soon.
            if noted || !link.follower.is_synced() {
                link.follower.news.poke();
            }
        }
        let silent = now().since(link.heard);
        let patience = if link.said.kept == 0 { SETTLING } else { PATIENCE };
        if link.owes() && silent >= patience {
            let replica = link.follower.replica;
            self.leader.core.log(&format!(
                "the disk of replica {replica} has not replied for {} ms: the replica is let go",
                silent.0 / 1_000_000
            ));
            link.follower.let_go();
            return false;
        }
        true
    }

    /// Tells a disk what is new, if it is time for that. Whether its connection is to be kept.
    fn tell(&mut self, at: usize) -> bool {
        let core = &self.leader.core;
        let mixing = self.links.iter().filter(|link| link.is_mixing(now())).count();
        let may_mix = mixing < mixtures_most(self.leader.members.list.len());
        let link = &mut self.links[at];
        let disk = link.follower.disk.as_ref().expect("links are of followers with disks");
        let waits = !self.leader.releases.lock().is_done(link.follower.replica);
        if link.owes() {
            return true;
        }
        let since = now().since(link.marked);
        let mark = look_at(core, &self.gate, 0);
        let due = match self.gate.durability() {
            Durability::Sync => true,
            Durability::Async { window } => {
                since.0 >= mark_every(window).as_nanos() as u64
                    || DiskGate::is_far(&mark.written, &link.last.1)
            }
        };
        if !due {
            return true;
        }
        let is_new = (mark.stable, &mark.written) != (link.last.0, &link.last.1);
        self.told.clone_from(&mark.written);
        let freeing = disk.take_freeing(FREED_MAX);
        let unnoted = waits && link.said.noted < link.number && since >= EVERY;
        if link.number > 0 && !is_new && freeing.segments.is_empty() && !unnoted {
            return true;
        }
        if link.number == 0 {
            link.mixes = may_mix.then(now);
        }
        link.number += 1;
        let (number, told, freed) = (link.number, freeing.told, freeing.segments);
        let message = DiskMark {
            number,
            stable: mark.stable,
            noted: self.gate.own_stable(),
            ceiling: mark.ceiling,
            unix: mark.unix,
            items: mark.items,
            told,
            hurry: waits,
            mixes: link.mixes.is_some(),
            written: mark.written.clone(),
            freed: freed.clone(),
        };
        (link.marked, link.heard) = (now(), now());
        link.last = (mark.stable, mark.written.clone());
        link.requests.say(&message.encode());
        let Mark { stable, ceiling, written, .. } = mark;
        link.sent.push_back(Sent { number, stable, written, ceiling, freed, told });
        true
    }

    fn lose(&mut self, at: usize) {
        let link = self.links.swap_remove(at);
        link.follower.disk.iter().for_each(|disk| disk.ask_again());
        self.gate.uncover(link.follower.replica);
    }

    /// A follower that counts and has no disk here for long is not waited for.
    fn miss(&mut self) {
        let is_here =
            |follower: &Arc<Follower>| self.links.iter().any(|it| Arc::ptr_eq(&it.follower, follower));
        let followers = self.leader.followers.lock().clone();
        let counts = |follower: &&Arc<Follower>| follower.is_synced() && !follower.is_gone();
        let gone: Vec<_> = followers.iter().filter(counts).filter(|follower| !is_here(follower)).collect();
        self.absent.retain(|replica, _| gone.iter().any(|follower| follower.replica == *replica));
        for follower in gone {
            if follower.disk.as_ref().is_none_or(|disk| disk.has_failed()) {
                continue;
            }
            let since = *self.absent.entry(follower.replica).or_insert_with(now);
            if now().since(since) < PATIENCE {
                continue;
            }
            let replica = follower.replica;
            self.leader.core.log(&format!("replica {replica} keeps nothing on a disk: it is not waited for"));
            follower.let_go();
        }
    }

    fn rest(&mut self) {
        let progress = self.leader.core.engine.progress();
        let all_owe = self.links.iter().all(Link::owes);
        let limit = match self.gate.durability() {
            _ if all_owe => IDLE,
            Durability::Sync => Duration::from_nanos(EVERY.0),
            Durability::Async { window } => {
                let told = self.links.iter().filter(|link| !link.owes());
                let marked = told.map(|link| link.marked).min().unwrap_or_default();
                let left = mark_every(window).saturating_sub(Duration::from_nanos(now().since(marked).0));
                // If a mark was due already, there was nothing new.
                let limit = if left.is_zero() { mark_every(window) } else { left.max(TICK) };
                limit.min(IDLE)
            }
        };
        if all_owe || self.gate.desk_may_sleep(&self.told, |stream| progress[stream].written()) {
            self.door.channel.wait(limit);
            self.gate.desk_awake();
        }
    }
}

#[test]
fn the_files_of_a_majority_stay_whole() {
    for replicas in 3..=9 {
        let whole = replicas - mixtures_most(replicas);
        assert!(whole > replicas / 2, "{whole} of {replicas}");
    }
    assert_eq!(mixtures_most(2), 1, "the other file must follow, or nothing is ever taken");
}
