//! What the leader pushes to a follower that catches up: the lines and the content of the leader's arena,
//! over a connection of its own.

use std::ops::Range;
use std::time::Duration;

use longarm_base::limits::{LINE, READ_MAX, SEGMENT_BYTES};
use longarm_base::{EntryRef, Mutant, Nanos, Place, Term};
use longarm_fabric::QueuePair;
use longarm_host::observe::{ReplicaStep, reach};
use longarm_host::{now, sleep};
use longarm_memory::Words;
use longarm_store::segment::layout::{line_at, segment_at, segment_of};
use longarm_store::segment::{
    ArenaGeometry, Line, claim_number, freed_line, line_bytes, replica_line, run_length,
};
use longarm_store::{ArenaView, segment_entries};
use longarm_wire::ARENA_REGION;

use super::Attended;
use crate::OWN_HEADER;
use crate::peer_channel::PeerError;
use crate::scan::ScannedEntry;

/// The number of bytes that are copied out of the arena at a time.
const PIECE: u64 = 1 << 20;
/// How long the thread waits for a line that is being changed, and how long it sleeps between two looks.
const CHANGE: Nanos = Nanos::from_millis(100);
const LINE_AGAIN: Duration = Duration::from_micros(20);
/// The rests of the thread while no client waits for what it pushes: after each [`WORK`], for [`RESTS`] times
/// as long as the work took, but for [`REST_MOST`] at most. Cores and memory belong to the threads that serve
/// clients. Where there are no more cores than threads that serve, pushing without rests would drive two of
/// those threads onto one core, where they would do a third of what they did.
const RESTS: u64 = 3;
const WORK: Nanos = Nanos::from_micros(500);
const REST_MOST: Nanos = Nanos::from_millis(6);

/// Whether the follower has nothing of what the leader's line says is in a segment. `ours` is the leader's
/// line, and `theirs` the follower's.
fn is_unknown(ours: &Line, theirs: &Line) -> bool {
    let known = theirs.has_entries() && theirs.is_same_use(ours);
    ours.has_entries() && !known && !Mutant::TrustTable.is_on()
}

impl<Q: QueuePair> Attended<'_, '_, Q> {
    /// WRITEs `len` bytes of the arena, from the offset `from` on.
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

    /// Rests, if that leaves time to clients that are served meanwhile.
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

    /// Checks that the follower's arena has the shape of the leader's: it is given everything at the same
    /// offsets, the header included.
    pub(super) fn check_shape(&mut self) -> Result<(), PeerError> {
        let (ours, until) = (self.geometry(), self.until());
        let header = self.bulk.read(Place::new(ARENA_REGION, line_at(0), LINE as u32), until)?;
        let header = header.try_into().expect("a line");
        // The follower answers for the length of what it lends; a longer arena than ours is refused below.
        let sums = self.leader_term.core.engine.store.sums();
        let its = ArenaGeometry::from_bytes(header, u64::MAX, sums)
            .map_err(|error| PeerError::Broken(format!("its memory is of no use: {error}")))?;
        if its != ours {
            // Without the table, which comes on top of what users set.
            let memory = |of: ArenaGeometry| of.segments - of.table;
            return Err(PeerError::OtherShape { its: memory(its), ours: memory(ours) });
        }
        Ok(())
    }

    /// The leader's line of a segment, between two changes: what a segment holds must not be passed over
    /// because a worker is in the middle of changing its line. A line that says nothing is free.
    fn line(&self, segment: u32) -> Result<Line, PeerError> {
        let bytes = self.replica_line(segment)?;
        let sums = self.leader_term.core.engine.store.sums();
        Ok(Line::from_bytes(&bytes, sums, segment).unwrap_or(Line::FREE))
    }

    /// Pushes the header and all lines.
    pub(super) fn table(&mut self) -> Result<(), PeerError> {
        let segments = self.geometry().segments;
        self.lines(0, segments)
    }

    /// Pushes `count` lines. None of them is half of a change: on the follower it would stay so.
    fn lines(&mut self, first: u32, count: u32) -> Result<(), PeerError> {
        let mut bytes = Vec::new();
        for segment in first..first + count {
            bytes.extend_from_slice(&self.replica_line(segment)?);
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

    /// Waits for [`CHANGE`] at most until the line of a segment is whole, and returns its bytes as followers
    /// get them.
    fn replica_line(&self, segment: u32) -> Result<[u8; LINE as usize], PeerError> {
        let until = now() + CHANGE;
        loop {
            let sums = self.leader_term.core.engine.store.sums();
            if let Some(line) = replica_line(self.memory(), sums, segment) {
                return Ok(line);
            }
            self.go_on()?;
            if now() >= until {
                // No worker changes it any more: it was so when this replica took the arena over, and says
                // nothing.
                return Ok(line_bytes(self.memory(), segment));
            }
            sleep(LINE_AGAIN);
        }
    }

    /// Finds the segments of older terms that the follower has in another use than the leader. The follower
    /// holds the same start set, but had released them at the word of an older leader whose other followers
    /// had not. What is in them on the follower says nothing: the follower may have written it itself, as a
    /// leader, without a majority (L16).
    pub(super) fn unknown(&mut self) -> Result<Vec<u32>, PeerError> {
        let (geometry, until) = (self.geometry(), self.until());
        let mut unknown = Vec::new();
        for first in (geometry.table..geometry.segments).step_by(READ_MAX as usize / LINE as usize) {
            let count = (geometry.segments - first).min(READ_MAX / LINE as u32);
            let place = Place::new(ARENA_REGION, line_at(first), count * LINE as u32);
            let theirs = self.bulk.read(place, until)?.to_vec();
            for (segment, theirs) in (first..).zip(theirs.chunks_exact(LINE as usize)) {
                let sums = self.leader_term.core.engine.store.sums();
                let theirs = Line::from_bytes(theirs, sums, segment).unwrap_or(Line::FREE);
                let ours = self.line(segment)?;
                if ours.term < self.leader_term.term && is_unknown(&ours, &theirs) {
                    unknown.push(segment);
                }
            }
        }
        Ok(unknown)
    }

    /// Pushes all segments of older terms, whole.
    pub(super) fn older(&mut self) -> Result<(), PeerError> {
        let geometry = self.geometry();
        for segment in geometry.table..geometry.segments {
            if !self.is_over_there(segment) {
                self.whole(segment)?;
                self.serve_releases()?;
            }
        }
        Ok(())
    }

    /// WRITEs to the follower that its use of a segment, or of those of a run, is over. What it has there is
    /// about to be overwritten, and the connection may break before the leader's line follows: its standby
    /// index would go on naming what is no longer there.
    pub(super) fn free(&mut self, segment: u32) -> Result<(), PeerError> {
        let run = self.line(segment)?.run;
        (segment..segment + run).try_for_each(|segment| self.free_line(segment))
    }

    /// WRITEs to the follower that the use of a segment is over.
    pub(super) fn free_line(&mut self, segment: u32) -> Result<(), PeerError> {
        let store = &self.leader_term.core.engine.store;
        let line = freed_line(store.memory(), store.sums(), segment, store.stable());
        let until = self.until();
        self.bulk.write(ARENA_REGION, line_at(segment), &line, until)
    }

    /// Pushes a segment, or run, of an older term to its end: what the follower has there of an entry that
    /// was cut off must not stay (L16).
    pub(super) fn whole(&mut self, segment: u32) -> Result<(), PeerError> {
        let line = self.line(segment)?;
        if line.term < self.leader_term.term && line.has_entries() {
            self.copy(segment_at(segment), u64::from(line.run) * SEGMENT_BYTES)?;
            reach(ReplicaStep::Content);
        }
        Ok(())
    }

    /// Pushes all entries of the base's streams from these positions on.
    pub(super) fn of_base(&mut self, from: &[u64]) -> Result<(), PeerError> {
        let tail = &self.leader_term.start.tail;
        let known =
            tail.from.len() >= from.len() && tail.from.iter().zip(from).all(|(known, from)| known <= from);
        if !known {
            let all: Vec<Range<u64>> = from.iter().map(|&from| from..u64::MAX).collect();
            return self.of_term(self.leader_term.start.base, &all);
        }
        // Entries behind a gap, too: what is missing was reclaimed.
        let missing = |seen: &&ScannedEntry| from.get(seen.stream).is_some_and(|&from| seen.position >= from);
        // Its segment may have been freed since the scan, and used again. That cannot happen from now on: the
        // follower is asked before a segment is freed.
        let mut places = Vec::new();
        for seen in tail.entries.iter().filter(missing) {
            if self.line(segment_of(seen.place.offset))?.term == self.leader_term.start.base {
                places.push(seen.place);
            }
        }
        places.sort_unstable_by_key(|place| place.offset);
        let together = |one: &EntryRef, next: &EntryRef| segment_of(one.offset) == segment_of(next.offset);
        places.chunk_by(together).try_for_each(|places| self.entries(places))
    }

    /// Pushes the entries at these positions of a term's streams, as they are found in the arena.
    pub(super) fn of_term(&mut self, term: Term, positions: &[Range<u64>]) -> Result<(), PeerError> {
        if positions.is_empty() {
            return Ok(());
        }
        let geometry = self.geometry();
        for segment in geometry.table..geometry.segments {
            let line = self.line(segment)?;
            if line.term != term {
                continue;
            }
            let arena = ArenaView { memory: self.memory(), sums: self.leader_term.core.engine.store.sums() };
            let places = segment_entries(arena, geometry, segment, &line, positions);
            self.entries(&places)?;
            if !places.is_empty() {
                reach(ReplicaStep::Content);
            }
            if self.machine.may_release() {
                self.serve_releases()?;
            }
        }
        Ok(())
    }

    /// Whether the follower has released the use that the segment still has on the leader.
    fn is_over_there(&self, segment: u32) -> bool {
        self.machine.is_over(segment, claim_number(self.memory(), segment))
    }

    /// Pushes entries of one segment, given in the order of their offsets.
    fn entries(&mut self, places: &[EntryRef]) -> Result<(), PeerError> {
        let Some(segment) = places.first().map(|place| segment_of(place.offset)) else { return Ok(()) };
        if self.is_over_there(segment) {
            return Ok(());
        }
        // Its claim may be younger than the table that was sent. The use is not over: the follower would have
        // been asked.
        if !Mutant::ForgetClaims.is_on() {
            self.lines(segment, run_length(self.memory(), segment))?;
        }
        let end = |place: &EntryRef| place.offset + u64::from(place.len).next_multiple_of(8);
        // Two entries adjoin if no cache line lies between them.
        let adjoin = |one: &EntryRef, next: &EntryRef| end(one).next_multiple_of(LINE) == next.offset;
        for together in places.chunk_by(adjoin) {
            let (first, last) = (together[0], together[together.len() - 1]);
            self.copy(first.offset, end(&last) - first.offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::ReplicaId;
    use longarm_store::segment::SegmentState;

    use super::*;

    /// A replica released a segment at the word of a leader that was lost before its other followers had
    /// released it. The next leader still has the segment, and what that replica has in it is not known.
    #[test]
    fn what_a_follower_has_let_go_of_is_given_to_it_anew() {
        let at =
            |state| Line { state, generation: 3, term: Term::new(4, ReplicaId(1)), claim: 9, ..Line::FREE };
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
}
