//! The store: the segments of one arena, shared by the workers.
//!
//! Each worker's [`Writer`](crate::Writer) writes its own segments; any worker writes the superseded bit,
//! under the lock of the key; the thread that claims, seals or frees a segment writes its line. Any party
//! reads, at any moment (`object/reader.rs`).
//!
//! The order that callers keep, and why one-sided readers are then never wrong:
//! (1) *Whole before named*: the index learns a place from `Writer::finish`, after the entry's last store.
//! (2) *Superseded before replaced*: a worker that replaces an entry, under the lock of its key, sets the old
//!     entry's superseded bit BEFORE it switches the slot, and answers after both. Suppose that a client
//!     reads a cached place and finds csn and checksum right and the bit clear. Then it sampled the mark
//!     before that store, hence before the switch, when the slot still named this entry: it has the current
//!     value of a moment within its READ. A client that sees the bit set looks at the index again, and loses
//!     time only.
//! (3) *Moves change no value*: the copy has the csn of the original, so the order of bit and switch does not
//!     matter. But the switch compares the exact old slot, place and csn (L12), and a copy that lost is
//!     superseded at once.
//! (4) *Dead before freed*: a segment dies when its last entry is superseded and no draft is left in it. Then
//!     no slot names it, and after the quarantine (longer than any READ that may be accepted; NoSQL landscape
//!     3.1) no client reads it (L14; LoLKV 3.1.3 has none). A replicated store also asks its followers, and
//!     frees only segments that they have released (M9).
//! (5) *Wiped before reused*: a claim voids every room that was ever written to, before the table names the
//!     new use. So no bytes of an earlier use, not even ones crafted by a client, ever verify as an entry of
//!     the new one (L4, L5). Memory that was never written to is zero, and wiping it would take memory.
//!     Followers wipe nothing; there, term and generation in line and entry keep the uses apart.
//! (6) *Claims are numbered*, and carry the stable point: a tombstone may go once its csn is below the
//!     watermark, the least claim csn of all segments in use (L3, L10, M9): see `tombstone_may_go`. So a
//!     segment that stays holds the tombstones of all younger deletes. If they take too much memory, segments
//!     are emptied in the order of their claims, however much of them is alive (`collect.rs`).

use std::sync::Arc;

use longarm_base::limits::{LINE, SEGMENT_BYTES, SEGMENTS_MAX};
use longarm_base::{Csn, EntryRef, Mutant, Nanos};
use longarm_memory::{Budget, OwnedWords, SumKey, Words};

use crate::object::{self, Entry, EntryError, Stored};
use crate::segment::layout::{line_at, segment_at, segment_of, table_segments};
use crate::segment::{
    ArenaGeometry, ArenaReport, Claim, ClaimKind, Claimed, Ledger, Line, Need, Phase, SegmentState, Tally,
    verify, write_header, write_line,
};
use crate::settled::Rooms;
use crate::stream::StreamState;
use crate::sync::{Counter, Mutex};
use crate::written::written;
use crate::{CreateStoreError, StoreFull, StoreOptions};

/// The segment table is charged in pages: only the used part takes memory.
const PAGE: u64 = 4096;

/// The part of a quarantine for which the last segment of the reserve is kept after an arena was adopted:
/// longer than followers need to release the segments that are dead by then.
const GUARDED: u64 = 4;

/// The entry and segment store of one arena. The head of `store.rs` states the order that its callers keep.
pub struct Store<M> {
    pub(crate) memory: M,
    pub(crate) sums: SumKey,
    pub(crate) options: StoreOptions,
    pub(crate) segments: u32,
    pub(crate) table: u32,
    pub(crate) tallies: Box<[Tally]>,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) adopted: Box<[u32]>,
    /// The rooms of each adopted segment that are not replayed; empty if there are none.
    pub(crate) presumed: Box<[Option<Rooms>]>,
    pub(crate) streams: Mutex<Vec<Option<StreamState>>>,
    stable: Counter,
    /// Writers seal the segments that they opened by then: they hold the watermark down.
    seal_before: Counter,
    /// How often writers were asked to seal open segments that hold little.
    seal_little: Counter,
    pub(crate) budget: Arc<Budget>,
}

/// The contents of the store, counted at one moment per segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreCounters {
    /// Entries that are not superseded.
    pub entries: u64,
    /// Their bytes, in whole cache lines.
    pub live_bytes: u64,
    /// Bytes of all segments in use.
    pub used_bytes: u64,
    /// Drafts in the making.
    pub drafts: u64,
    /// Segments that may hold entries.
    pub segments: u32,
    /// Free segments, the reserve included.
    pub free: u32,
    /// Segments that a stream adds entries to.
    pub active: u32,
    /// Full segments, and those of runs.
    pub sealed: u32,
    /// Dead segments that wait.
    pub quarantined: u32,
    /// Free segments that only collection may take.
    pub reserve: u32,
}

/// Lays out an empty arena in fresh (zeroed) memory, as [`Store::create`] does, for a follower: it has no
/// store, and a leader WRITEs into its arena.
pub fn format<M: OwnedWords>(memory: &M, sums: &SumKey) -> Result<(), CreateStoreError> {
    let options = StoreOptions { reserve: 0, ..StoreOptions::default() };
    let ArenaGeometry { segments, table } = check_shape(memory.bytes(), &options)?;
    if is_used(memory) {
        return Err(CreateStoreError::NotEmpty);
    }
    write_header(memory, sums, segments, table);
    Ok(())
}

/// The shape of an arena of so many bytes, if these options allow it.
pub(crate) fn check_shape(bytes: u64, options: &StoreOptions) -> Result<ArenaGeometry, CreateStoreError> {
    let segments = bytes / SEGMENT_BYTES;
    let table = table_segments(segments);
    let least = table.max(1) + options.reserve as u64 + 1;
    if !bytes.is_multiple_of(SEGMENT_BYTES) || segments < least || segments > SEGMENTS_MAX {
        return Err(CreateStoreError::Size { bytes, least, most: SEGMENTS_MAX });
    }
    if options.streams == 0 {
        return Err(CreateStoreError::Streams);
    }
    Ok(ArenaGeometry { segments: segments as u32, table: table as u32 })
}

fn is_used(memory: &dyn Words) -> bool {
    (0..LINE).step_by(8).any(|at| memory.load(at) != 0)
}

impl<M: OwnedWords> Store<M> {
    /// Lays out an empty arena in fresh (zeroed) memory and takes the table and the reserve from the budget.
    pub fn create(
        memory: M,
        budget: Arc<Budget>,
        options: StoreOptions,
        sums: SumKey,
    ) -> Result<Store<M>, CreateStoreError> {
        let geometry = check_shape(memory.bytes(), &options)?;
        if is_used(&memory) {
            return Err(CreateStoreError::NotEmpty);
        }
        let wanted = Store::<M>::table_bytes(geometry.segments) + options.reserve as u64 * SEGMENT_BYTES;
        if !budget.take(wanted) {
            return Err(CreateStoreError::Budget { wanted, limit: budget.limit(), used: budget.used() });
        }
        write_header(&memory, &sums, geometry.segments, geometry.table);
        if options.persistent {
            memory.flush(0, LINE);
            memory.fence();
        }
        let ledger = Ledger::new(geometry.table, geometry.segments, options.reserve);
        Ok(Store::with_ledger(memory, budget, options, sums, geometry, ledger))
    }

    /// The bytes that the table of so many segments is charged.
    pub(crate) fn table_bytes(segments: u32) -> u64 {
        (segments as u64 * LINE).next_multiple_of(PAGE)
    }

    pub(crate) fn with_ledger(
        memory: M,
        budget: Arc<Budget>,
        options: StoreOptions,
        sums: SumKey,
        ArenaGeometry { segments, table }: ArenaGeometry,
        ledger: Ledger,
    ) -> Store<M> {
        let stream = |_| Some(StreamState::new(segments - table, options.streams));
        Store {
            memory,
            sums,
            options,
            segments,
            table,
            tallies: (0..segments).map(|_| Tally::default()).collect(),
            ledger: Mutex::new(ledger.keeping(options.records)),
            adopted: Box::default(),
            presumed: Box::default(),
            streams: Mutex::new((0..options.streams).map(stream).collect()),
            stable: Counter::default(),
            seal_before: Counter::default(),
            seal_little: Counter::default(),
            budget,
        }
    }

    pub(crate) fn return_stream(&self, stream: u16, state: StreamState) {
        self.streams.lock()[stream as usize] = Some(state);
    }

    /// The memory of the arena.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The key of the checksums.
    pub fn sums(&self) -> &SumKey {
        &self.sums
    }

    /// Reads and verifies the entry of version `csn` at `place` into `bytes`.
    pub fn read<'a>(
        &self,
        place: EntryRef,
        csn: Csn,
        bytes: &'a mut Vec<u8>,
    ) -> Result<Entry<'a>, EntryError> {
        let EntryRef { offset, len } = place;
        let end = self.segments as u64 * SEGMENT_BYTES;
        let fits = offset < end && len as u64 <= end - offset;
        if offset < segment_at(self.table) || !fits || !offset.is_multiple_of(LINE) {
            return Err(EntryError::Outside { offset, len });
        }
        bytes.resize(len as usize, 0);
        self.memory.copy_out(offset, bytes);
        let entry = object::read(bytes, offset, &self.sums)?;
        if entry.csn == csn { Ok(entry) } else { Err(EntryError::Other(entry.csn)) }
    }

    /// What this node's own entry of version `csn` at `place` says. No write has superseded the entry, so it
    /// is not verified again, and a value of more than `longest` bytes is not copied.
    ///
    /// # Panics
    /// If there is no such entry: a broken invariant of the caller.
    pub fn own<'a>(&self, place: EntryRef, csn: Csn, bytes: &'a mut Vec<u8>, longest: usize) -> Stored<'a> {
        object::own(&self.memory, place.offset, csn, bytes, longest)
    }

    /// Shows the whole entries of a segment, or of a run by its head, superseded or not, from the room at
    /// `from` on, until `visit` returns `false`. For segments to which no entry is being written.
    pub fn visit(&self, segment: u32, from: u64, visit: &mut dyn FnMut(EntryRef, &Entry<'_>) -> bool) {
        let line = self.ledger.lock().segments[segment as usize].line;
        let (room, rooms) = line.rooms();
        let mut bytes = Vec::new();
        let from = from.saturating_sub(segment_at(segment)).div_ceil(room);
        for i in written(&self.memory, segment, room, rooms, from) {
            let offset = segment_at(segment) + i * room;
            let entry = line.entry_in(&self.memory, &self.sums, offset, room, &mut bytes);
            if entry.is_some_and(|(place, entry)| !visit(place, &entry)) {
                return;
            }
        }
    }

    /// The number of entries of a segment that count, as the segment is accounted for.
    pub fn live(&self, segment: u32) -> u64 {
        self.tallies[segment as usize].load().entries
    }

    /// Marks the entry as replaced. Idempotent: the entry is accounted once, and only that caller gets
    /// `true`. The caller holds the lock of the key, and calls this before it lets the index name something
    /// else.
    pub fn supersede(&self, place: EntryRef, csn: Csn) -> bool {
        assert!(place.offset >= segment_at(self.table), "{place:?} lies in the segment table");
        let Some(units) = object::supersede(&self.memory, place, csn) else { return false };
        let segment = segment_of(place.offset);
        if self.tallies[segment as usize].superseded(units) {
            self.died(segment);
        }
        true
    }

    /// Sets the point up to which every csn is applied or aborted. Claims carry it.
    pub fn set_stable(&self, csn: Csn) {
        self.stable.raise(csn.0);
    }

    /// The point up to which every csn is applied or aborted, as far as the store was told.
    pub fn stable(&self) -> Csn {
        Csn(self.stable.get())
    }

    /// The least claim csn of all segments in use, but for runs that are alive: no segment holds an entry
    /// that a tombstone below it hides. `None` if no segment is in use.
    pub fn watermark(&self) -> Option<Csn> {
        self.ledger.lock().watermark(None)
    }

    /// The watermark of all segments but this one, or but its run.
    pub fn watermark_without(&self, segment: u32) -> Option<Csn> {
        self.ledger.lock().watermark(Some(segment))
    }

    /// The least claim csn of all segments that hold the watermark down and are not dead.
    pub fn oldest_filled(&self) -> Option<Csn> {
        let ledger = self.ledger.lock();
        let known = |segment| &ledger.segments[segment as usize];
        ledger.oldest().map(known).find(|known| !known.is_dead()).map(|known| known.line.claim_csn)
    }

    /// Whether the tombstone of version `csn` at `place`, which the index still names, may be dropped: no
    /// entry that it hides can come back (`docs/spec`: Reclaim, DropTombstone). Being of an older term, as in
    /// LoLKV 4.2, does not suffice (L10).
    /// - No other segment holds an older entry of its key: all were claimed when the tombstone was applied.
    ///   Its own segment does not count, because tombstone and older entries go with it, all at once. Nor
    ///   does a run whose one entry is not superseded: such entries are never moved, so it is an item, or
    ///   under way.
    /// - No older write is under way, which would find the slot empty and bring the key back.
    pub fn tombstone_may_go(&self, place: EntryRef, csn: Csn) -> bool {
        let oldest = self.watermark_without(segment_of(place.offset));
        csn <= self.stable() && oldest.is_none_or(|oldest| csn <= oldest)
    }

    /// Has writers seal the segments that they claimed while the stable point was `csn` at most, when they
    /// next come by.
    pub(crate) fn seal_before(&self, csn: Csn) {
        self.seal_before.raise(csn.0 + 1);
    }

    /// The point set by [`seal_before`](Self::seal_before).
    pub(crate) fn sealed_before(&self) -> u64 {
        self.seal_before.get()
    }

    /// Whether items are evicted, collection makes no memory for the writes that want some, and little is
    /// alive in the segment at `place`; or not so little, but few entries, where collection only goes round.
    pub fn is_worth_clearing(&self, place: EntryRef) -> bool {
        let load = self.tallies[segment_of(place.offset) as usize].load();
        if !self.options.evicts || !load.is_few() {
            return false;
        }
        let ledger = self.ledger.lock();
        load.is_little() && ledger.is_stuck() || ledger.goes_round()
    }

    /// Has writers seal the open segments that hold little, when they next come by, if a claim failed.
    pub(crate) fn seal_little(&self) {
        if self.ledger.lock().pressed {
            self.seal_little.add(1);
        }
    }

    /// How often [`seal_little`](Self::seal_little) asked.
    pub(crate) fn asked_for_little(&self) -> u64 {
        self.seal_little.get()
    }

    /// When the segment was claimed.
    pub(crate) fn claim_csn(&self, segment: u32) -> Csn {
        self.ledger.lock().segments[segment as usize].line.claim_csn
    }

    /// How many claims there were. A claim with a higher number is a later one.
    pub fn claims(&self) -> u64 {
        self.ledger.lock().claims
    }

    /// Counts the contents of the store.
    pub fn counters(&self) -> StoreCounters {
        let mut counters = StoreCounters { segments: self.segments - self.table, ..StoreCounters::default() };
        {
            let ledger = self.ledger.lock();
            counters.free = ledger.free.total();
            counters.reserve = ledger.credit;
            for segment in &ledger.segments[self.table as usize..] {
                // Bodies of a run count with its head, while it has one.
                match segment.phase {
                    Phase::Free | Phase::Body => {}
                    Phase::Active => counters.active += 1,
                    Phase::Sealed | Phase::Run | Phase::Adopted => counters.sealed += segment.line.run,
                    Phase::Dead | Phase::Offered => counters.quarantined += segment.line.run,
                    Phase::Leaving => counters.quarantined += 1,
                }
            }
        }
        counters.used_bytes = (counters.segments - counters.free) as u64 * SEGMENT_BYTES;
        for tally in &self.tallies[self.table as usize..] {
            let load = tally.load();
            counters.entries += load.entries;
            counters.live_bytes += load.units * LINE;
            counters.drafts += load.pending;
        }
        counters
    }

    /// The scarcity of memory: the shift s if at most one 2^s-th of the memory can still be taken, at most 3.
    pub(crate) fn scarcity(&self) -> u32 {
        let limit = self.budget.limit();
        let left = limit.saturating_sub(self.budget.used()) / SEGMENT_BYTES;
        let room = left.min(self.ledger.lock().claimable() as u64);
        let whole = (limit / SEGMENT_BYTES).min((self.segments - self.table) as u64);
        (0..3).find(|shift| room << (shift + 1) > whole).unwrap_or(3)
    }

    /// A line as the arena has it. In persistent memory it is as followers have it: the same from the claim
    /// until the segment is free. A loss of power leaves any prefix of the stores of a line that was about to
    /// change, and a mixture would never verify: the segment would be lost, and the entries in it.
    fn line_of(&self, line: &Line) -> Line {
        let is_whole = self.options.persistent && !Mutant::SealLines.is_on();
        if is_whole { line.of_replicas() } else { *line }
    }

    /// Writes the line of a segment.
    pub(crate) fn put_line(&self, segment: u32, line: &Line) {
        write_line(&self.memory, &self.sums, segment, &self.line_of(line));
    }

    /// Takes and prepares segments for a stream.
    pub(crate) fn claim(&self, need: Need, stream: u16, want: ClaimKind) -> Result<Claimed, StoreFull> {
        let claim = Claim { need, stream, term: self.options.term, csn: self.stable() };
        let claimed = self.ledger.lock().claim(&self.budget, claim, want)?;
        let base = segment_at(claimed.segment);
        let (stride, run) = match want {
            ClaimKind::Shared { stride } => (stride as u64, 1),
            ClaimKind::Run { segments } => (SEGMENT_BYTES, segments),
        };
        self.tallies[claimed.segment as usize].reset(matches!(want, ClaimKind::Run { .. }));
        if claimed.dirty {
            // After a take-over all free segments are dirty, though most were never written to.
            for room in written(&self.memory, claimed.segment, stride, SEGMENT_BYTES / stride, 0) {
                self.memory.store(base + room * stride + object::layout::SUM, 0);
            }
        }
        for distance in (1..run).rev() {
            let segment = claimed.segment + distance;
            let line = self.ledger.lock().segments[segment as usize].line;
            self.put_line(segment, &line);
        }
        self.put_line(claimed.segment, &claimed.line);
        if self.options.persistent && !Mutant::ForgetLines.is_on() {
            self.memory.flush(line_at(claimed.segment), u64::from(run) * LINE);
            self.memory.fence();
        }
        Ok(claimed)
    }

    /// Seals the segment: the stream adds no more entries to it; `tail` bytes of it were handed out.
    pub(crate) fn seal(&self, segment: u32, tail: u32) {
        let line = {
            let mut ledger = self.ledger.lock();
            let sealed = &mut ledger.segments[segment as usize];
            assert_eq!(sealed.phase, Phase::Active, "segment {segment} is sealed by its writer, once");
            sealed.phase = Phase::Sealed;
            sealed.line.state = SegmentState::Sealed;
            sealed.line.tail = tail;
            sealed.line
        };
        // The line first: from the tally's step on the segment may be dead, and its line another thread's to
        // write.
        self.put_line(segment, &line);
        if self.tallies[segment as usize].sealed() {
            self.died(segment);
        }
    }

    pub(crate) fn abandoned(&self, segment: u32) {
        if self.tallies[segment as usize].abandoned() {
            self.died(segment);
        }
    }

    /// Notes the death of a segment; the thread that made the last step calls it, once.
    fn died(&self, segment: u32) {
        self.ledger.lock().died(segment);
    }

    /// Frees dead segments without a quarantine: no client was shown the index yet, so no client reads them
    /// (see `adopt.rs`).
    pub fn bury_unread(&self) {
        self.bury_until(Nanos::default());
    }

    /// Begins the quarantine of the segments that died.
    pub(crate) fn bury(&self, now: Nanos) {
        self.bury_until(now + self.options.quarantine);
        let mut ledger = self.ledger.lock();
        if ledger.guarded {
            let until = *ledger.guarded_until.get_or_insert(now + Nanos(self.options.quarantine.0 / GUARDED));
            ledger.guarded = now < until;
        }
    }

    fn bury_until(&self, until: Nanos) {
        loop {
            let (segment, line) = {
                let mut ledger = self.ledger.lock();
                let Some(segment) = ledger.dead.pop_front() else { return };
                let line = &mut ledger.segments[segment as usize].line;
                line.state = SegmentState::Quarantined;
                (segment, *line)
            };
            self.put_line(segment, &line);
            // From here on another collector may free it.
            self.ledger.lock().quarantine.push_back((until, segment));
        }
    }

    /// Frees the oldest segment or run of the quarantine, if its time is over.
    pub(crate) fn release_one(&self, now: Nanos) -> bool {
        let (first, run) = {
            let mut ledger = self.ledger.lock();
            let Some(first) = ledger.due(now) else { return false };
            (first, ledger.begin_release(first))
        };
        self.release(first, run);
        true
    }

    /// Frees a segment, or the run that begins with it, that [`Work::Release`](crate::Work::Release) named
    /// and all followers have released.
    ///
    /// # Panics
    /// If it was not named, or was released already.
    pub fn released(&self, segment: u32) {
        let run = {
            let mut ledger = self.ledger.lock();
            let phase = ledger.segments[segment as usize].phase;
            assert_eq!(phase, Phase::Offered, "segment {segment} is released and was not asked about");
            ledger.begin_release(segment)
        };
        self.release(segment, run);
    }

    /// Gives back segments that no client reads any more.
    fn release(&self, first: u32, run: u32) {
        let kept = self.options.persistent || self.ledger.lock().free.kept() + run <= self.options.pool;
        if !kept {
            self.memory.discard(segment_at(first), run as u64 * SEGMENT_BYTES);
        }
        let stable = self.stable();
        for segment in first..first + run {
            let line = self.ledger.lock().segments[segment as usize].line.freed(stable);
            self.put_line(segment, &line);
        }
        self.ledger.lock().release(&self.budget, first, run, stable, kept);
    }

    /// When the next segment can be freed.
    pub(crate) fn next_release(&self) -> Option<Nanos> {
        self.ledger.lock().quarantine.front().map(|&(until, _)| until)
    }

    /// Whether writes will soon find no segment, or did so already.
    pub(crate) fn is_short(&self) -> bool {
        let ledger = self.ledger.lock();
        ledger.pressed
            || ledger.claimable() < 2
            || self.budget.limit() - self.budget.used().min(self.budget.limit()) < 2 * SEGMENT_BYTES
    }

    /// Checks the whole arena from its bytes, and the accounting against what was found. For moments at which
    /// no thread writes; on a live arena use [`verify`].
    pub fn check(&self) -> ArenaReport {
        let mut report = verify(&self.memory, &self.sums);
        if report.by_segment.len() != self.segments as usize {
            return report;
        }
        for segment in self.table..self.segments {
            let known = self.ledger.lock().segments[segment as usize];
            let found = report.by_segment[segment as usize];
            let load = self.tallies[segment as usize].load();
            if (load.units * LINE, load.entries) != (found.live_bytes, found.live_entries) {
                report.problem(format!("segment {segment}: accounted {load:?}, found {found:?}"));
            }
            if load.pending > found.unfinished {
                report.problem(format!("segment {segment}: {load:?} drafts, found {found:?}"));
            }
            match Line::read(&self.memory, &self.sums, segment) {
                Ok(line) if (Line { tail: 0, ..line }) == (Line { tail: 0, ..self.line_of(&known.line) }) => {
                }
                line => report.problem(format!("segment {segment}: line {line:?}, ledger {:?}", known.line)),
            }
        }
        let counters = self.counters();
        if report.states[SegmentState::Free as usize] != counters.free {
            report.problem(format!("{counters:?}, found {:?}", report.states));
        }
        if self.budget.used() < counters.used_bytes {
            report.problem(format!("{counters:?}, charged only {} bytes", self.budget.used()));
        }
        report
    }
}

impl<M> std::fmt::Debug for Store<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("segments", &self.segments).field("options", &self.options).finish()
    }
}
