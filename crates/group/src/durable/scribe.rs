//! The scribe: the thread that keeps the disk of a leader behind its memory.
//!
//! (1) In `async` mode it writes a batch a quarter of the window, or sooner if much is written; in `sync`
//!     mode whenever there is something, so that all writes of a batch's time share the next sync.
//! (2) The disk is one more party that must let go of a segment before it is used again, as followers are: it
//!     does so when a note covers what had been written when it was asked, and the freed line is in the file
//!     (D5). The versions drawn by then count, too: a cut must not lie below what made the segment needless.
//! (3) After an error it ends, and the gate stays shut.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Csn, Mutant, Nanos, ReplicaId, Term};
use longarm_disk::{DiskError, Mark, Medium, Scribe};
use longarm_fabric::Channel;
use longarm_host::{AdaptiveSpin, Mutex, Thread, now};
use longarm_memory::{Mapped, Words};
use longarm_replica::Group;
use longarm_store::segment::{freed_line, run_length};

use crate::checked_arena::CheckedArena;
use crate::common::Core;
use crate::durable::feed::Feed;
use crate::durable::gate::DiskGate;
use crate::durable::options::{Durability, Durable};
use crate::durable::scrub::{Scrub, Scrubbing};
use crate::durable::settle::{KeptDisk, Unsettled};
use crate::leader_term::LeaderTerm;
use crate::options::StartError;
use crate::threads::spawn;

/// Versions that a note allows beyond those that are drawn.
const CEILING: u64 = 1 << 20;
/// Batches in a window.
const BATCHES: u32 = 4;
/// The longest time between two batches in `async` mode.
const EVERY_MAX: Duration = Duration::from_millis(25);
/// The time between two notes in `sync` mode: they bound what a restart looks at, and when segments are free.
const NOTE_EVERY: Nanos = Nanos::from_millis(20);
/// How long it looks for more before it sleeps in `sync` mode, at most.
const SPIN: Nanos = Nanos::from_micros(50);
/// The longest sleep in `sync` mode.
const IDLE: Duration = Duration::from_millis(100);

type DiskWriter = Scribe<Box<dyn Medium>>;

/// A disk that is ready for a term, and the gate of its streams.
pub(crate) struct Begun {
    scribe: DiskWriter,
    scrubbing: Scrubbing,
    pub gate: Arc<DiskGate>,
}

/// Gives the file all that a term begins with. `core` is over the start set, and nobody serves from it yet.
/// If the group has other replicas, their disks report at a desk that sleeps on the channel.
pub(crate) fn begin(
    mut kept: KeptDisk,
    durable: &Durable,
    term: Term,
    core: &Core,
    group: Group,
    desk: Option<Channel>,
) -> Result<Begun, DiskError> {
    let (durability, first) = (durable.durability, moment(core, 0));
    let (stable, ceiling, streams) = (first.stable, first.ceiling, first.written.len());
    match kept.settle(&arena_of(core), term, vec![0; streams], true, &|| false) {
        Ok(()) => {}
        Err(Unsettled::Failed(error)) => return Err(error),
        Err(Unsettled::Stopped | Unsettled::Ahead) => unreachable!("nobody stops it, and it may mix"),
    }
    let gate = Arc::new(DiskGate::new(durability, kept.disk.medium().persistence(), group, streams, desk));
    let scribe = Scribe::begin(kept.disk, term, durability == Durability::Sync, first)?;
    // Nothing of the term is written yet.
    gate.look(now(), stable);
    gate.cover(group.me(), stable, ceiling);
    Ok(Begun { scribe, scrubbing: durable.scrubbing, gate })
}

fn arena_of(core: &Core) -> CheckedArena<Mapped> {
    let store = &core.engine.store;
    CheckedArena { memory: store.memory().clone(), sums: store.sums().clone() }
}

/// A moment of the leader, and a look at how many versions are drawn.
pub(super) fn look_at(core: &Core, gate: &DiskGate, reclaimed: u64) -> Mark {
    // What was acknowledged by now was drawn by then.
    let at = now();
    gate.look(at, core.engine.csn());
    moment(core, reclaimed)
}

/// A moment of the leader; the stable point first.
fn moment(core: &Core, reclaimed: u64) -> Mark {
    let stable = core.engine.stable_point();
    Mark {
        stable,
        ceiling: Csn(core.engine.csn().0 + CEILING),
        unix: core.timestamps().unix.0,
        items: core.engine.index.items(),
        reclaimed,
        written: core.engine.progress().iter().map(|stream| stream.written()).collect(),
    }
}

/// The thread of a term's scribe.
pub(crate) struct ScribeHandle {
    gate: Arc<DiskGate>,
    thread: Option<Thread>,
    disk: Arc<Mutex<Option<KeptDisk>>>,
}

impl ScribeHandle {
    /// Starts the scribe of a term that this replica leads.
    pub fn start<Q: Send + 'static>(
        begun: Begun,
        leader: Arc<LeaderTerm<Q>>,
        me: ReplicaId,
    ) -> Result<ScribeHandle, StartError> {
        let Begun { scribe, scrubbing, gate } = begun;
        let engine = &leader.core.engine;
        let arena = arena_of(&leader.core);
        let progress = leader.core.lent.progress.as_ref().expect("a leader's streams say how far they are");
        let (streams, segments) = (engine.progress().len(), scribe.disk().shape().segments);
        let feed = Feed::new(arena.clone(), progress.memory().clone(), streams, segments);
        let disk = Arc::<Mutex<Option<KeptDisk>>>::default();
        let (kept, shared) = (disk.clone(), gate.clone());
        let writing = Writing {
            leader,
            me,
            arena,
            gate: shared,
            scribe,
            feed,
            seen: Mark::default(),
            reclaimed: 0,
            freeing: BTreeSet::new(),
            noted: now(),
            spin: AdaptiveSpin::new(SPIN),
            scrub: Scrub::new(scrubbing),
        };
        let thread = Some(spawn("longarm-scribe", move || *kept.lock() = writing.run())?);
        Ok(ScribeHandle { gate, thread, disk })
    }

    /// Has it write all that there is, and end: nothing is written to the arena any more. Returns the file,
    /// unless the disk failed.
    pub fn end(&mut self) -> Option<KeptDisk> {
        self.gate.news.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.disk.lock().take()
    }
}

/// The scribe's state.
struct Writing<Q> {
    leader: Arc<LeaderTerm<Q>>,
    me: ReplicaId,
    arena: CheckedArena<Mapped>,
    gate: Arc<DiskGate>,
    scribe: DiskWriter,
    feed: Feed,
    /// The last mark.
    seen: Mark,
    /// Of how many freed segments the file has the lines, and which of these nobody was told of yet.
    reclaimed: u64,
    freeing: BTreeSet<u32>,
    /// When a note was last written.
    noted: Nanos,
    spin: AdaptiveSpin,
    scrub: Scrub,
}

impl<Q> Writing<Q> {
    fn run(mut self) -> Option<KeptDisk> {
        loop {
            let stopped = self.gate.news.is_stopped();
            let outcome = if stopped { self.end() } else { self.round().and_then(|()| self.scrub()) };
            if let Err(error) = outcome {
                let core = &self.leader.core;
                core.log(&format!("{error}. No write is taken any more; what is in memory can be read"));
                self.gate.fail(error.to_string());
                return None;
            }
            if stopped {
                let (note, floors) = (self.scribe.noted().clone(), self.scribe.floors().to_vec());
                let (disk, term, note) = (self.scribe.into_disk(), note.term, Some(note));
                return Some(KeptDisk { disk, note, term, floors, same: false, lacks_all: false });
            }
            self.rest();
        }
    }

    /// Takes what is new, and has it written.
    fn round(&mut self) -> Result<(), DiskError> {
        self.look();
        let (freeing, told) = self.asked();
        let is_sync = self.gate.durability() == Durability::Sync;
        let with_note = !is_sync || now().since(self.noted) >= NOTE_EVERY || self.awaits_release();
        if !self.scribe.is_settled() && (self.scribe.has_named() || with_note) {
            self.batch(with_note)?;
        }
        let noted = self.scribe.noted();
        self.gate.cover(self.me, noted.stable, noted.ceiling);
        if !freeing.is_empty() {
            // The freed lines are in the file now.
            self.reclaimed = told;
            self.freeing.extend(freeing);
        }
        // A replica that knows of fewer freed segments than another may not lead, so a note has the count
        // first, where there are others.
        let is_noted = self.scribe.noted().reclaimed >= self.reclaimed;
        if !self.freeing.is_empty() && (is_noted || self.gate.desk().is_none()) {
            let freed: Vec<u32> = std::mem::take(&mut self.freeing).into_iter().collect();
            self.leader.releases.lock().let_go(self.me, &freed);
            self.leader.core.engine.relief.poke();
        }
        Ok(())
    }

    /// Marks the moment if anything happened since the last one, and names what was written.
    fn look(&mut self) {
        let mark = look_at(&self.leader.core, &self.gate, self.reclaimed);
        if (mark.stable, mark.reclaimed, &mark.written)
            != (self.seen.stable, self.seen.reclaimed, &self.seen.written)
        {
            self.seen = mark.clone();
            self.scribe.mark(mark);
        }
        for (stream, &written) in self.seen.written.iter().enumerate() {
            self.feed.take(stream, written, &mut self.scribe);
        }
        self.gate.set_taken(self.me, self.feed.taken());
    }

    fn batch(&mut self, with_note: bool) -> Result<(), DiskError> {
        let (begun, before) = (now(), self.scribe.floors().to_vec());
        let bytes = self.scribe.batch(with_note, copy_of(&self.arena))?;
        self.gate.count(bytes.unwrap_or(0), now().since(begun));
        if with_note {
            self.noted = begun;
        }
        self.gate.set_floors(self.scribe.floors());
        if self.gate.durability() == Durability::Sync {
            let floors = self.scribe.floors().iter().zip(&before);
            let moved = self.leader.streams.iter().zip(floors).filter(|(_, (floor, before))| floor > before);
            moved.for_each(|(stream, _)| stream.waker.wake());
        }
        Ok(())
    }

    /// Names the lines of segments that the disk may let go of. Which ones, and of how many it was told then.
    fn asked(&mut self) -> (Vec<u32>, u64) {
        let noted = self.scribe.noted();
        let mut asked = self.leader.releases.lock().asked(self.me, |written, csn| noted.covers(written, csn));
        asked.segments.retain(|segment| !self.freeing.contains(segment));
        let CheckedArena { memory, sums } = &self.arena;
        let stable = self.leader.core.engine.store.stable();
        for &segment in asked.segments.iter().filter(|_| !Mutant::LazyFree.is_on()) {
            for line in segment..segment + run_length(memory, segment) {
                self.scribe.name_line(line, &freed_line(memory, sums, line, stable));
            }
        }
        (asked.segments, asked.told)
    }

    /// Looks over a piece of the file.
    fn scrub(&mut self) -> Result<(), DiskError> {
        let (before, log) = (self.scrub.done(), &self.leader.core.options.log);
        self.scrub.step(&self.arena, &mut self.scribe, &|| false, log)?;
        if self.scrub.done() != before {
            self.gate.set_scrubbed(self.scrub.done());
        }
        Ok(())
    }

    /// Whether a segment waits for this disk.
    fn awaits_release(&self) -> bool {
        !self.leader.releases.lock().is_done(self.me)
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) {
        let every = match self.gate.durability() {
            Durability::Async { window } => (window / BATCHES).min(EVERY_MAX),
            Durability::Sync if self.scribe.is_settled() => IDLE,
            Durability::Sync => Duration::from_nanos(NOTE_EVERY.0),
        };
        let progress = self.leader.core.engine.progress();
        if self.gate.durability() == Durability::Sync {
            // Whoever had an answer mostly asks again soon.
            let wanted = || self.gate.is_wanted(|stream| progress[stream].written());
            if self.spin.look(now(), Nanos(0), true, wanted) {
                return;
            }
        }
        if self.gate.may_sleep(|stream| progress[stream].written()) {
            self.gate.news.sleep_unless_poked(self.scrub.rest(every));
            self.gate.awake();
        }
    }

    /// Writes all that there is, and a note that the leader ended in order.
    fn end(&mut self) -> Result<(), DiskError> {
        self.look();
        // Nobody draws a version any more.
        let last = moment(&self.leader.core, self.reclaimed);
        self.scribe.mark(Mark { ceiling: self.leader.core.engine.csn(), ..last });
        self.scribe.end(copy_of(&self.arena))
    }
}

/// Copies bytes of the leader's own arena, which stay what they are as long as the leader leads.
fn copy_of(arena: &CheckedArena<Mapped>) -> impl FnMut(u64, &mut [u8]) -> bool {
    |at, into| {
        arena.memory.copy_out(at, into);
        true
    }
}
