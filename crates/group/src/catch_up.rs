//! How a follower catches up with the leader, and is kept caught up (LoLKV 3.5; M3; rule
//! ResyncAll of `docs/spec`).
//!
//! In this order, and why:
//! (1) *Sync*: the follower promises the term, fences, and says what it has. From then on its memory is lent
//!     to this leader alone.
//! (2) *Join*: from now on it is asked before a segment is released, so that nothing that is pushed to it
//!     can be of a use that is over there. Once it let go of a segment, nothing of that use is pushed any
//!     more: it might land after what a stream writes there in the next one.
//! (3) *Table*, then *content* of older terms: what its own table says that it does not have, or all if it
//!     holds another start set; and all of it has landed (not merely completed: streams write
//!     to the same lines, over connections of their own) before
//! (4) *Attach*: each stream sends to it from its present end on, claims first. What a stream wrote before is
//! (5) pushed here, segment by segment. Entries never change, so it does not matter what else sends the same.
//! (6) *Adopt*: it holds the start set and all of this term that it may ever be counted for. What it let go
//!     of meanwhile, or never had because it was reclaimed before, is missing. The question itself brings
//!     floors that say so, and is asked when they cover all of that (L6): at no moment does it count with a
//!     gap.
//!     Until then a follower whose memory counts goes on counting for what it held. What is pushed keeps
//!     that true: where it has an entry that an older term committed, the same bytes are written.
//! (7) It is kept: releases are asked of it, until somebody lets it go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longarm_base::limits::{LINE, READ_MAX, SEGMENT_BYTES};
use longarm_base::{EntryRef, Mutant, Nanos, Place, Term};
use longarm_fabric::{QueuePair, Transport};
use longarm_host::observe::{Observation as Told, ReplicaStep, observe, reach};
use longarm_host::{now, sleep};
use longarm_memory::{Mapped, Words};
use longarm_replica::{Event, page};
use longarm_store::segment::layout::{line_at, segment_at, segment_of};
use longarm_store::segment::{
    ArenaGeometry, Line, claim_number, freed_line, line_bytes, run_length, whole_line,
};
use longarm_store::segment_entries;
use longarm_wire::{ARENA_REGION, Answer, Ask, PAGE_REGION, SyncState};

use super::OWN_HEADER;
use crate::leader_term::{Follower, LeaderTerm};
use crate::peer::Peer;
use crate::peer_channel::{Bulk, PeerError, Worth};
use crate::releases::{LetGo, raise};
use crate::scan::ScannedEntry;

/// Sleep between two looks at a follower that has caught up.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes copied out of the arena at a time.
const PIECE: u64 = 1 << 20;
/// How long a line is waited for that is being changed, and how often it is looked at.
const CHANGE: Nanos = Nanos::from_millis(100);
const LINE_AGAIN: Duration = Duration::from_micros(20);
/// Whoever pushes what clients do not wait for rests so many times as long as it worked, once it worked for
/// so long, and so long at most: cores and memory are theirs. On as many cores as threads that serve, it
/// would drive two of those onto one, where they do a third of what they did.
const RESTS: u64 = 3;
const WORK: Nanos = Nanos::from_micros(500);
const REST_MOST: Nanos = Nanos::from_millis(6);

/// Syncs the other and keeps it so. Returns when it is let go (`Ok`), when the leader's term is over, or when
/// something failed.
pub(crate) fn keep_caught_up<T: Transport>(
    peer: &mut Peer<T>,
    leader_term: &Arc<LeaderTerm<T::Qp>>,
) -> Result<(), PeerError> {
    let ask = Ask::Sync {
        term: leader_term.term,
        base: leader_term.base,
        cuts: leader_term.cuts.clone(),
        streams: leader_term.streams.len() as u16,
        members: leader_term.members.clone(),
    };
    let _attending = leader_term.attend();
    let until = now() + peer.patience;
    let commands = peer.commands.clone();
    let worth = || !leader_term.is_over() && !commands.pause.is_stopped();
    // A channel of its own: what is left of older ones is not to be mistaken for this.
    peer.channel = None;
    let channel = peer.channel()?;
    let ready = channel.settle(
        &ask,
        (until, &worth),
        |answer| matches!(answer, Answer::Ready { term, .. } if *term == leader_term.term),
    )?;
    let Answer::Ready { held, .. } = ready else { unreachable!("nothing else was wanted") };
    let follower = Arc::new(Follower::new(peer.node, leader_term.streams.len(), peer.commands.pause.clone()));
    let mut links = peer.address.memories(leader_term.term, 2 + leader_term.streams.len())?.into_iter();
    let mut link = || links.next().expect("as many as were asked for");
    let mut bulk = Bulk::new(link(), &worth);
    leader_term.hearts.put((link(), follower.clone()));
    leader_term.releases.join(peer.node);
    reach(ReplicaStep::Joined);
    let patience = peer.patience;
    let counts = !matches!(held, SyncState::Nothing);
    let mut catch_up = CatchUp {
        leader_term,
        follower: &follower,
        bulk: &mut bulk,
        worth: &worth,
        patience,
        counts,
        needed: Vec::new(),
        over: BTreeMap::new(),
        rested: now(),
    };
    let ended = bring(peer, &mut catch_up, (held, links)).and_then(|()| keep(peer, &mut catch_up));
    follower.let_go();
    leader_term.releases.leave(peer.node);
    leader_term.followers.lock().retain(|known| !Arc::ptr_eq(known, &follower));
    if follower.is_synced() {
        // What it acknowledged stays there, whatever becomes of the connection.
        leader_term.left.lock().insert(peer.node, follower.next_floors());
        peer.events.push(Event::Lost(peer.node));
    }
    leader_term.wake();
    ended
}

struct CatchUp<'a, 'w, Q> {
    leader_term: &'a Arc<LeaderTerm<Q>>,
    follower: &'a Arc<Follower>,
    bulk: &'a mut Bulk<'w, Q>,
    worth: Worth<'w>,
    patience: Nanos,
    /// What it holds counts already, in this term or an older one.
    counts: bool,
    /// By stream, how much the follower must have of what is sent to it before it counts: it let go of
    /// segments that held this, or that this made needless.
    needed: Vec<u64>,
    /// Segments that it let go of, and the number of the claim whose use is over there.
    over: BTreeMap<u32, u64>,
    /// When this thread rested last.
    rested: Nanos,
}

/// `links`: a connection for each stream.
fn bring<T: Transport>(
    peer: &mut Peer<T>,
    catch_up: &mut CatchUp<'_, '_, T::Qp>,
    (held, links): (SyncState, impl Iterator<Item = T::Qp>),
) -> Result<(), PeerError> {
    let leader_term = catch_up.leader_term;
    let had = match held {
        SyncState::Term => leader_term.left.lock().get(&peer.node).cloned(),
        _ => None,
    };
    if let Some(had) = &had {
        // It counts, and what is reclaimed meanwhile must not look like a gap.
        catch_up.floors(had)?;
        catch_up.follower.set_floors(had);
    }
    let unknown = if held == SyncState::Nothing { Vec::new() } else { catch_up.unknown()? };
    catch_up.table()?;
    reach(ReplicaStep::Table);
    if held == SyncState::Nothing {
        catch_up.older()?;
    }
    for segment in unknown {
        catch_up.whole(segment)?;
    }
    if let SyncState::Base(lens) = &held {
        catch_up.of_base(lens)?;
    }
    catch_up.flush()?;
    reach(ReplicaStep::Landed);
    for ((stream, attachment), link) in
        leader_term.streams.iter().zip(&catch_up.follower.attachments).zip(links)
    {
        stream.arrivals.put((link, attachment.clone()));
        stream.waker.wake();
    }
    leader_term.followers.lock().push(catch_up.follower.clone());
    reach(ReplicaStep::Attached);
    catch_up.await_start()?;
    catch_up.of_term(leader_term.term, &had.unwrap_or_else(|| vec![0; leader_term.streams.len()]))?;
    if !Mutant::AdoptUnflushed.is_on() {
        catch_up.flush()?;
    }
    reach(ReplicaStep::Pushed);
    if !catch_up.counts {
        // One that lost its memory knows no less than before: what it had let go of then it lets go of again.
        catch_up.serve_releases()?;
    }
    let floors = catch_up.await_needed()?;
    let (term, reclaimed) = (leader_term.term, leader_term.releases.asked(peer.node, |_| false).told);
    if held == SyncState::Term {
        // It is in sync by name already, and would not take this from the question.
        catch_up.reclaimed(reclaimed)?;
    }
    let until = now() + peer.patience;
    let wanted = |answer: &Answer| matches!(answer, Answer::Synced { term: of } if *of == term);
    let ask = Ask::Adopt { term, reclaimed, floors: floors.clone() };
    let synced = peer.channel()?.settle(&ask, (until, catch_up.worth), wanted)?;
    reach(ReplicaStep::Synced);
    if held == SyncState::Term {
        // As above. Before anything more is counted from it, its floors say that what was reclaimed while it
        // was away is no gap: a survey must not end where nothing is to be found.
        catch_up.floors(&floors)?;
    }
    catch_up.follower.set_floors(&floors);
    // Release: all that it was synced with is there; pairs with the looks of workers and heart.
    catch_up.follower.synced.store(true, Ordering::Release);
    peer.events.push(Event::Answered(peer.node, synced));
    leader_term.wake();
    Ok(())
}

fn keep<T: Transport>(peer: &mut Peer<T>, catch_up: &mut CatchUp<'_, '_, T::Qp>) -> Result<(), PeerError> {
    let term = catch_up.leader_term.term;
    let mut told = false;
    // What it is asked when this term is over: that is said afterwards, and waits until then.
    let later = |ask: &Ask| matches!(ask, Ask::Stand { term: of } if *of == term);
    loop {
        if let Some(served) = catch_up.leader_term.served().filter(|_| !told) {
            let since = now().since(served);
            peer.channel()?.ask(&Ask::Serves { term, since })?;
            told = true;
        }
        catch_up.serve_releases()?;
        while let Some(ask) = peer.commands.next_unless(later) {
            // What this node asked before it led has no meaning any more.
            if matches!(ask, Ask::Members { .. }) && ask.term() == term {
                peer.channel()?.ask(&ask)?;
            }
        }
        for answer in peer.channel()?.answers()? {
            peer.events.push(Event::Answered(peer.node, answer));
        }
        if catch_up.is_over() || peer.commands.pause.is_stopped() {
            return Ok(());
        }
        peer.commands.pause.sleep_unless_poked(LOOK);
    }
}

/// Whether a follower with this line of a segment has nothing of what the leader's says that there is.
fn is_unknown(ours: &Line, theirs: &Line) -> bool {
    let known = theirs.has_entries() && theirs.is_same_use(ours);
    ours.has_entries() && !known && !Mutant::TrustTable.is_on()
}

impl<Q: QueuePair> CatchUp<'_, '_, Q> {
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

    /// `Err` if there is no use in going on.
    fn go_on(&self) -> Result<(), PeerError> {
        if self.is_over() {
            Err(PeerError::Broken("it was let go while it was being synced".into()))
        } else {
            Ok(())
        }
    }

    /// WRITEs what the arena holds there.
    fn copy(&mut self, from: u64, len: u64) -> Result<(), PeerError> {
        let mut at = 0;
        let mut bytes = Vec::new();
        while at < len {
            self.go_on()?;
            let size = (len - at).min(PIECE);
            bytes.resize(size as usize, 0);
            self.memory().copy_out(from + at, &mut bytes);
            let until = self.until();
            self.bulk.write(ARENA_REGION, from + at, &bytes, until)?;
            self.leader_term.set_pushed(now());
            self.rest();
            at += size;
        }
        Ok(())
    }

    /// Leaves time to those who are served meanwhile.
    fn rest(&mut self) {
        let worked = now().since(self.rested);
        if worked < WORK || !self.is_spare() {
            return;
        }
        sleep(Duration::from_nanos((worked.0 * RESTS).min(REST_MOST.0)));
        self.rested = now();
    }

    /// Whether clients are served, and writes committed, without this follower.
    fn is_spare(&self) -> bool {
        let with =
            1 + self.leader_term.followers.lock().iter().filter(|follower| follower.is_synced()).count();
        self.leader_term.served().is_some() && with > self.leader_term.members.list.len() / 2
    }

    fn geometry(&self) -> ArenaGeometry {
        ArenaGeometry::read(self.memory(), self.leader_term.core.engine.store.sums()).expect(OWN_HEADER)
    }

    /// The line of a segment of ours; free if it is being written at this moment.
    fn line(&self, segment: u32) -> Line {
        let sums = self.leader_term.core.engine.store.sums();
        Line::read(self.memory(), sums, segment).unwrap_or(Line::FREE)
    }

    /// The header and all lines.
    fn table(&mut self) -> Result<(), PeerError> {
        let segments = self.geometry().segments;
        self.lines(0, segments)
    }

    /// So many lines. None of them is half of a change: on the follower it would stay so.
    fn lines(&mut self, first: u32, count: u32) -> Result<(), PeerError> {
        let mut bytes = Vec::new();
        for segment in first..first + count {
            bytes.extend_from_slice(&self.whole_line(segment)?);
            if bytes.len() as u64 == PIECE || segment + 1 == first + count {
                self.go_on()?;
                let (until, at) = (self.until(), line_at(segment + 1) - bytes.len() as u64);
                self.bulk.write(ARENA_REGION, at, &bytes, until)?;
                self.leader_term.set_pushed(now());
                self.rest();
                bytes.clear();
            }
        }
        Ok(())
    }

    fn whole_line(&mut self, segment: u32) -> Result<[u8; LINE as usize], PeerError> {
        let until = now() + CHANGE;
        loop {
            let sums = self.leader_term.core.engine.store.sums();
            if let Some(line) = whole_line(self.memory(), sums, segment) {
                return Ok(line);
            }
            self.go_on()?;
            if now() >= until {
                // Nobody is at it any more: it was so when this node took the arena over, and says nothing.
                return Ok(line_bytes(self.memory(), segment));
            }
            sleep(LINE_AGAIN);
        }
    }

    /// Segments of older terms, which the follower does not have in the use that they are in here. It holds
    /// the same start set, and had let go of them at the word of a leader whose other followers had not: what
    /// is there says nothing, and may be what it wrote itself and nobody counted (L16).
    fn unknown(&mut self) -> Result<Vec<u32>, PeerError> {
        let (geometry, until) = (self.geometry(), self.until());
        let mut unknown = Vec::new();
        for first in (geometry.table..geometry.segments).step_by(READ_MAX as usize / LINE as usize) {
            let count = (geometry.segments - first).min(READ_MAX / LINE as u32);
            let place = Place::new(ARENA_REGION, line_at(first), count * LINE as u32);
            let theirs = self.bulk.read(place, until)?.to_vec();
            for (segment, theirs) in (first..).zip(theirs.chunks_exact(LINE as usize)) {
                let sums = self.leader_term.core.engine.store.sums();
                let theirs = Line::from_bytes(theirs, sums, segment).unwrap_or(Line::FREE);
                let ours = self.line(segment);
                if ours.term < self.leader_term.term && is_unknown(&ours, &theirs) {
                    unknown.push(segment);
                }
            }
        }
        Ok(unknown)
    }

    /// All segments of older terms, whole.
    fn older(&mut self) -> Result<(), PeerError> {
        let geometry = self.geometry();
        for segment in geometry.table..geometry.segments {
            if !self.is_over_there(segment) {
                self.whole(segment)?;
                self.serve_releases()?;
            }
        }
        Ok(())
    }

    /// A segment, or run, of an older term, to its end: what the follower has there of an entry that was cut
    /// off must not stay (L16).
    fn whole(&mut self, segment: u32) -> Result<(), PeerError> {
        let line = self.line(segment);
        if line.term < self.leader_term.term && line.has_entries() {
            self.copy(segment_at(segment), u64::from(line.run) * SEGMENT_BYTES)?;
            reach(ReplicaStep::Content);
        }
        Ok(())
    }

    /// All entries of the base's streams from these positions on.
    fn of_base(&mut self, from: &[u64]) -> Result<(), PeerError> {
        let tail = &self.leader_term.tail;
        let known =
            tail.from.len() >= from.len() && tail.from.iter().zip(from).all(|(known, from)| known <= from);
        if !known {
            return self.of_term(self.leader_term.base, from);
        }
        // Behind a gap too: what is missing was reclaimed.
        let missing = |seen: &&ScannedEntry| from.get(seen.stream).is_some_and(|&from| seen.position >= from);
        // Its segment may have been freed since, and used again; not any more, as we are asked now.
        let still =
            |seen: &&ScannedEntry| self.line(segment_of(seen.place.offset)).term == self.leader_term.base;
        let mut places: Vec<_> =
            tail.entries.iter().filter(missing).filter(still).map(|seen| seen.place).collect();
        places.sort_unstable_by_key(|place| place.offset);
        let together = |one: &EntryRef, next: &EntryRef| segment_of(one.offset) == segment_of(next.offset);
        places.chunk_by(together).try_for_each(|places| self.entries(places))
    }

    /// All entries of a term's streams from these positions on, as they are found in the arena.
    fn of_term(&mut self, term: Term, from: &[u64]) -> Result<(), PeerError> {
        if from.is_empty() {
            return Ok(());
        }
        let geometry = self.geometry();
        for segment in geometry.table..geometry.segments {
            let sums = self.leader_term.core.engine.store.sums();
            let places = segment_entries(self.memory(), sums, geometry, segment, term, from);
            self.entries(&places)?;
            if !places.is_empty() {
                reach(ReplicaStep::Content);
            }
            if !self.counts {
                self.serve_releases()?;
            }
        }
        Ok(())
    }

    /// Whether the follower has let go of the use that a segment still has here. What is claimed anew since
    /// is another use.
    fn is_over_there(&self, segment: u32) -> bool {
        is_over(&self.over, segment, claim_number(self.memory(), segment))
    }

    /// Entries of one segment, in the order in which they lie there.
    fn entries(&mut self, places: &[EntryRef]) -> Result<(), PeerError> {
        let Some(segment) = places.first().map(|place| segment_of(place.offset)) else { return Ok(()) };
        if self.is_over_there(segment) {
            return Ok(());
        }
        // Its claim may be younger than the table that was sent. It is not over: we are asked before.
        if !Mutant::ForgetClaims.is_on() {
            self.lines(segment, run_length(self.memory(), segment))?;
        }
        let end = |place: &EntryRef| place.offset + u64::from(place.len).next_multiple_of(8);
        // Between which no line lies.
        let adjoin = |one: &EntryRef, next: &EntryRef| end(one).next_multiple_of(LINE) == next.offset;
        for together in places.chunk_by(adjoin) {
            let (first, last) = (together[0], together[together.len() - 1]);
            self.copy(first.offset, end(&last) - first.offset)?;
        }
        Ok(())
    }

    /// Waits until every stream has said from where on it sends.
    fn await_start(&self) -> Result<(), PeerError> {
        let all = |follower: &Follower| follower.attachments.iter().all(|one| one.start().is_some());
        self.await_news("our own workers do not take it up", |follower| all(follower).then_some(()))
    }

    /// Everything was pushed: waits until the follower has acknowledged all else that it needs to have, too.
    /// Returns the floors with which it may count.
    fn await_needed(&self) -> Result<Vec<u64>, PeerError> {
        self.follower.attachments.iter().for_each(|attachment| attachment.count_start());
        let look = |follower: &Follower| follower.first_floors(&self.needed);
        self.await_news("it does not take what is written meanwhile", look)
    }

    /// What is found of the follower, which is waited for; `why` says what it means if that does not come.
    fn await_news<R>(&self, why: &str, look: impl Fn(&Follower) -> Option<R>) -> Result<R, PeerError> {
        let until = self.until();
        loop {
            if let Some(found) = look(self.follower) {
                return Ok(found);
            }
            self.go_on()?;
            if now() >= until {
                return Err(PeerError::Broken(why.into()));
            }
            self.follower.news.sleep_unless_poked(Duration::from_millis(1));
        }
    }

    /// WRITEs floors: positions that the follower surely has, where that is not only so once it is synced.
    fn floors(&mut self, floors: &[u64]) -> Result<(), PeerError> {
        let bytes: Vec<u8> = floors.iter().flat_map(|floor| floor.to_le_bytes()).collect();
        let until = self.until();
        self.bulk.write(PAGE_REGION, page::FLOORS, &bytes, until)?;
        self.flush()
    }

    /// Tells the follower, which is in sync, how many segments were reclaimed in this term.
    fn reclaimed(&mut self, count: u64) -> Result<(), PeerError> {
        if Mutant::UntoldCount.is_on() {
            return Ok(());
        }
        let (node, until) = (self.follower.node, self.until());
        observe(|| Told::Tells { node, reclaimed: count });
        self.bulk.write(PAGE_REGION, page::RECLAIMED, &count.to_le_bytes(), until)?;
        self.flush()?;
        observe(|| Told::Told { node, reclaimed: count });
        Ok(())
    }

    /// Has the follower let go of segments that are to be freed. Everything that was pushed into them before
    /// has landed when that is said.
    ///
    /// A follower that counts must have all that the segments held and all that made them needless, and its
    /// floors must say so: or a survey would find a gap where they were, and end there. It learns of the
    /// count last: who knows of fewer than another may not lead (`gather.rs`).
    fn serve_releases(&mut self) -> Result<(), PeerError> {
        let (follower, synced) = (self.follower, self.follower.is_synced());
        // What the heart has told it, which is what it has acknowledged, a heartbeat later.
        let has = |written: &[u64]| follower.may_let_go(written);
        let LetGo { segments: asked, written, told } =
            self.leader_term.releases.asked(self.follower.node, has);
        if asked.is_empty() {
            return if self.bulk.is_sound() { Ok(()) } else { self.flush() };
        }
        let store = &self.leader_term.core.engine.store;
        let (sums, stable) = (store.sums().clone(), store.stable());
        for &segment in &asked {
            let line = freed_line(self.memory(), &sums, segment, stable);
            let until = self.until();
            self.bulk.write(ARENA_REGION, line_at(segment), &line, until)?;
            self.over.insert(segment, claim_number(self.memory(), segment));
        }
        self.flush()?;
        reach(ReplicaStep::LetGo);
        raise(&mut self.needed, &written);
        if synced {
            // Before that the word is of its older term; it learns of the count when it is.
            self.reclaimed(told)?;
            observe(|| Told::LetGo { node: self.follower.node, reclaimed: told });
        }
        self.leader_term.releases.let_go(self.follower.node, &asked);
        self.leader_term.core.engine.relief.poke();
        Ok(())
    }
}

/// Whether, of these uses that a follower has let go of (claims by segment), one is this.
fn is_over(over: &BTreeMap<u32, u64>, segment: u32, claim: u64) -> bool {
    over.get(&segment) == Some(&claim) && !Mutant::PushOver.is_on()
}

/// What is pushed into a use that is over there could land over the next one.
#[test]
fn nothing_is_pushed_into_a_use_that_a_follower_has_let_go_of() {
    let over = BTreeMap::from([(4, 9)]);
    assert!(is_over(&over, 4, 9));
    assert!(!is_over(&over, 4, 10), "claimed anew since");
    assert!(!is_over(&over, 5, 9));
}

/// A replica had let go of a segment at the word of a leader that was lost before its others had. The next
/// leader still has it, and what that replica has there is not known.
#[test]
fn what_a_follower_has_let_go_of_is_given_to_it_anew() {
    use longarm_base::NodeId;
    use longarm_store::segment::SegmentState;
    let at = |state| Line { state, generation: 3, term: Term::new(4, NodeId(1)), claim: 9, ..Line::FREE };
    let (sealed, freed) = (at(SegmentState::Sealed), at(SegmentState::Free));
    assert!(is_unknown(&sealed, &freed));
    assert!(is_unknown(&sealed, &Line::FREE), "it never had it");
    assert!(is_unknown(&sealed, &Line { claim: 10, generation: 4, ..sealed }), "another use");
    assert!(!is_unknown(&sealed, &at(SegmentState::Active)), "it has it, and saw less of it");
    assert!(
        !is_unknown(&freed, &sealed) && !is_unknown(&at(SegmentState::RunBody), &freed),
        "nothing begins there"
    );
}
