//! What a leader's term is made of: the server's threads of that term, and the followers attached to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use longarm_base::{Mutant, Nanos, NodeId, Term};
use longarm_fabric::Channel;
use longarm_host::{Mutex, Pause};
use longarm_wire::Members;

use crate::common::Core;
use crate::inbox::Inbox;
use crate::install::Tail;
use crate::releases::Releases;
use crate::replicate::{Arrivals, Attachment};
use crate::stats::FollowerStats;
use longarm_engine::stream::Progress;

/// Wakes whoever writes a stream.
pub enum Waker {
    /// A worker.
    Worker(Channel),
    /// The maintenance thread.
    Maintenance(Arc<Pause>),
}

impl Waker {
    /// It looks at once at what there is.
    pub fn wake(&self) {
        match self {
            Waker::Worker(channel) => channel.notify(),
            Waker::Maintenance(pause) => pause.poke(),
        }
    }
}

/// Where followers are added to a stream, and who writes it.
pub(crate) struct StreamHandle<Q> {
    pub arrivals: Arc<Arrivals<Q>>,
    pub waker: Waker,
}

/// A follower that is attached: all of its connections share this.
pub(crate) struct Follower {
    pub node: NodeId,
    /// It has said that it is synced.
    pub synced: Arc<AtomicBool>,
    /// Somebody let it go.
    pub gone: Arc<AtomicBool>,
    /// Whoever syncs it sleeps here.
    pub news: Arc<Pause>,
    /// By stream.
    pub attachments: Vec<Arc<Attachment>>,
    /// Floors that its page surely has, by stream: positions that it has acknowledged. One writer at a time:
    /// whoever syncs it until it is synced, then the heart. Two would overtake each other, and a floor that
    /// goes back shows a gap where something was freed.
    floors: Vec<AtomicU64>,
}

impl Follower {
    pub fn new(node: NodeId, streams: usize, news: Arc<Pause>) -> Follower {
        let (synced, gone) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let attach = || Arc::new(Attachment::new(node, synced.clone(), gone.clone(), news.clone()));
        let attachments = (0..streams).map(|_| attach()).collect();
        let floors = (0..streams).map(|_| AtomicU64::new(0)).collect();
        Follower { node, synced, gone, news, attachments, floors }
    }

    /// Floors that its page surely has.
    pub fn floors(&self) -> impl Iterator<Item = u64> {
        // Acquire: pairs with `set_floors`.
        self.floors.iter().map(|floor| floor.load(Ordering::Acquire))
    }

    /// The WRITE of these floors completed.
    pub fn set_floors(&self, floors: &[u64]) {
        // Release: pairs with `floors`.
        self.floors.iter().zip(floors).for_each(|(known, floor)| known.store(*floor, Ordering::Release));
    }

    /// Floors that its page may have by now: never less than it has.
    pub fn next_floors(&self) -> Vec<u64> {
        let acked = self.attachments.iter().map(|attachment| attachment.acked());
        self.floors().zip(acked).map(|(floor, acked)| floor.max(acked)).collect()
    }

    /// The floors with which it may begin to count, once they cover what it `needed` to have: so much of each
    /// stream was written when it let go of segments.
    pub fn first_floors(&self, needed: &[u64]) -> Option<Vec<u64>> {
        let floors = self.next_floors();
        let cover = floors.iter().zip(needed).all(|(floor, needed)| floor >= needed);
        (cover || Mutant::AdoptEarly.is_on()).then_some(floors)
    }

    /// Floors that a heartbeat tells it: what it was synced with is there before they say so.
    pub fn told_floors(&self) -> Vec<u64> {
        let tells = self.is_synced() || Mutant::RaiseFloors.is_on();
        if tells { self.next_floors() } else { Vec::new() }
    }

    /// Whether it may let go of a segment that was asked for when the streams had written so much. If it
    /// counts, its page must say that it has all of that, which made the segment needless. If it does not
    /// yet, nothing of that may be on its way there: each stream has a connection of its own, and what one
    /// sent for this use of the segment might land after what another sends for the next.
    pub fn may_let_go(&self, written: &[u64]) -> bool {
        let has = || written.iter().zip(self.floors()).all(|(&written, floor)| floor >= written);
        let sent = |(&written, stream): (&u64, &Arc<Attachment>)| stream.has_nothing_below(written);
        let may = match self.is_synced() {
            true => has(),
            false => written.iter().zip(&self.attachments).all(sent),
        };
        may || Mutant::ReleaseEarly.is_on()
    }

    /// How it stands, for people.
    pub fn stats(&self, progress: &[Arc<Progress>]) -> FollowerStats {
        let lag = |(attachment, progress): (&Arc<Attachment>, &Arc<Progress>)| {
            progress.written().saturating_sub(attachment.acked())
        };
        FollowerStats {
            node: self.node.0,
            synced: self.is_synced(),
            lag: self.attachments.iter().zip(progress).map(lag).sum(),
        }
    }

    /// Whether it has said that it is synced.
    pub fn is_synced(&self) -> bool {
        // Acquire: what it was synced with is there; pairs with the store of who synced it.
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

/// What the heart does for a leader that hands over (`node/hand_over.rs`). It alone vouches for clients'
/// leases and renews the leader's own: so under this lock it is known when that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum TransferState {
    /// Nothing: it beats.
    #[default]
    Not,
    /// It vouches for no client's lease any more; when the last one is over, once it is known.
    WindsDown(Option<Nanos>),
    /// It ends the leader's lease, beats no more, and takes promises back; who is waited for.
    Releases(NodeId),
}

/// A term that this node leads, from its start set to its end.
pub(crate) struct LeaderTerm<Q> {
    pub term: Term,
    /// The term whose start set followers may have in common with this one, and where its streams are cut.
    pub base: Term,
    pub cuts: Vec<u64>,
    /// The replicas that the term has.
    pub members: Members,
    /// Entries of the base that a follower may lack, as they were at the start.
    pub tail: Tail,
    pub core: Arc<Core>,
    /// By stream.
    pub streams: Vec<StreamHandle<Q>>,
    pub releases: Arc<Releases>,
    /// Connections for heartbeats that the heart has not taken yet.
    pub hearts: Inbox<(Q, Arc<Follower>)>,
    /// What followers that are gone had acknowledged, by stream.
    pub left: Mutex<BTreeMap<NodeId, Vec<u64>>>,
    /// Followers attached, for statistics.
    pub followers: Mutex<Vec<Arc<Follower>>>,
    /// When the last heartbeat was begun.
    beat: AtomicU64,
    /// When something was last pushed to a follower that is being synced.
    pushed: AtomicU64,
    /// When it began to serve.
    served: AtomicU64,
    pub transfer: Mutex<TransferState>,
    /// Threads that hold connections to followers' memory.
    attending: AtomicUsize,
    formed: AtomicBool,
    over: AtomicBool,
}

/// A thread of the leader's term that holds connections; to be dropped after them.
pub(crate) struct Attending<'a>(&'a AtomicUsize);

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        // Release: its connections are closed; pairs with `is_attended`.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl<Q> LeaderTerm<Q> {
    pub fn new(
        ((term, base, cuts, tail), members): ((Term, Term, Vec<u64>, Tail), Members),
        core: Arc<Core>,
        streams: Vec<StreamHandle<Q>>,
        releases: Arc<Releases>,
    ) -> LeaderTerm<Q> {
        LeaderTerm {
            term,
            base,
            cuts,
            members,
            tail,
            core,
            streams,
            releases,
            hearts: Inbox::default(),
            left: Mutex::default(),
            followers: Mutex::default(),
            beat: AtomicU64::new(0),
            pushed: AtomicU64::new(0),
            served: AtomicU64::new(0),
            transfer: Mutex::default(),
            attending: AtomicUsize::new(0),
            formed: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// The start set is here, and others are to have it.
    pub fn set_formed(&self) {
        // Relaxed: one thread sets and looks.
        self.formed.store(true, Ordering::Relaxed);
    }

    pub fn is_formed(&self) -> bool {
        // Relaxed: as above.
        self.formed.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        // Release: pairs with `is_over`.
        self.over.store(true, Ordering::Release);
        self.followers.lock().iter().for_each(|follower| follower.let_go());
    }

    pub fn is_over(&self) -> bool {
        // Acquire: pairs with `end`.
        self.over.load(Ordering::Acquire)
    }

    /// A thread begins to hold connections.
    pub fn attend(&self) -> Attending<'_> {
        // Relaxed: the guard's drop publishes.
        self.attending.fetch_add(1, Ordering::Relaxed);
        Attending(&self.attending)
    }

    /// Whether some thread holds connections still.
    pub fn is_attended(&self) -> bool {
        // Acquire: pairs with the drop of `Attending`.
        self.attending.load(Ordering::Acquire) > 0
    }

    /// A heartbeat is about to be sent.
    pub fn set_beat(&self, now: Nanos) {
        // Release: before it is sent; pairs with `beat`.
        self.beat.store(now.0, Ordering::Release);
    }

    pub fn beat(&self) -> Nanos {
        // Acquire: as in `set_beat`.
        Nanos(self.beat.load(Ordering::Acquire))
    }

    /// It serves.
    pub fn set_served(&self, now: Nanos) {
        // Relaxed: a time, and nothing rests on it; pairs with `served`.
        self.served.store(now.0, Ordering::Relaxed);
    }

    /// Since when it serves; `None` if it does not yet.
    pub fn served(&self) -> Option<Nanos> {
        // Relaxed: pairs with `set_served`.
        Some(Nanos(self.served.load(Ordering::Relaxed))).filter(|&served| served > Nanos(0))
    }

    /// A follower that is being synced takes what it is given.
    pub fn set_pushed(&self, now: Nanos) {
        // Relaxed: a time, and nothing rests on it; pairs with `pushed`.
        self.pushed.store(now.0, Ordering::Relaxed);
    }

    /// When one last did.
    pub fn pushed(&self) -> Nanos {
        // Relaxed: pairs with `set_pushed`.
        Nanos(self.pushed.load(Ordering::Relaxed))
    }

    /// Wakes all who write streams.
    pub fn wake(&self) {
        self.streams.iter().for_each(|stream| stream.waker.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::releases::raise;

    /// Floors are positions of the leader's term: beside those of an older term, of which the memory still
    /// is, they would claim entries that are not there.
    #[test]
    fn a_follower_is_told_no_floors_before_it_is_synced() {
        let follower = Follower::new(NodeId(1), 2, Arc::default());
        follower.set_floors(&[3, 4]);
        assert!(follower.told_floors().is_empty());
        // Release: as whoever syncs it; pairs with `is_synced`.
        follower.synced.store(true, Ordering::Release);
        assert_eq!(follower.told_floors(), [3, 4]);
    }

    /// A survey of it would find a gap where the segments were that it let go of, and end there.
    #[test]
    fn a_follower_begins_to_count_with_floors_that_cover_what_it_let_go_of() {
        let follower = Follower::new(NodeId(1), 2, Arc::default());
        follower.attachments.iter().for_each(|attachment| attachment.ack(3));
        let mut needed = Vec::new();
        assert_eq!(follower.first_floors(&needed), Some(vec![3, 3]), "it lacks nothing");
        raise(&mut needed, &[2, 5]);
        raise(&mut needed, &[3, 4]);
        assert_eq!((&needed, follower.first_floors(&needed)), (&vec![3, 5], None));
        follower.attachments[1].ack(7);
        assert_eq!(follower.first_floors(&needed), Some(vec![3, 7]));
    }

    /// A survey of it would find a gap where the segment was, and end there.
    #[test]
    fn a_follower_that_counts_lets_go_of_nothing_that_its_floors_do_not_cover() {
        let follower = Follower::new(NodeId(1), 2, Arc::default());
        assert!(follower.may_let_go(&[5, 5]), "nobody relies on it, and nothing is sent to it");
        // Release: as whoever syncs it; pairs with `is_synced`.
        follower.synced.store(true, Ordering::Release);
        follower.set_floors(&[5, 4]);
        assert!(!follower.may_let_go(&[5, 5]));
        follower.set_floors(&[5, 5]);
        assert!(follower.may_let_go(&[5, 5]));
    }

    /// Streams send over connections of their own: what one sent for a use of a segment might land over what
    /// another sends for the next.
    #[test]
    fn a_follower_that_is_being_synced_lets_go_of_nothing_that_is_on_its_way() {
        let follower = Follower::new(NodeId(1), 2, Arc::default());
        let [one, other] = &follower.attachments[..] else { unreachable!("there are two streams") };
        one.set_start(5);
        assert!(follower.may_let_go(&[5, 5]), "all of that is pushed, and nothing sent");
        assert!(!follower.may_let_go(&[6, 5]), "what it sends has not arrived");
        one.ack(6);
        assert!(follower.may_let_go(&[6, 5]));
        other.set_start(2);
        assert!(!follower.may_let_go(&[6, 5]));
        other.ack(5);
        assert!(follower.may_let_go(&[6, 5]));
    }
}
