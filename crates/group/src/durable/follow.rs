//! The scribe of a follower: the thread that keeps the follower's disk behind its memory, in the term of one
//! leader.
//!
//! (1) The leader tells it in marks how far the streams are, and which segments it is to free. It READs from
//!     the leader's words where the entries are, and writes what has landed here; nothing that has not.
//! (2) First it gives the file the start set of the term (`settle.rs`). The note of the term follows the
//!     first mark that the file covers. The replica says that it is in sync only then: from that moment the
//!     leader counts, in `sync` mode, what the disk has, and in `async` mode what the memory has.
//! (3) It replies which mark is in the file, and which mark a note covers: the first lets writes be
//!     acknowledged, the second lets segments be used again (D5).
//! (4) When the replica promises another term, or is made ready for a leader, it stops. What it has copied by
//!     then was of this term; nothing that it copies later is written (D4).
//! (5) What it cannot find any more, since it was too far behind, it finds by settling anew.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use longarm_base::{Mutant, Nanos, Term};
use longarm_disk::{DiskError, Mark, Medium, Scribe, covers};
use longarm_fabric::{Channel, QueuePair, SetupError};
use longarm_host::{Thread, now, sleep};
use longarm_memory::{Mapped, Words};
use longarm_replica::page;
use longarm_store::SegmentUse;
use longarm_store::progress::{Feed, Gap, LANDING_TIME, Next};
use longarm_store::segment::layout::segment_of;
use longarm_store::segment::{ArenaGeometry, replica_line};
use longarm_wire::{DiskMark, DiskReply};

use crate::OWN_HEADER;
use crate::checked_arena::CheckedArena;
use crate::durable::options::Durability;
use crate::durable::scrub::{Scrub, Scrubbing};
use crate::durable::settle::{KeptDisk, Unsettled, room_bytes};
use crate::durable::slot::DiskSlot;
use crate::log::Log;
use crate::options::StartError;
use crate::peer_channel::{LANDING, PeerChannel, PeerError};
use crate::threads::spawn;

/// The time between two notes in `sync` mode: they bound what a restart looks at, and when segments are free.
const NOTE_EVERY: Nanos = Nanos::from_millis(20);
/// In `async` mode, how long a mark that is in the file waits for the note that covers it, at most: a little
/// longer than until the next mark, of which the batch takes the note along.
const NOTE_WAITS: Nanos = Nanos::from_millis(30);
/// The time between two words that the file is still being given the start set.
const GOES_ON: Nanos = Nanos::from_millis(10);
/// The longest sleep.
const IDLE: Duration = Duration::from_millis(100);
/// How long it waits for what is on its way, or before the first note of a term, before it looks again.
const SOON: Duration = Duration::from_micros(50);
/// How long an entry may be on its way before the connection counts as lost, and how long a READ may take.
const PATIENCE: Nanos = Nanos::from_millis(5_000);
/// The shortest and longest time between two tries to connect.
const RETRY_MIN: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(200);
/// After so long a disk that does not follow is said to be so, and then now and then.
const TELL: Nanos = Nanos::from_millis(5_000);
const TELL_AGAIN: Nanos = Nanos::from_millis(60_000);

/// How long a mark may wait for its note.
fn note_waits(durability: Durability) -> Nanos {
    match durability {
        Durability::Async { window } => NOTE_WAITS.min(Nanos((window * 3 / 10).as_nanos() as u64)),
        Durability::Sync => NOTE_EVERY,
    }
}

/// Whether a file may become a mixture, by the first mark of a term. A file that is none may be one of a
/// majority, of which the leader lets a minority become mixtures at a time. If it is of this term, its notes
/// may have let writes be taken. As a mixture it counts for less than any other of its term (D6). So what it
/// has is in the leader's file first: else a loss of power could find what was taken long ago on mixtures
/// alone.
fn may_mix(kept: &KeptDisk, term: Term, first: &DiskMark) -> bool {
    let Some(note) = kept.note.as_ref().filter(|note| !note.mixed) else { return true };
    let counts = note.term == term && !note.sync && !Mutant::MixAhead.is_on();
    first.mixes && (!counts || note.stable <= first.noted)
}

/// Makes a connection to the leader's desk.
pub(crate) type DeskConnector<Q> = Box<dyn FnMut() -> Result<PeerChannel<Q>, SetupError> + Send>;

/// What the scribe of a follower is made of.
pub(crate) struct FollowSeed<Q> {
    pub term: Term,
    /// What an acknowledged write outlives.
    pub durability: Durability,
    pub scrubbing: Scrubbing,
    pub arena: CheckedArena<Mapped>,
    pub page: Mapped,
    pub slot: Arc<DiskSlot>,
    /// How often the memory had been made ready for a leader, this one the last time.
    pub prepared: u64,
    pub connect: DeskConnector<Q>,
    /// Woken when the file has the start set of the term.
    pub replica: Channel,
    pub log: Log,
}

/// The thread of a follower's scribe.
pub(crate) struct FollowHandle {
    stop: Arc<AtomicBool>,
    channel: Channel,
    thread: Option<Thread>,
}

impl FollowHandle {
    /// Starts the scribe of a term that this replica follows.
    pub fn start<Q: QueuePair + Send + 'static>(seed: FollowSeed<Q>) -> Result<FollowHandle, StartError> {
        let stop = Arc::<AtomicBool>::default();
        let channel = Channel::new().map_err(|e| StartError::Os("make an event counter", e))?;
        let (refused, tell_at) = (String::new(), Nanos(0));
        let scribe = FollowScribe { seed, stop: stop.clone(), channel: channel.clone(), refused, tell_at };
        let thread = Some(spawn("longarm-scribe", move || scribe.run())?);
        Ok(FollowHandle { stop, channel, thread })
    }

    /// Has it end: from now on nothing that it copies from the memory is written. It gives the file back
    /// soon.
    pub fn stop(&self) {
        // Relaxed: ordered by the fence.
        self.stop.store(true, Ordering::Relaxed);
        // SeqCst: what it copied before it saw this was not yet changed; pairs with `is_stopped`.
        fence(Ordering::SeqCst);
        self.channel.notify();
    }
}

impl Drop for FollowHandle {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Why it does not go on as it did.
enum Trouble {
    /// The memory is about to change.
    Stopped,
    /// The leader cannot be heard, or is too far ahead.
    Away,
    /// The file has more of the term than the leader's.
    Ahead,
    /// The disk failed.
    Failed(DiskError),
}

impl From<PeerError> for Trouble {
    fn from(_: PeerError) -> Trouble {
        Trouble::Away
    }
}

impl From<Gap> for Trouble {
    fn from(_: Gap) -> Trouble {
        Trouble::Away
    }
}

impl From<DiskError> for Trouble {
    fn from(error: DiskError) -> Trouble {
        Trouble::Failed(error)
    }
}

impl From<Unsettled> for Trouble {
    fn from(why: Unsettled) -> Trouble {
        match why {
            Unsettled::Stopped => Trouble::Stopped,
            Unsettled::Ahead => Trouble::Ahead,
            Unsettled::Failed(error) => Trouble::Failed(error),
        }
    }
}

/// The scribe of a follower.
struct FollowScribe<Q> {
    seed: FollowSeed<Q>,
    stop: Arc<AtomicBool>,
    /// Where it sleeps.
    channel: Channel,
    /// Why the leader's desk last did not let it in.
    refused: String,
    /// When it says that the disk does not follow, if it does not by then.
    tell_at: Nanos,
}

impl<Q: QueuePair> FollowScribe<Q> {
    fn run(mut self) {
        let mut retry = RETRY_MIN;
        self.tell_at = now() + TELL;
        while !self.is_stopped() {
            let begun = now();
            match self.attend() {
                Err(Trouble::Stopped) => return,
                Err(Trouble::Failed(error)) => {
                    self.seed.log.say(&format!("{error}. This replica keeps nothing on its disk any more"));
                    self.seed.slot.fail();
                }
                Err(Trouble::Ahead) => {
                    self.refused = "its file stays what it is until the leader's has as much, and fewer \
                                    files of others are being replaced"
                        .into();
                }
                Ok(()) | Err(Trouble::Away) => {}
            }
            let waits = !self.seed.slot.follows(self.seed.term) && !self.seed.slot.has_failed();
            if waits && now() >= self.tell_at {
                self.tell_at = now() + TELL_AGAIN;
                self.seed.log.say(&format!(
                    "its disk has not followed the leader of term {} so far, and this replica counts only \
                     once it does: {}",
                    self.seed.term, self.refused
                ));
            }
            retry = if now().since(begun) > Nanos::from_millis(1_000) { RETRY_MIN } else { retry };
            self.channel.wait(retry);
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    fn is_stopped(&self) -> bool {
        // SeqCst: pairs with `FollowHandle::stop`.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        self.stop.load(Ordering::Relaxed)
    }

    fn connect(&mut self) -> Result<PeerChannel<Q>, Trouble> {
        let desk = (self.seed.connect)();
        self.refused = match &desk {
            Ok(_) => "it is not done yet".into(),
            Err(error) => {
                format!("{error}. The cluster's file must name the same `durability` on all nodes")
            }
        };
        desk.map_err(|_| Trouble::Away)
    }

    /// Follows the leader's marks over one connection.
    fn attend(&mut self) -> Result<(), Trouble> {
        let mut desk = self.connect()?;
        desk.sleep_on(&self.channel)?;
        let first = self.first_mark(&mut desk)?;
        let floors = self.landed_floors(first.written.len())?;
        let kept = self.seed.slot.take(now() + PATIENCE, || !self.is_stopped());
        let Some(mut kept) = kept else { return self.say_lost(&mut desk) };
        let segments = kept.disk.shape().segments as usize;
        // Looked at before the lines: they say that so many segments are free.
        let told = self.seed.page.load(page::RECLAIMED);
        if let Err(trouble) = self.settle(&mut kept, floors.clone(), &first, &mut desk) {
            // A disk that failed is of no use to anybody.
            if !matches!(trouble, Trouble::Failed(_)) {
                self.seed.slot.put(kept);
            }
            return Err(trouble);
        }
        let KeptDisk { disk, note, .. } = kept;
        let sync = self.seed.durability == Durability::Sync;
        let scribe = Scribe::go_on(disk, self.seed.term, sync, floors.clone());
        let mut writing = Writing {
            term: self.seed.term,
            arena: &self.seed.arena,
            stopped: &|| self.is_stopped(),
            durability: self.seed.durability,
            scrub: Scrub::new(self.seed.scrubbing),
            log: &self.seed.log,
            desk,
            scribe,
            uses: vec![None; segments],
            bytes: Vec::new(),
            feed: Feed::new(&floors),
            mark: DiskMark { told, ..DiskMark::default() },
            marks: VecDeque::new(),
            said: DiskReply::default(),
            noted: now(),
            missing: None,
        };
        writing.hear(first);
        let trouble = loop {
            if let Err(trouble) = writing.round() {
                break trouble;
            }
            if writing.is_noted() && !self.seed.slot.follows(self.seed.term) {
                self.seed.slot.set_settled(self.seed.term, self.seed.prepared);
                self.seed.replica.notify();
            }
            if self.is_stopped() {
                break Trouble::Stopped;
            }
            writing.rest(&self.channel);
        };
        let noted = writing.is_noted().then(|| writing.scribe.noted().clone());
        let (term, floors) = (self.seed.term, writing.scribe.floors().to_vec());
        let Writing { scribe, mut desk, .. } = writing;
        if noted.is_some() {
            // It followed until now.
            self.tell_at = now() + TELL;
        }
        if matches!(trouble, Trouble::Failed(_)) {
            let _ = desk.say(&DiskReply { failed: true, ..DiskReply::default() }.encode());
        } else {
            let note = noted.or(note);
            let disk = scribe.into_disk();
            self.seed.slot.put(KeptDisk { disk, note, term, floors, same: false, lacks_all: false });
        }
        Err(trouble)
    }

    /// Says that the file is lost, if it is.
    fn say_lost(&self, desk: &mut PeerChannel<Q>) -> Result<(), Trouble> {
        if self.seed.slot.has_failed() {
            desk.say(&DiskReply { failed: true, ..DiskReply::default() }.encode())?;
            // The leader hears of it before the connection ends.
            while !self.is_stopped() && desk.take(DiskMark::decode).is_ok() {
                self.channel.wait(IDLE);
            }
        }
        Err(Trouble::Away)
    }

    fn first_mark(&self, desk: &mut PeerChannel<Q>) -> Result<DiskMark, Trouble> {
        let until = now() + PATIENCE;
        loop {
            if self.is_stopped() {
                return Err(Trouble::Stopped);
            }
            if let Some(first) = desk.take(DiskMark::decode)?.pop() {
                return Ok(first);
            }
            if now() >= until {
                return Err(Trouble::Away);
            }
            if desk.may_sleep() {
                self.channel.wait(Duration::from_millis(1));
            }
        }
    }

    /// By stream: all positions below are in the memory. What the page says was acknowledged: the NIC has it,
    /// and this processor perhaps sees it a little later (L6). In a term that has written nothing yet nobody
    /// waits.
    fn landed_floors(&self, streams: usize) -> Result<Vec<u64>, Trouble> {
        let floors: Vec<u64> = (0..streams).map(|at| self.seed.page.load(page::floor_at(at))).collect();
        let until = now() + LANDING_TIME;
        while now() < until && floors.iter().any(|floor| *floor > 0) {
            if self.is_stopped() {
                return Err(Trouble::Stopped);
            }
            sleep(Duration::from_millis(1));
        }
        Ok(floors)
    }

    /// Gives the file the start set of the term, and the term's streams below these floors. It may become a
    /// mixture for that if it may by the first mark. It may be much, and a leader that forms is told now and
    /// then that it goes on.
    fn settle(
        &self,
        kept: &mut KeptDisk,
        floors: Vec<u64>,
        first: &DiskMark,
        desk: &mut PeerChannel<Q>,
    ) -> Result<(), Trouble> {
        let may_mix = may_mix(kept, self.seed.term, first);
        if self.seed.slot.is_to_mix() && !may_mix {
            return Err(Trouble::Ahead);
        }
        self.seed.slot.tell(kept)?;
        let (desk, told) = (RefCell::new(desk), Cell::new(now()));
        let stopped = || {
            if now().since(told.get()) >= GOES_ON {
                told.set(now());
                // A connection that broke is found to be so later.
                let _ = desk.borrow_mut().say(&DiskReply::default().encode());
            }
            self.is_stopped()
        };
        Ok(kept.settle(&self.seed.arena, self.seed.term, floors, may_mix, &stopped)?)
    }
}

/// The file while it is written.
struct Writing<'a, Q> {
    term: Term,
    arena: &'a CheckedArena<Mapped>,
    stopped: &'a dyn Fn() -> bool,
    durability: Durability,
    scrub: Scrub,
    log: &'a Log,
    desk: PeerChannel<Q>,
    scribe: Scribe<Box<dyn Medium>>,
    /// By segment: the use whose line was named.
    uses: Vec<Option<SegmentUse>>,
    /// The last entry that was looked at.
    bytes: Vec<u8>,
    feed: Feed,
    /// The last mark.
    mark: DiskMark,
    /// Marks that no note covers yet.
    marks: VecDeque<DiskMark>,
    said: DiskReply,
    /// When a note was last written.
    noted: Nanos,
    /// Since when an entry that comes next is not here.
    missing: Option<Nanos>,
}

impl<Q: QueuePair> Writing<'_, Q> {
    /// Whether a note says that the file is of this term.
    fn is_noted(&self) -> bool {
        self.scribe.noted().term == self.term
    }

    fn hear(&mut self, mark: DiskMark) {
        let CheckedArena { memory, sums } = self.arena;
        for &segment in &mark.freed {
            // The leader waited until the freed line was here.
            if let Some(line) = replica_line(memory, sums, segment) {
                self.scribe.name_line(segment, &line);
            }
        }
        let &DiskMark { stable, ceiling, unix, items, told, ref written, .. } = &mark;
        let reclaimed = told.max(self.mark.told);
        let written = written.clone();
        self.scribe.mark(Mark { stable, ceiling, unix, items, reclaimed, written });
        self.marks.push_back(DiskMark { freed: Vec::new(), ..mark.clone() });
        self.mark = DiskMark { told: reclaimed, freed: Vec::new(), ..mark };
    }

    /// Takes what is new, has it written, and says so.
    fn round(&mut self) -> Result<(), Trouble> {
        let marks = self.desk.take(DiskMark::decode)?;
        marks.into_iter().for_each(|mark| self.hear(mark));
        self.take()?;
        // In `async` mode marks come seldom, and each batch takes along the note of the one before.
        let due = match self.durability {
            Durability::Async { .. } => true,
            Durability::Sync => now().since(self.noted) >= NOTE_EVERY,
        };
        let due = due || self.mark.hurry || !self.is_noted();
        if self.scribe.has_named() || (due && !self.scribe.is_settled()) {
            let (memory, stopped) = (&self.arena.memory, self.stopped);
            let copied = |at, into: &mut [u8]| {
                memory.copy_out(at, into);
                // Looked at after the bytes were copied: they are of this term.
                !stopped()
            };
            let begun = now();
            if self.scribe.batch(due, copied)?.is_none() {
                return Err(Trouble::Stopped);
            }
            if due {
                self.noted = begun;
            }
        }
        self.reply()?;
        self.scrub()
    }

    /// Looks over a piece of the file, once all of the term is there.
    fn scrub(&mut self) -> Result<(), Trouble> {
        if !self.is_noted() {
            return Ok(());
        }
        Ok(self.scrub.step(self.arena, &mut self.scribe, self.stopped, self.log)?)
    }

    /// Names the entries that came since, as far as they are here.
    fn take(&mut self) -> Result<(), Trouble> {
        let written = || self.mark.written.iter().copied();
        while let Some(range) = self.feed.wants(written(), u64::from(LANDING) / 8)? {
            let bytes = self.desk.read(range.place(), now() + PATIENCE)?;
            self.feed.learn(range, bytes)?;
        }
        let mut missing = false;
        for stream in 0..self.feed.streams() {
            while let Some(Next { position, offset }) = self.feed.ahead(stream, 0) {
                let Some(len) = self.landed(stream, position, offset) else {
                    missing = true;
                    break;
                };
                self.scribe.name_entry(stream, offset, len);
                self.feed.take(stream);
            }
        }
        let since = self.missing.take().filter(|_| missing).unwrap_or_else(now);
        self.missing = missing.then_some(since);
        if missing && now().since(since) >= PATIENCE { Err(Trouble::Away) } else { Ok(()) }
    }

    /// The bytes of the entry at a position of a stream, and of what else is in its room, if it is here. The
    /// line of its segment is named before it.
    fn landed(&mut self, stream: usize, position: u64, offset: u64) -> Option<u64> {
        let view = self.arena.view();
        let segment = segment_of(offset);
        let known = self.uses.get(segment as usize)?.filter(|known| known.stands(view.memory));
        let it = match known {
            Some(it) => it,
            None => {
                let geometry = ArenaGeometry::read(view.memory, view.sums).expect(OWN_HEADER);
                let it = SegmentUse::read(view, geometry, segment)?;
                for line in segment..segment + it.line.run {
                    let bytes = replica_line(view.memory, view.sums, line)?;
                    self.scribe.name_line(line, &bytes);
                }
                self.uses[segment as usize] = Some(it);
                it
            }
        };
        if it.line.term != self.term || usize::from(it.line.stream) != stream {
            return None;
        }
        let (place, entry) = it.entry(view, offset, &mut self.bytes)?;
        (entry.position == position).then_some(room_bytes(&it, place.len))
    }

    /// Says what is kept, if that is more than was said.
    fn reply(&mut self) -> Result<(), Trouble> {
        let (floors, noted) = (self.scribe.floors(), self.scribe.noted());
        let in_file = |mark: &&DiskMark| covers(floors, &mark.written);
        let is_noted = |mark: &&DiskMark| {
            noted.covers(&mark.written, mark.stable) && noted.reclaimed >= mark.told && self.is_noted()
        };
        let last = |marks: Option<&DiskMark>| marks.map_or(0, |mark| mark.number);
        let mut reply = self.said;
        // Freed segments are named before anything of their mark is in the file.
        if self.is_noted() && !self.scribe.has_named() {
            reply.kept = reply.kept.max(last(self.marks.iter().take_while(in_file).last()));
        }
        reply.noted = reply.noted.max(last(self.marks.iter().take_while(is_noted).last()));
        while self.marks.front().is_some_and(|mark| mark.number <= reply.noted.min(reply.kept)) {
            self.marks.pop_front();
        }
        if reply != self.said {
            self.desk.say(&reply.encode())?;
            self.said = reply;
        }
        Ok(())
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self, channel: &Channel) {
        let due = !self.scribe.is_settled();
        // The replica is not in sync before the first note.
        if self.missing.is_some() || due && !self.is_noted() {
            return sleep(SOON);
        }
        let limit = if due { Duration::from_nanos(note_waits(self.durability).0) } else { IDLE };
        if self.desk.may_sleep() {
            channel.wait(self.scrub.rest(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::{Csn, ReplicaId};
    use longarm_disk::layout::file_bytes;
    use longarm_disk::{ArenaDisk, Note, SectorMedium, Shape};

    use super::*;

    #[test]
    fn a_file_of_the_term_becomes_a_mixture_only_when_the_leaders_has_as_much() {
        let terms = [3, 4].map(|counter| Term::new(counter, ReplicaId(0)));
        let may_by = |mixes, term, mixed, sync, noted| {
            let medium = SectorMedium::new(file_bytes(2, 1));
            let disk = ArenaDisk::create(medium, Shape { group: 1, segments: 2, table: 1 }, 1);
            let note = Note { term, mixed, sync, stable: Csn(7), ..Note::default() };
            let (disk, note) = (disk.expect("made").boxed(), Some(note));
            let kept = KeptDisk { disk, note, term, floors: vec![], same: false, lacks_all: false };
            may_mix(&kept, terms[1], &DiskMark { mixes, noted: Csn(noted), ..DiskMark::default() })
        };
        let may = |term, mixed, sync, noted| may_by(true, term, mixed, sync, noted);
        let [older, this] = terms;
        assert!(!may(this, false, false, 6), "the leader's file has less");
        assert!(may(this, false, false, 7) && may(this, false, false, u64::MAX));
        assert!(may(this, true, false, 0), "it is one already");
        assert!(may(this, false, true, 0), "what was acknowledged is on the disks of a majority");
        assert!(may(older, false, false, 0), "the leader's file has the start set of a later term");
        let [whole, mixed] = [false, true].map(|mixed| may_by(false, older, mixed, false, u64::MAX));
        assert!(!whole && mixed, "the files of others just become mixtures");
    }
}
