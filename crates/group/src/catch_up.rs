//! The catching up of one follower, by the thread that attends to it: the thread takes the steps of
//! [`CatchUp`] in their order, which states the reasons for it. Afterwards it keeps the follower caught up.
//! Meanwhile it has the follower release the segments that the leader wants to free.

mod content;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Csn, Mutant, Nanos};
use longarm_fabric::{QueuePair, Transport};
use longarm_host::now;
use longarm_host::observe::{Observation as Told, ReplicaStep, WATCHED, observe, reach};
use longarm_memory::Mapped;
use longarm_replica::{CatchUp, CatchUpStep, Event, FollowerProgress, LetGo, page};
use longarm_store::segment::claim_number;
use longarm_wire::{Answer, Ask, PAGE_REGION, SyncState};

use crate::durable::options::Durability;
use crate::follower::{Attachment, Follower};
use crate::follower_disk::FollowerDisk;
use crate::leader_term::LeaderTerm;
use crate::peer::Peer;
use crate::peer_channel::{Bulk, PeerError, Worth};

/// How long the thread sleeps between two looks at a follower that has caught up.
const LOOK: Duration = Duration::from_millis(20);

/// Catches a peer up, and keeps it caught up. Returns when the follower is let go (`Ok`), when the leader's
/// term is over, or when something failed.
pub(crate) fn keep_caught_up<T: Transport>(
    peer: &mut Peer<T>,
    leader_term: &Arc<LeaderTerm<T::Qp>>,
) -> Result<(), PeerError> {
    let _attending = leader_term.attend();
    let commands = peer.commands.clone();
    let worth = || !leader_term.is_over() && !commands.pause.is_stopped();
    let held = sync(peer, leader_term, &worth)?;
    let streams = leader_term.streams.len();
    let left = leader_term.left.lock().get(&peer.replica).cloned();
    let machine = CatchUp::new(held, left).ok_or_else(|| {
        PeerError::Broken(
            "it says that it holds the term's start set, which it was never asked to adopt".into(),
        )
    })?;
    let disk = leader_term.core.disk.as_ref();
    let disk = disk.map(|gate| FollowerDisk::new(gate.durability() == Durability::Sync, streams));
    let follower = Follower::new(peer.replica, streams, peer.commands.pause.clone()).with_disk(disk);
    let follower = Arc::new(follower);
    let mut links = peer.address.memories(leader_term.term, 2 + streams)?.into_iter();
    let mut link = || links.next().expect("as many as were asked for");
    // Once it is let go it is caught up anew, at once: whoever waits for it then waits in vain.
    let worth = || worth() && !follower.is_gone();
    let mut bulk = Bulk::new(link(), &worth);
    leader_term.hearts.put((link(), follower.clone()));
    leader_term.releases.lock().join(peer.replica);
    reach(ReplicaStep::Joined);
    let mut attended = Attended {
        leader_term,
        follower: &follower,
        machine,
        bulk: &mut bulk,
        worth: &worth,
        patience: peer.patience,
        rested: now(),
    };
    let ended = match attended.run(peer, links) {
        Err(PeerError::Vain) if follower.is_gone() => Err(PeerError::LetGo),
        ended => ended,
    };
    let left = follower.leave();
    leader_term.releases.lock().leave(peer.replica);
    leader_term.followers.lock().retain(|known| !Arc::ptr_eq(known, &follower));
    if follower.is_synced() {
        tell(leader_term, || Told::Left { replica: peer.replica, floors: left.clone() });
        // The follower keeps what it acknowledged, whatever becomes of the connection.
        leader_term.left.lock().insert(peer.replica, left);
        peer.events.push(Event::Lost(peer.replica));
    }
    leader_term.wake();
    ended
}

/// Tells the world what the leader of this term does. What a thread of the term still does when the term is
/// over has no effect, and is not told: the machine may lead another term by then.
fn tell<Q>(leader_term: &LeaderTerm<Q>, event: impl FnOnce() -> Told) {
    if WATCHED && !leader_term.is_over() {
        observe(event);
    }
}

/// Has the peer promise the term, fence older leaders, and say what it holds.
fn sync<T: Transport>(
    peer: &mut Peer<T>,
    leader_term: &LeaderTerm<T::Qp>,
    worth: Worth<'_>,
) -> Result<SyncState, PeerError> {
    let ask = Ask::Sync {
        term: leader_term.term,
        base: leader_term.start.base,
        cuts: leader_term.start.cuts.clone(),
        streams: leader_term.streams.len() as u16,
        members: leader_term.members.clone(),
    };
    let until = now() + peer.patience;
    // A channel of its own: an answer that was left on an older one must not be taken for this one.
    peer.channel = None;
    let wanted = |answer: &Answer| matches!(answer, Answer::Ready { term, .. } if *term == leader_term.term);
    let ready = peer.channel()?.settle(&ask, until, worth, wanted)?;
    let Answer::Ready { held, .. } = ready else { unreachable!("nothing else was wanted") };
    Ok(held)
}

/// A follower, what it has, and the connection over which the leader gives it what it lacks.
struct Attended<'a, 'w, Q> {
    leader_term: &'a Arc<LeaderTerm<Q>>,
    follower: &'a Arc<Follower>,
    machine: CatchUp,
    bulk: &'a mut Bulk<'w, Q>,
    worth: Worth<'w>,
    patience: Nanos,
    /// When this thread last left its time to others.
    rested: Nanos,
}

impl<Q: QueuePair> Attended<'_, '_, Q> {
    /// Takes one step after the other. `links` has a connection for each stream.
    fn run<T: Transport<Qp = Q>>(
        &mut self,
        peer: &mut Peer<T>,
        links: impl Iterator<Item = Q>,
    ) -> Result<(), PeerError> {
        let (mut links, mut floors, mut unknown) = (links.collect::<Vec<_>>(), Vec::new(), Vec::new());
        let mut synced = None;
        self.check_shape()?;
        loop {
            match self.machine.step() {
                CatchUpStep::KeepFloors => self.keep_floors()?,
                CatchUpStep::Compare => unknown = self.unknown()?,
                CatchUpStep::Free => unknown.iter().try_for_each(|&segment| self.free(segment))?,
                CatchUpStep::Unknown => unknown.drain(..).try_for_each(|segment| self.whole(segment))?,
                CatchUpStep::Table => self.table()?,
                CatchUpStep::Older => self.older()?,
                CatchUpStep::Base => {
                    let lengths = self.machine.lengths().to_vec();
                    self.of_base(&lengths)?;
                }
                CatchUpStep::Land | CatchUpStep::LandPushed => self.flush()?,
                CatchUpStep::Attach => self.attach(links.drain(..)),
                CatchUpStep::AwaitStarts => self.await_starts()?,
                CatchUpStep::Push => {
                    let pushed = self.machine.pushed(&self.follower.progress());
                    self.of_term(self.leader_term.term, &pushed)?;
                }
                CatchUpStep::Release => self.serve_releases()?,
                CatchUpStep::AwaitNeeded => floors = self.await_needed()?,
                CatchUpStep::TellReclaimed => self.tell_reclaimed(self.reclaimed())?,
                CatchUpStep::Adopt => synced = Some(self.adopt(peer, &floors)?),
                CatchUpStep::TellFloors => {
                    self.note_left(&floors);
                    self.tell_floors(&floors)?;
                }
                CatchUpStep::Count => {
                    self.follower.set_floors(&floors);
                    tell(self.leader_term, || Told::Counts { replica: peer.replica });
                    self.follower.set_synced();
                    peer.events.push(Event::Answered(peer.replica, synced.take().expect("it was adopted")));
                    self.leader_term.wake();
                }
                CatchUpStep::Keep => return self.keep(peer),
            }
            self.reached();
            self.machine.done();
        }
    }

    /// Says how far the catching up is, to injected faults that strike there.
    fn reached(&self) {
        match self.machine.step() {
            CatchUpStep::Table => reach(ReplicaStep::Table),
            CatchUpStep::Land => reach(ReplicaStep::Landed),
            CatchUpStep::Attach => reach(ReplicaStep::Attached),
            CatchUpStep::LandPushed => reach(ReplicaStep::Pushed),
            CatchUpStep::Adopt => reach(ReplicaStep::Synced),
            _ => {}
        }
    }

    fn attach(&self, links: impl Iterator<Item = Q>) {
        for ((number, stream), link) in self.leader_term.streams.iter().enumerate().zip(links) {
            stream.arrivals.put((link, Attachment::new(self.follower, number)));
            stream.waker.wake();
        }
        self.leader_term.followers.lock().push(self.follower.clone());
    }

    /// The number of reclaimed segments of which the follower was told.
    fn reclaimed(&self) -> u64 {
        self.leader_term.releases.lock().asked(self.follower.replica, |_, _| false).told
    }

    /// Notes what the follower holds from now on, before it is told, or asked to adopt it: it may do so, and
    /// the connection be lost.
    fn note_left(&self, floors: &[u64]) {
        self.leader_term.left.lock().insert(self.follower.replica, floors.to_vec());
    }

    /// Asks the follower to adopt the term with these floors.
    fn adopt<T: Transport<Qp = Q>>(
        &mut self,
        peer: &mut Peer<T>,
        floors: &[u64],
    ) -> Result<Answer, PeerError> {
        self.tell_ceiling()?;
        self.note_left(floors);
        let (term, reclaimed) = (self.leader_term.term, self.reclaimed());
        let ask = Ask::Adopt { term, reclaimed, floors: floors.to_vec() };
        let wanted = |answer: &Answer| matches!(answer, Answer::Synced { term: of } if *of == term);
        peer.channel()?.settle(&ask, self.until(), self.worth, wanted)
    }

    /// Serves releases and sends questions until the follower is let go, or the term is over.
    fn keep<T: Transport<Qp = Q>>(&mut self, peer: &mut Peer<T>) -> Result<(), PeerError> {
        let term = self.leader_term.term;
        let mut told = false;
        // A request to stand means that this term is over. It waits until the thread has left the term.
        let later = |ask: &Ask| matches!(ask, Ask::Stand { term: of } if *of == term);
        loop {
            if let Some(served) = self.leader_term.served().filter(|_| !told) {
                let since = now().since(served);
                peer.channel()?.ask(&Ask::Serves { term, since })?;
                told = true;
            }
            self.serve_releases()?;
            while let Some(ask) = peer.commands.next_unless(later) {
                // Questions that this replica had before it led have no meaning any more.
                if matches!(ask, Ask::Members { .. }) && ask.term() == term {
                    peer.channel()?.ask(&ask)?;
                }
            }
            for answer in peer.channel()?.answers()? {
                peer.events.push(Event::Answered(peer.replica, answer));
            }
            if self.is_over() || peer.commands.pause.is_stopped() {
                return Ok(());
            }
            peer.commands.pause.sleep_unless_poked(LOOK);
        }
    }

    fn memory(&self) -> &Mapped {
        self.leader_term.core.engine.store.memory()
    }

    fn until(&self) -> Nanos {
        now() + self.patience
    }

    fn is_over(&self) -> bool {
        self.leader_term.is_over() || self.follower.is_gone()
    }

    fn flush(&mut self) -> Result<(), PeerError> {
        let until = self.until();
        self.bulk.flush(until)
    }

    /// Returns an error if there is no use in going on.
    fn go_on(&self) -> Result<(), PeerError> {
        if self.is_over() { Err(PeerError::LetGo) } else { Ok(()) }
    }

    /// Waits until the worker of each stream has said from which position on it sends.
    fn await_starts(&self) -> Result<(), PeerError> {
        let all = |progress: &FollowerProgress| progress.streams.iter().all(|stream| stream.start.is_some());
        self.await_news("our own workers do not take it up", |progress| all(progress).then_some(()))
    }

    /// Waits until the follower has acknowledged all that it must have to count. What was pushed is there
    /// already; the rest comes from the workers. Returns the floors with which the follower may count.
    fn await_needed(&self) -> Result<Vec<u64>, PeerError> {
        self.follower.count_starts();
        let look = |progress: &FollowerProgress| progress.first_floors(self.machine.needed());
        self.await_news("it does not take what is written meanwhile", look)
    }

    /// Waits until `look` finds something in the follower's progress, and returns it. `why` is the error if
    /// that does not come in time.
    fn await_news<R>(
        &self,
        why: &str,
        look: impl Fn(&FollowerProgress) -> Option<R>,
    ) -> Result<R, PeerError> {
        let until = self.until();
        loop {
            if let Some(found) = look(&self.follower.progress()) {
                return Ok(found);
            }
            self.go_on()?;
            if now() >= until {
                return Err(PeerError::Broken(why.into()));
            }
            self.follower.news.sleep_unless_poked(Duration::from_millis(1));
        }
    }

    /// Tells a follower that still counts the floors that it had before it was gone. Without them, what is
    /// reclaimed while it catches up would look like a gap in its report.
    fn keep_floors(&mut self) -> Result<(), PeerError> {
        let left = self.machine.left().to_vec();
        self.tell_floors(&left)?;
        self.follower.set_floors(&left);
        Ok(())
    }

    /// WRITEs floors to the follower's page: positions below which the follower surely has all entries,
    /// already before it is synced.
    fn tell_floors(&mut self, floors: &[u64]) -> Result<(), PeerError> {
        let bytes: Vec<u8> = floors.iter().flat_map(|floor| floor.to_le_bytes()).collect();
        let until = self.until();
        self.bulk.write(PAGE_REGION, page::FLOORS, &bytes, until)?;
        self.flush()
    }

    /// Tells a follower which versions are never drawn again, before it may lead with this start set.
    fn tell_ceiling(&mut self) -> Result<(), PeerError> {
        let ceiling = self.leader_term.start.ceiling;
        if ceiling == Csn::NONE {
            return Ok(());
        }
        let until = self.until();
        self.bulk.write(PAGE_REGION, page::CEILING, &ceiling.0.to_le_bytes(), until)?;
        self.flush()
    }

    /// Tells a follower that is in sync how many segments were reclaimed in this term.
    fn tell_reclaimed(&mut self, count: u64) -> Result<(), PeerError> {
        if Mutant::UntoldCount.is_on() {
            return Ok(());
        }
        // Of what is told the world hears, and it hears nothing more of a term that is over.
        self.go_on()?;
        let (replica, until) = (self.follower.replica, self.until());
        tell(self.leader_term, || Told::Tells { replica, reclaimed: count });
        self.bulk.write(PAGE_REGION, page::RECLAIMED, &count.to_le_bytes(), until)?;
        self.flush()?;
        tell(self.leader_term, || Told::Told { replica, reclaimed: count });
        Ok(())
    }

    /// Has the follower release the segments that the leader wants to free. All that was pushed into them
    /// has landed before the follower is said to have released them.
    ///
    /// A follower that counts must have all that the segments held, and all that made them needless. Its
    /// floors must say so, or a survey would find a gap where the segments were, and end there. The follower
    /// learns of the count last, since a replica that knows of fewer than another may not lead (`gather.rs`).
    ///
    /// A follower that keeps its data on a disk lets go when its file has the segments as free, too. The desk
    /// hears of that.
    fn serve_releases(&mut self) -> Result<(), PeerError> {
        // Its floors are those that the heart last told it: what it had acknowledged a heartbeat ago.
        let progress = self.follower.progress();
        // Until it counts, its disk has nothing of this term.
        let disk = self.follower.disk.as_ref().filter(|_| progress.synced);
        let lacks = Cell::new(false);
        let has = |written: &[u64], csn| {
            let is_here = progress.may_let_go(written);
            lacks.set(lacks.get() || !is_here);
            is_here && disk.is_none_or(|disk| disk.may_let_go(written, csn))
        };
        let LetGo { segments: asked, written, told } =
            self.leader_term.releases.lock().asked(self.follower.replica, has);
        let asked = disk.map_or(asked.clone(), |disk| disk.not_asked(asked));
        if asked.is_empty() {
            // The desk says when its disk has what a segment waits for.
            if lacks.get() && self.follower.want_landed() {
                self.leader_term.wake();
            }
            return if self.bulk.is_sound() { Ok(()) } else { self.flush() };
        }
        asked.iter().try_for_each(|&segment| self.free_line(segment))?;
        self.flush()?;
        reach(ReplicaStep::LetGo);
        let claims: Vec<_> = asked.iter().map(|&it| (it, claim_number(self.memory(), it))).collect();
        self.machine.let_go(claims, &written);
        if progress.synced {
            // Until it is synced, the count in its page is that of its older term. `Ask::Adopt` brings the
            // new one.
            self.tell_reclaimed(told)?;
        }
        if let Some(disk) = disk
            && disk.free(&asked, told)
        {
            // In `async` mode the desk tells it with the next mark.
            let gate = self.leader_term.core.disk.as_ref();
            let desk = gate.filter(|gate| gate.durability() == Durability::Sync).and_then(|gate| gate.desk());
            desk.into_iter().for_each(|desk| desk.notify());
            return Ok(());
        }
        if progress.synced {
            tell(self.leader_term, || Told::LetGo { replica: self.follower.replica, reclaimed: told });
        }
        self.leader_term.releases.lock().let_go(self.follower.replica, &asked);
        self.leader_term.core.engine.relief.poke();
        Ok(())
    }
}
