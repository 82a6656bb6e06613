//! One term of a leader, as the orderer follows it: the connection, the feed, and how far the tree is. The
//! index is applied later than the entries come (HiStore 3.2.2).
//!
//! The tree stands at a vector: of each stream it has all entries below a position. None of these is beyond
//! what a READ found applied, so what readers of the leader's index find is at least the tree (decision 30).

use longarm_base::{Csn, Mutant, Nanos, Term};
use longarm_fabric::QueuePair;
use longarm_index::tree::{EntryKind, Standing, TreeFull};
use longarm_memory::Mapped;
use longarm_store::progress::layout::line_at;
use longarm_store::progress::{Feed, Gap, LANDING_TIME, StreamMarks};
use longarm_store::{Settled, survey};

use crate::arena::{EntryName, OwnArena, Seen};
use crate::build::{Build, Tree, Uses, Writing};
use crate::conflicts::Conflicts;
use crate::leader::{Connector, Gone, LANDING, Leader};
use crate::rank::{Ranked, in_order, rank};
use crate::snapshot::Snapshots;
use crate::source::Source;

/// The most entries that are taken in one step.
pub(crate) const STEP: usize = 4096;
/// While nobody scans, entries wait until there are so many, or the first has waited for so long: the more of
/// them go into the tree at once, in the order of their keys, the less each costs.
const HELD: usize = 32_768;
const HELD_FOR: Nanos = Nanos::from_millis(100);
/// Entries of a stream that are asked for before they are looked at.
const AHEAD: u64 = 8;
/// Leaves that a step looks over for markers that are not needed any more.
const SWEEP: usize = 2;
/// The longest time between two looks at the leader's words while heartbeats tell of nothing.
const UNTOLD: Nanos = Nanos::from_millis(250);
/// The time between two tries to connect to the leader.
const AGAIN: Nanos = Nanos::from_millis(5);

/// Why there is nothing new.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The leader's words are not those of the term, or cannot be READ now.
    Away,
    /// An entry was reclaimed before it was taken.
    Gap(Gap),
    /// The tree has no room.
    Full,
}

impl From<Gone> for Trouble {
    fn from(_: Gone) -> Trouble {
        Trouble::Away
    }
}

impl From<Gap> for Trouble {
    fn from(gap: Gap) -> Trouble {
        Trouble::Gap(gap)
    }
}

impl From<TreeFull> for Trouble {
    fn from(_: TreeFull) -> Trouble {
        Trouble::Full
    }
}

/// How far the tree of this term is.
enum Stage {
    /// Nothing was sampled yet.
    Begun,
    /// The floors are to cover what was applied when the build began, and that is to land.
    Awaited { build: Build, applied: Vec<u64>, covered: Option<Nanos> },
    /// The arena is looked at. What the feed brings waits.
    Building(Build),
    /// What was found is put in order and written. `torn`: some of it may have been lost before it was looked
    /// at.
    Writing { writing: Box<Writing>, torn: bool },
    /// The tree is there, and right once it has these positions.
    Settling(Vec<u64>),
    /// The tree is right.
    Ready,
}

/// Entries that were taken, their keys, and room for their order.
#[derive(Default)]
pub(crate) struct Taken {
    pub entries: Vec<Seen>,
    pub keys: Vec<u8>,
    ranks: Vec<Ranked>,
}

/// A look at what the leader has applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub now: Nanos,
    /// Somebody waits for the tree, or is about to ask for it.
    pub wanted: bool,
}

/// A term that is followed.
pub(crate) struct Following<Q> {
    pub term: Term,
    /// Moments of the tree that clients look at, which end with the term.
    pub snapshots: Snapshots,
    leader: Option<Leader<Q>>,
    connect: Option<Connector<Q>>,
    retry: Nanos,
    source: Source,
    feed: Feed,
    stage: Stage,
    /// The last sample of the leader's words.
    sample: Vec<StreamMarks>,
    /// When that was, and what heartbeats had told before.
    looked: Nanos,
    told: Option<u64>,
    /// A stable point that was seen before a sample, and what was applied by that.
    stable: Option<(Csn, Vec<u64>)>,
    taken: Taken,
    /// Since when the first of the entries that were taken waits to go into the tree.
    held: Option<Nanos>,
    bytes: Vec<u8>,
}

impl<Q: QueuePair> Following<Q> {
    /// Follows the leader of a term from the start of its streams.
    pub fn new(term: Term, streams: usize, source: Source) -> Following<Q> {
        Following {
            term,
            snapshots: Snapshots::default(),
            leader: None,
            connect: None,
            retry: Nanos(0),
            source,
            feed: Feed::new(&vec![0; streams]),
            stage: Stage::Begun,
            sample: vec![StreamMarks::default(); streams],
            looked: Nanos(0),
            told: None,
            stable: None,
            taken: Taken::default(),
            held: None,
            bytes: Vec::new(),
        }
    }

    /// The leader is this replica.
    pub fn lead_by(mut self, progress: Mapped) -> Following<Q> {
        self.leader = Some(Leader::Own(progress));
        self
    }

    /// The leader is at the other end of what this connects to.
    pub fn connect_by(mut self, connect: Connector<Q>) -> Following<Q> {
        (self.leader, self.connect, self.retry) = (None, Some(connect), Nanos(0));
        self
    }

    /// Whether pages may be made.
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// How much of the arena was looked at, in hundredths, while the tree is being built.
    pub fn percent(&self) -> u8 {
        match &self.stage {
            Stage::Begun | Stage::Awaited { .. } => 0,
            Stage::Building(build) => build.percent() / 2,
            Stage::Writing { writing, .. } => 50 + writing.percent() / 2,
            Stage::Settling(_) | Stage::Ready => 100,
        }
    }

    /// Whether the tree is being built: there is more to do at once.
    pub fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Building(_) | Stage::Writing { .. })
    }

    /// Whether the tree is being written: it is here, and nowhere else.
    pub fn is_writing(&self) -> bool {
        matches!(self.stage, Stage::Writing { .. })
    }

    /// Entries that were applied at the last sample and are not in the tree.
    pub fn lag(&self) -> u64 {
        let taken = self.feed.taken();
        let behind = self.sample.iter().zip(taken).map(|(marks, taken)| marks.applied.saturating_sub(taken));
        behind.sum::<u64>() + self.taken.entries.len() as u64
    }

    /// Whether a look would find nothing: all that was written by the last one is in the tree, and since then
    /// no heartbeat has told of anything. A replica of which the leader knows no more hears of nothing, so
    /// this is never so for long.
    pub fn is_still(&self, now: Nanos) -> bool {
        let taken = self.feed.taken();
        let all = self.taken.entries.is_empty()
            && self.sample.iter().zip(taken).all(|(marks, taken)| marks.written == taken);
        let told = self.told.is_some() && self.told == self.source.told(self.feed.streams());
        self.is_ready() && self.leader.is_some() && all && told && now.since(self.looked) < UNTOLD
    }

    /// Follows the next term, whose start set has the streams of this one up to `cuts`, and all that was
    /// before. All of it is here, except what was reclaimed. The tree takes what it lacks of it; if it
    /// cannot,
    /// `next` begins with a build.
    pub fn go_on(
        mut self,
        mut next: Following<Q>,
        cuts: &[u64],
        tree: &mut Tree,
        arena: &mut OwnArena,
    ) -> Following<Q> {
        let held = !self.taken.entries.is_empty();
        if !self.is_ready() || held && self.step(tree, arena, tree.stable()).is_err() {
            return next;
        }
        let Some(taken) = self.tail(cuts, arena) else { return next };
        (next.taken, next.stage) = (taken, Stage::Ready);
        // A tree without room is found at the next advance.
        if next.step(tree, arena, tree.stable()).is_err() {
            next.begin_anew();
        }
        next
    }

    /// The entries of this term below the cuts that the tree lacks; `None` if one was reclaimed, or the tree
    /// has more.
    fn tail(&mut self, cuts: &[u64], arena: &mut OwnArena) -> Option<Taken> {
        let had = self.feed.taken();
        let cut = |stream: usize| cuts.get(stream).copied().unwrap_or(0);
        let fits = cuts.iter().skip(had.len()).all(|cut| *cut == 0);
        if !fits || had.iter().enumerate().any(|(stream, had)| *had > cut(stream)) {
            return None;
        }
        let view = arena.view();
        let found = survey(view.memory, view.sums, self.term, &had, &Settled::default()).ok()?;
        let mut taken = Taken::default();
        for (stream, found) in found.streams.iter().enumerate() {
            if found.len < cut(stream) {
                return None;
            }
            for &(position, place) in found.tail.iter().filter(|(position, _)| *position < cut(stream)) {
                let name = EntryName { term: self.term, stream, position };
                let seen = arena.find(name, place.offset, &mut taken.keys)?;
                taken.entries.extend(Some(seen).filter(Seen::counts));
            }
        }
        if Mutant::TreeForgetTail.is_on() {
            taken = Taken::default();
        }
        Some(taken)
    }

    /// By stream, the position below which the tree has all entries.
    pub fn taken(&self) -> Vec<u64> {
        self.feed.taken()
    }

    /// Begins anew: there was a gap, or the tree outgrew its memory.
    pub fn begin_anew(&mut self) {
        self.feed = Feed::new(&vec![0; self.feed.streams()]);
        (self.stage, self.stable, self.held) = (Stage::Begun, None, None);
        (self.taken, self.snapshots) = Default::default();
    }

    /// READs how far the leader's streams are. All that is sampled is of moments between call and return.
    pub fn look(&mut self, now: Nanos) -> Result<(), Trouble> {
        let looked = self.try_look(now);
        if matches!(looked, Err(Trouble::Away)) && self.connect.is_some() {
            self.leader = None;
        }
        looked
    }

    fn try_look(&mut self, now: Nanos) -> Result<(), Trouble> {
        (self.looked, self.told) = (now, self.source.told(self.feed.streams()));
        if self.leader.is_none() {
            let connect = self.connect.as_mut().filter(|_| now >= self.retry).ok_or(Trouble::Away)?;
            self.retry = now + AGAIN;
            self.leader = Some(Leader::far(connect().map_err(|_| Trouble::Away)?));
        }
        let leader = self.leader.as_mut().expect("it was just connected to");
        leader.read(StreamMarks::place(self.feed.streams()), &mut self.bytes)?;
        let marks = |stream: usize| StreamMarks::parse(&self.bytes[line_at(stream) as usize..], self.term);
        let sample: Option<Vec<_>> = (0..self.feed.streams()).map(marks).collect();
        self.sample = sample.ok_or(Trouble::Away)?;
        Ok(())
    }

    /// READs where the entries are that were committed by the last sample.
    fn learn(&mut self, arena: &OwnArena) -> Result<(), Trouble> {
        loop {
            let committed = self.sample.iter().map(|marks| marks.committed);
            let forgotten = match self.feed.wants(committed, u64::from(LANDING) / 8) {
                Ok(None) => return Ok(()),
                Ok(Some(range)) => {
                    let leader = self.leader.as_mut().ok_or(Trouble::Away)?;
                    leader.read(range.place(), &mut self.bytes)?;
                    self.feed.learn(range, &self.bytes).err()
                }
                Err(gap) => Some(gap),
            };
            let Some(gap) = forgotten else { continue };
            if !self.recall(gap, arena) {
                // What is known is taken first. An entry that has yet to come here is found later.
                return if self.feed.ahead(gap.stream, 0).is_some() { Ok(()) } else { Err(gap.into()) };
            }
        }
    }

    /// Looks for the entries of a stream in the replica's own arena: the directory has forgotten where they
    /// are, as the orderer got no core for long. Whether it found the next one.
    fn recall(&mut self, gap: Gap, arena: &OwnArena) -> bool {
        let view = arena.view();
        let mut floors = vec![u64::MAX; self.feed.streams()];
        floors[gap.stream] = self.feed.known(gap.stream);
        let found = survey(view.memory, view.sums, self.term, &floors, &Settled::default());
        found.is_ok_and(|found| self.feed.recall(gap.stream, &found.streams[gap.stream].tail))
    }

    /// Takes entries that the last sample found applied, as far as they are here, and not many more than are
    /// taken in one step; whether all were.
    fn take(&mut self, arena: &mut OwnArena, now: Nanos) -> Result<bool, Trouble> {
        let mut all = true;
        // Of a tombstone that was reclaimed before it was looked at the copy may be all that is left.
        let is_right = self.is_ready();
        let most = self.taken.entries.len() + STEP;
        for stream in 0..self.feed.streams() {
            let applied = match Mutant::TreeByFloor.is_on() {
                true => self.source.floor(stream),
                false => self.sample[stream].applied,
            };
            loop {
                if self.taken.entries.len() >= most && !self.is_busy() {
                    return Ok(false);
                }
                let Some(next) = self.feed.ahead(stream, 0).filter(|next| next.position < applied) else {
                    break;
                };
                if let Some(later) = self.feed.ahead(stream, AHEAD) {
                    arena.prefetch(std::iter::once(later.offset));
                }
                let name = EntryName { term: self.term, stream, position: next.position };
                match arena.find(name, next.offset, &mut self.taken.keys) {
                    Some(seen) if seen.kind == EntryKind::Move && Mutant::TreeIgnoreMove.is_on() => {}
                    Some(seen) if seen.counts() || seen.is_tombstone() && !is_right => {
                        self.taken.entries.push(seen);
                    }
                    Some(_) => {}
                    None => {
                        let missed = self.feed.miss(stream, self.source.floor(stream), now);
                        if missed.is_err() && Mutant::TreeSkipGap.is_on() {
                            self.feed.take(stream);
                            continue;
                        }
                        missed?;
                        all = false;
                        break;
                    }
                }
                self.feed.take(stream);
            }
        }
        Ok(all)
    }

    /// Takes what is new since the last look, and builds the tree if there is none yet. What was taken may
    /// wait before it goes into the tree, unless that is wanted. Returns how many entries a tree that is
    /// there was given to take.
    pub fn advance(
        &mut self,
        tree: &mut Option<Tree>,
        arena: &mut OwnArena,
        draw: &mut dyn FnMut() -> u64,
        Look { now, wanted }: Look,
    ) -> Result<u64, Trouble> {
        // Before the sample: see `StreamMarks`, and decision 30 on markers.
        let stable = self.source.stable();
        self.snapshots.expire(now);
        if matches!(self.stage, Stage::Begun) {
            // The memory is used for the next tree. Until that is there, readers find none.
            tree.iter_mut().for_each(Tree::hide);
            return self.begin(arena, now).map(|()| 0);
        }
        self.look(now)?;
        if self.stable.is_none() {
            self.stable = Some((stable, self.sample.iter().map(|marks| marks.applied).collect()));
        }
        self.learn(arena)?;
        let before = self.taken.entries.len();
        let all = self.take(arena, now)?;
        match std::mem::replace(&mut self.stage, Stage::Begun) {
            Stage::Begun => unreachable!("it has begun"),
            Stage::Awaited { build, applied, covered } => {
                self.stage = self.await_floors(build, applied, covered, now);
                if matches!(self.stage, Stage::Building(_)) && !Mutant::NoteOnce.is_on() {
                    self.note_again(arena, now)?;
                }
                Ok(0)
            }
            Stage::Building(mut build) => {
                if !build.look(arena) {
                    self.stage = Stage::Building(build);
                    return Ok(0);
                }
                let torn = build.is_torn(arena.view().memory) && !Mutant::BuildOnce.is_on();
                let writing = build.write(tree.take().expect("the memory of a tree"), draw());
                self.stage = Stage::Writing { writing: Box::new(writing), torn };
                Ok(0)
            }
            Stage::Writing { mut writing, torn } => {
                match writing.go_on()? {
                    true => self.settle(*writing, torn, tree, arena, now)?,
                    false => self.stage = Stage::Writing { writing, torn },
                }
                Ok(0)
            }
            stage @ (Stage::Settling(_) | Stage::Ready) => {
                self.stage = stage;
                let new = self.taken.entries.len() - before;
                if wanted || !self.may_wait(now) {
                    self.publish(tree.as_mut().expect("a tree was built"), arena, all)?;
                }
                Ok(new as u64)
            }
        }
    }

    /// Notes from where on the feed goes, and what is to be looked at.
    fn begin(&mut self, arena: &mut OwnArena, now: Nanos) -> Result<(), Trouble> {
        let uses = Uses::now(arena);
        self.look(now)?;
        let applied: Vec<u64> = self.sample.iter().map(|marks| marks.applied).collect();
        self.feed = Feed::new(&applied);
        let build = Build::new(self.term, applied.clone(), uses);
        self.stage = Stage::Awaited { build, applied, covered: None };
        Ok(())
    }

    /// Notes the uses once more, now that all that the first sample found applied is here: its segments may
    /// have been claimed here since the first note. What was freed between the two was replaced by what a
    /// sample after the second finds applied.
    fn note_again(&mut self, arena: &mut OwnArena, now: Nanos) -> Result<(), Trouble> {
        let uses = Uses::now(arena);
        self.look(now)?;
        if let Stage::Building(build) = &mut self.stage {
            let right_at = self.sample.iter().map(|marks| marks.applied).collect();
            build.note(uses, arena.view().memory, right_at);
        }
        Ok(())
    }

    /// What was applied by others may have yet to come here, and to land.
    fn await_floors(&self, build: Build, applied: Vec<u64>, covered: Option<Nanos>, now: Nanos) -> Stage {
        let covers = (0..).zip(&applied).all(|(stream, applied)| self.source.floor(stream) >= *applied);
        let since = covered.or(covers.then_some(now));
        let landed = match self.source {
            Source::Own(_) => true,
            Source::Page(_) => since.is_some_and(|since| now.since(since) >= LANDING_TIME),
        };
        if covers && landed {
            return Stage::Building(build);
        }
        Stage::Awaited { build, applied, covered: since }
    }

    /// All was written: the tree is there.
    fn settle(
        &mut self,
        writing: Writing,
        torn: bool,
        tree: &mut Option<Tree>,
        arena: &mut OwnArena,
        now: Nanos,
    ) -> Result<(), Trouble> {
        let (made, right_at) = writing.finish()?;
        // What waits was taken from the feed, and goes into the tree first.
        let made = tree.insert(made);
        self.stage = Stage::Settling(right_at);
        self.publish(made, arena, false)?;
        if torn {
            // Sampled after the look at the uses.
            self.look(now)?;
            self.stage = Stage::Settling(self.sample.iter().map(|marks| marks.applied).collect());
        }
        Ok(())
    }

    /// Whether what was taken may wait for more, while nobody wants it in the tree. A snapshot copies what a
    /// key was as the key changes in the tree: for that the old entry must still be there.
    fn may_wait(&mut self, now: Nanos) -> bool {
        let count = self.taken.entries.len();
        if !self.is_ready() || count == 0 || count >= HELD || !self.snapshots.is_empty() {
            return false;
        }
        now.since(*self.held.get_or_insert(now)) < HELD_FOR
    }

    /// Puts what was taken into the tree, as one step. `all`: it is all that was applied by the last sample.
    fn publish(&mut self, tree: &mut Tree, arena: &OwnArena, all: bool) -> Result<(), Trouble> {
        let taken = self.feed.taken();
        let reached = |at: &[u64]| at.iter().zip(&taken).all(|(at, taken)| taken >= at);
        if let Stage::Settling(until) = &self.stage
            && reached(until)
        {
            self.stage = Stage::Ready;
        }
        let (mut stable, is_right) = (tree.stable(), self.is_ready());
        if let Some((seen, _)) = self.stable.take_if(|(_, applied)| is_right && (all || reached(applied))) {
            stable = stable.max(seen);
        }
        // Of entries that change nothing clients want to know as well: these are committed, too.
        if !self.taken.entries.is_empty() || stable != tree.stable() || taken != tree.applied() {
            self.step(tree, arena, stable)?;
        }
        Ok(())
    }

    /// Makes a step of what was taken, in the order of keys and versions.
    fn step(&mut self, tree: &mut Tree, arena: &OwnArena, stable: Csn) -> Result<(), TreeFull> {
        self.held = None;
        let Taken { entries, keys, ranks } = &mut self.taken;
        rank(entries, keys, ranks);
        if !self.snapshots.is_empty() {
            entries.iter().for_each(|seen| self.snapshots.note(seen, keys, tree, arena));
        }
        let sweeps = tree.counts().markers > 0;
        let mut step = tree.begin();
        let entries_of = |ranked: Ranked| entries[ranked.number()].tree_entry(keys);
        step.apply_all(in_order(ranks, entries, keys).map(entries_of))?;
        if sweeps {
            step.sweep(SWEEP);
        }
        step.publish(&Standing { term: self.term, stable, applied: &self.feed.taken() });
        entries.clear();
        keys.clear();
        Ok(())
    }

    /// Samples once more, and says which keys have entries that the tree lacks and that may show by now.
    pub fn conflicts(&mut self, arena: &mut OwnArena, now: Nanos) -> Result<Conflicts, Trouble> {
        if !Mutant::ScanOldSample.is_on() {
            self.look(now)?;
        }
        self.learn(arena)?;
        let (mut keys, mut changed) = (Vec::new(), Vec::new());
        if Mutant::ScanNoWindow.is_on() {
            return Ok(Conflicts::Keys { keys, changed });
        }
        for held in self.taken.entries.iter().filter(|held| held.shows()) {
            let from = keys.len();
            keys.extend_from_slice(held.key(&self.taken.keys));
            changed.push((from, keys.len() - from));
        }
        for stream in 0..self.feed.streams() {
            let committed = match Mutant::ScanAppliedBound.is_on() {
                true => self.sample[stream].applied,
                false => self.sample[stream].committed,
            };
            for after in 0.. {
                let Some(next) = self.feed.ahead(stream, after) else { break };
                if next.position >= committed {
                    break;
                }
                let name = EntryName { term: self.term, stream, position: next.position };
                let Some(seen) = arena.find(name, next.offset, &mut keys) else {
                    if Mutant::ScanSkipUnlanded.is_on() {
                        continue;
                    }
                    return Ok(Conflicts::Any);
                };
                if seen.shows() {
                    changed.push(seen.key);
                }
            }
        }
        Ok(Conflicts::Keys { keys, changed })
    }
}
