//! A worker's side of the store: rooms for its entries, in segments that only it fills.
//!
//! The writer keeps one open segment a size class and lane, opened when first needed. In a large arena that
//! is all. In a small one, open segments could use up the memory before it holds much. So once a writer has
//! its share of them open, an entry of a further class goes into the nearest open class of at most four times
//! its size (up to 32 times as memory gets scarce), and only then does the writer open one more. If no
//! segment is available, any open one whose rooms hold the entry will do. If there is none, and collection
//! finds no sealed segment that it could make room of, it asks every writer to seal the open ones that are
//! mostly dead or empty.

use std::sync::Arc;

use longarm_base::limits::{KEY_MAX, LINE, SEGMENT_BYTES, VALUE_MAX};
use longarm_base::{Csn, EntryRef};
use longarm_memory::OwnedWords;

use crate::class::{CLASSES, SHARED_UNITS, class_of, stride_units};
use crate::object::{self, Draft, Entry, EntryKind, EntryMeta, NewEntry, Room};
use crate::segment::layout::segment_at;
use crate::segment::{ClaimKind, Claimed, Lane, Need, write_tail};
use crate::stream::{OpenSegment, StreamState};
use crate::{DraftError, FillError, Store, StoreFull};

/// The lanes that an entry may go to when memory is scarce. Survivors may fill up segments of new entries;
/// the other way round writes would use up segments that came out of the reserve.
fn lanes_for(lane: Lane) -> &'static [Lane] {
    match lane {
        Lane::Write => &[Lane::Write],
        Lane::Move => &[Lane::Move, Lane::Write],
    }
}

impl<M: OwnedWords> Store<M> {
    /// The writer of a stream. A stream has one writer at a time; a writer that is dropped leaves its open
    /// segments and its position to the next one.
    pub fn writer(self: &Arc<Store<M>>, stream: u16) -> Writer<M> {
        let state = self.streams.lock().get_mut(stream as usize).map(Option::take);
        let state = state.unwrap_or_else(|| panic!("stream {stream} of {} streams", self.options.streams));
        Writer::new(
            self.clone(),
            stream,
            state.unwrap_or_else(|| panic!("stream {stream} has a writer already")),
        )
    }
}

/// Adds entries to a stream, as the only party, and writes its segments alone (LoLKV 3.1). It belongs to one
/// worker.
pub struct Writer<M: OwnedWords> {
    store: Arc<Store<M>>,
    stream: u16,
    /// Always there, except while the writer is dropped.
    state: Option<StreamState>,
    scratch: Vec<u8>,
    /// What the store had asked for when this writer last sealed old segments.
    sealed_before: u64,
    /// How often it was asked to seal segments that hold little, when it last did.
    sealed_little: u64,
    /// Whether new entries claim no segment for now.
    yields: bool,
}

impl<M: OwnedWords> Writer<M> {
    pub(crate) fn new(store: Arc<Store<M>>, stream: u16, state: StreamState) -> Writer<M> {
        Writer {
            store,
            stream,
            state: Some(state),
            scratch: Vec::new(),
            sealed_before: 0,
            sealed_little: 0,
            yields: false,
        }
    }

    /// Whether new entries claim no segment from now on, and make do with open ones: another write has waited
    /// for one for long.
    #[inline]
    pub fn set_yields(&mut self, yields: bool) {
        self.yields = yields;
    }

    fn state(&mut self) -> &mut StreamState {
        self.state.as_mut().expect("a writer has its state until it is dropped")
    }

    /// The store it writes to.
    pub fn store(&self) -> &Arc<Store<M>> {
        &self.store
    }

    /// Its stream.
    pub fn stream(&self) -> u16 {
        self.stream
    }

    /// Writes key and value of a new entry into a room of its own; the entry lacks only its csn to be valid.
    pub fn draft(&mut self, key: &[u8], value: &[u8], meta: EntryMeta) -> Result<Draft, DraftError> {
        self.draft_for(Need::New, key, value, meta)
    }

    /// Drafts as [`draft`](Self::draft) does, for an entry that gives memory back, or that must outlive
    /// another: it may take from the reserve, as moves do.
    pub fn draft_kept(&mut self, key: &[u8], value: &[u8], meta: EntryMeta) -> Result<Draft, DraftError> {
        self.draft_for(Need::Kept, key, value, meta)
    }

    /// Drafts a record that a dead segment holds, so that the segment can be freed: it may take the last of
    /// the reserve.
    pub fn draft_record(&mut self, value: &[u8], meta: EntryMeta) -> Result<Draft, DraftError> {
        self.draft_for(Need::Record, &[], value, meta)
    }

    fn draft_for(
        &mut self,
        need: Need,
        key: &[u8],
        value: &[u8],
        meta: EntryMeta,
    ) -> Result<Draft, DraftError> {
        let mut draft = self.begin(need, NewEntry { key, value_len: value.len(), meta })?;
        self.fill(&mut draft, 0, value).expect("the whole value fits the length it has");
        Ok(draft)
    }

    /// Begins an entry whose value arrives in pieces, straight into its room: see [`fill`](Self::fill).
    pub fn draft_streamed(
        &mut self,
        key: &[u8],
        value_len: usize,
        meta: EntryMeta,
    ) -> Result<Draft, DraftError> {
        self.begin(Need::New, NewEntry { key, value_len, meta })
    }

    /// Begins the copy of a live entry that collection moves: it has the same key, value and csn (to be
    /// passed to [`finish`](Self::finish)), and a position of its own in this stream (L11).
    pub fn draft_move(&mut self, entry: &Entry<'_>) -> Result<Draft, DraftError> {
        let kind = if entry.kind == EntryKind::Put { EntryKind::Move } else { entry.kind };
        let meta = EntryMeta { kind, expiry: entry.expiry, session: entry.session, moved: true };
        self.draft_for(Need::Kept, entry.key, entry.value, meta)
    }

    fn begin(&mut self, need: Need, entry: NewEntry<'_>) -> Result<Draft, DraftError> {
        let NewEntry { key, value_len, meta } = entry;
        if key.len() > KEY_MAX || (key.is_empty() && meta.kind != EntryKind::Noop) {
            return Err(DraftError::Key(key.len()));
        }
        if value_len > VALUE_MAX {
            return Err(DraftError::Value(value_len));
        }
        self.seal_old();
        let len = object::layout::entry_len(meta.flags(), key.len(), value_len);
        let units = len.div_ceil(LINE as usize) as u32;
        let room =
            if units <= SHARED_UNITS { self.shared_room(need, units)? } else { self.run_room(need, len)? };
        let returns = self.state().returns.clone();
        let (memory, sums) = (&self.store.memory, &self.store.sums);
        Ok(object::begin(memory, sums, room, self.stream, &returns, entry))
    }

    /// Writes the next piece of a value; `at` is the number of bytes written so far.
    pub fn fill(&mut self, draft: &mut Draft, at: u64, bytes: &[u8]) -> Result<(), FillError> {
        object::fill(&self.store.memory, &self.store.sums, draft, at, bytes, &mut self.scratch)
    }

    /// Makes the entry valid under its csn, as the next of its stream. It takes a few dozen nanoseconds,
    /// whatever the length of the entry. The value must be complete.
    pub fn finish(&mut self, draft: Draft, csn: Csn) -> EntryRef {
        let state = self.state();
        let position = state.next_position;
        state.next_position += 1;
        let room = draft.room;
        let place = object::finish(&self.store.memory, &self.store.sums, draft, csn, position);
        self.store.tallies[room.segment as usize].finished(place.units());
        place
    }

    /// Gives the draft up. Dropping it does the same.
    pub fn abandon(&mut self, draft: Draft) {
        drop(draft);
        self.take_returns();
    }

    /// Seals every open segment, so that collection may have them.
    pub fn seal_all(&mut self) {
        self.take_returns();
        self.seal_if(|_, _| true);
    }

    /// Seals the open segments that hold the watermark down, or that hold little, where collection asks for
    /// it. A writer that rests calls this now and then.
    #[inline]
    pub fn seal_old(&mut self) {
        // A draft that was dropped counts as under way before its room is taken back.
        self.take_returns();
        let before = self.store.sealed_before();
        if before > self.sealed_before {
            self.sealed_before = before;
            let store = self.store.clone();
            self.seal_if(|_, open| store.claim_csn(open.segment).0 < before);
        }
        let asked = self.store.asked_for_little();
        if asked > self.sealed_little {
            self.sealed_little = asked;
            let store = self.store.clone();
            self.seal_if(|lane, open| {
                let load = store.tallies[open.segment as usize].load();
                // Moves that took such a segment apart again would use up the reserve, and gain nothing.
                if lane == Lane::Move && !store.options.evicts { load.is_empty() } else { load.is_little() }
            });
        }
    }

    #[cold]
    fn seal_if(&mut self, is_due: impl Fn(Lane, &OpenSegment) -> bool) {
        for lane in [Lane::Write, Lane::Move] {
            for class in 0..CLASSES {
                if self.state().lanes[lane as usize].by_class[class]
                    .as_ref()
                    .is_some_and(|open| is_due(lane, open))
                {
                    self.seal(lane, class);
                }
            }
        }
    }

    fn seal(&mut self, lane: Lane, class: usize) {
        let open = self.state().lanes[lane as usize].close(class);
        self.store.seal(open.segment, open.tail);
    }

    /// Takes back the rooms of dropped drafts, which are used again while their segment is open.
    fn take_returns(&mut self) {
        if self.state().returns.waiting.get() == 0 {
            return;
        }
        let returns = self.state().returns.clone();
        let rooms = std::mem::take(&mut *returns.rooms.lock());
        returns.waiting.add((rooms.len() as u64).wrapping_neg());
        for room in rooms {
            let open = room
                .class
                .and_then(|class| self.state().lanes[room.lane as usize].by_class[class as usize].as_mut());
            if let Some(open) = open
                && (open.segment, open.generation) == (room.segment, room.generation)
            {
                open.spare.push(room.offset);
            }
            self.store.abandoned(room.segment);
        }
    }

    /// Claims a segment or run, unless new entries leave these to a write that has waited for long.
    fn claim(&self, need: Need, want: ClaimKind) -> Result<Claimed, StoreFull> {
        if self.yields && need.lane() == Lane::Write {
            return Err(StoreFull::Kept);
        }
        self.store.claim(need, self.stream, want)
    }

    /// A run of whole segments for one large entry.
    fn run_room(&mut self, need: Need, len: usize) -> Result<Room, StoreFull> {
        let segments = (len as u64).div_ceil(SEGMENT_BYTES) as u32;
        let claimed = self.claim(need, ClaimKind::Run { segments })?;
        self.store.tallies[claimed.segment as usize].drafted();
        Ok(Room {
            offset: segment_at(claimed.segment),
            segment: claimed.segment,
            term: claimed.line.term,
            generation: claimed.line.generation,
            lane: need.lane(),
            class: None,
        })
    }

    /// A room in an open segment; see the head of this file.
    fn shared_room(&mut self, need: Need, units: u32) -> Result<Room, StoreFull> {
        let (class, lane) = (class_of(units), need.lane());
        let opens = &self.state().lanes[lane as usize];
        if opens.by_class[class].is_some() {
            return Ok(self.take_room(lane, class));
        }
        let crowded = opens.count >= opens.allowed;
        let scarcity = self.store.scarcity();
        // A move that wasted more memory would win nothing.
        let stretch = if lane == Lane::Move { 2 } else { 4 << scarcity };
        if crowded || (lane == Lane::Move && scarcity > 0) {
            for &lane in lanes_for(lane) {
                if let Some(near) = self.state().lanes[lane as usize].nearest(class, stretch * units) {
                    return Ok(self.take_room(lane, near));
                }
            }
        }
        let stride = stride_units(class) * LINE as u32;
        match self.claim(need, ClaimKind::Shared { stride }) {
            Ok(claimed) => {
                let opens = &mut self.state().lanes[lane as usize];
                opens.count += 1;
                opens.by_class[class] = Some(OpenSegment {
                    segment: claimed.segment,
                    generation: claimed.line.generation,
                    stride,
                    tail: 0,
                    spare: Vec::new(),
                });
                Ok(self.take_room(lane, class))
            }
            Err(full) => self.room_under_pressure(lane, class).ok_or(full),
        }
    }

    /// Finds room when no segment is available: any open room that is large enough will do, for a move also a
    /// room for new entries.
    fn room_under_pressure(&mut self, lane: Lane, class: usize) -> Option<Room> {
        for &lane in lanes_for(lane) {
            if let Some(larger) = self.state().lanes[lane as usize].nearest(class, SHARED_UNITS) {
                return Some(self.take_room(lane, larger));
            }
        }
        None
    }

    /// Takes a room of an open class, and seals the segment if that was the last.
    fn take_room(&mut self, lane: Lane, class: usize) -> Room {
        let state = self.state.as_mut().expect("a writer has its state until it is dropped");
        let open = state.lanes[lane as usize].by_class[class].as_mut().expect("an open class");
        let offset = open.spare.pop().unwrap_or_else(|| {
            let offset = segment_at(open.segment) + open.tail as u64;
            open.tail += open.stride;
            write_tail(&self.store.memory, open.segment, open.tail);
            offset
        });
        let (segment, generation) = (open.segment, open.generation);
        let full = open.is_full();
        // Pending before sealed, so that a full segment does not die under its last draft.
        self.store.tallies[segment as usize].drafted();
        if full {
            self.seal(lane, class);
        }
        let term = self.store.options.term;
        Room { offset, segment, term, generation, lane, class: Some(class as u16) }
    }
}

impl<M: OwnedWords> Drop for Writer<M> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.store.return_stream(self.stream, state);
        }
    }
}

impl<M: OwnedWords> std::fmt::Debug for Writer<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("stream", &self.stream).finish_non_exhaustive()
    }
}
