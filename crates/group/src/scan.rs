//! What a replica found of a term's streams in its own memory, when it looked after the fence.
//!
//! A scan goes over all entries, while the group has no leader. So the replica makes one scan, and keeps it
//! until a leader may write to the memory again.

use longarm_base::{EntryRef, Mutant, Term};
use longarm_memory::Mapped;
use longarm_store::{Settled, StreamSurvey, survey, void};
use longarm_wire::{Extent, ReplicaReport, STREAMS_MAX};

use super::OWN_HEADER;
use crate::checked_arena::CheckedArena;

/// An entry of one of the streams, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScannedEntry {
    pub stream: usize,
    pub position: u64,
    pub place: EntryRef,
}

/// The entries of a term's streams, from some positions on.
#[derive(Debug)]
pub(crate) struct ArenaScan {
    sync: Term,
    floors: Vec<u64>,
    streams: Vec<StreamSurvey>,
}

impl ArenaScan {
    /// Looks at the entries of each stream from its floor on. A stream without a floor is looked at from its
    /// beginning: other leaders may have more workers. Settled entries are passed over.
    pub fn new(
        arena: &CheckedArena<Mapped>,
        sync: Term,
        mut floors: Vec<u64>,
        settled: &Settled,
    ) -> ArenaScan {
        floors.resize(STREAMS_MAX.max(floors.len()), 0);
        let streams = survey(&arena.memory, &arena.sums, sync, &floors, settled).expect(OWN_HEADER).streams;
        ArenaScan { sync, floors, streams }
    }

    /// The given scan, if it is of the term `sync` and goes down to `least` in each of as many streams; else
    /// a new one.
    pub fn down_to(
        scan: Option<ArenaScan>,
        arena: &CheckedArena<Mapped>,
        sync: Term,
        least: Vec<u64>,
    ) -> ArenaScan {
        let enough = |scan: &ArenaScan| scan.is_of(sync) && scan.reaches(&least);
        scan.filter(enough).unwrap_or_else(|| ArenaScan::new(arena, sync, least, &Settled::default()))
    }

    /// Whether the scan shows the streams of that term.
    pub fn is_of(&self, sync: Term) -> bool {
        self.sync == sync
    }

    /// Whether the scan shows each of these streams from the given position on, and all of every other
    /// stream: a stream for which a leader names no cut is cut at its beginning.
    pub fn reaches(&self, from: &[u64]) -> bool {
        let named = self.floors.len() >= from.len();
        let others = if Mutant::PassUncut.is_on() { u64::MAX } else { 0 };
        let from = from.iter().copied().chain(std::iter::repeat(others));
        named && self.floors.iter().zip(from).all(|(&floor, from)| floor <= from)
    }

    /// The report of the scan, and of what the page says: `least` streams, and as many more as have entries.
    pub fn report(&self, reclaimed: u64, unix: u64, least: usize) -> ReplicaReport {
        let extent = |(stream, &floor): (&StreamSurvey, &u64)| Extent { floor, len: stream.len };
        let mut streams: Vec<_> = self.streams.iter().zip(&self.floors).map(extent).collect();
        let used = streams.iter().rposition(|extent| extent.len > 0).map_or(0, |last| last + 1);
        streams.truncate(used.max(least));
        ReplicaReport { sync: self.sync, reclaimed, unix, disk: None, streams }
    }

    /// How far each stream is here without a gap, up to its cut.
    pub fn lens(&self, cuts: &[u64]) -> Vec<u64> {
        self.streams.iter().zip(cuts).map(|(stream, &cut)| stream.len.min(cut)).collect()
    }

    /// The floors of a replica that is catching up: what it found of each stream, up to the cut. If the
    /// leader is lost before the replica counts in the leader's term, the replica reports that it holds this.
    /// Entries that the leader had freed are overwritten with the rest, and are no gap below a floor (L6).
    /// Entries that are cut off are gone, and are not reported (L16).
    pub fn floors(&self, cuts: &[u64]) -> Vec<u64> {
        if Mutant::LeaveGaps.is_on() { least(&self.floors, cuts) } else { self.lens(cuts) }
    }

    /// All entries that the scan shows, also those behind gaps.
    pub fn entries(&self) -> impl Iterator<Item = ScannedEntry> {
        self.streams.iter().enumerate().flat_map(|(stream, found)| {
            let all = found.tail.iter().chain(&found.beyond);
            all.map(move |&(position, place)| ScannedEntry { stream, position, place })
        })
    }

    /// Voids the entries at or beyond the cuts (L16), and all entries of a stream without a cut: no replica
    /// of the majority reported it.
    pub fn cut(&self, memory: &Mapped, cuts: &[u64]) {
        if Mutant::NoCut.is_on() {
            return;
        }
        let none = if Mutant::KeepUncut.is_on() { u64::MAX } else { 0 };
        let beyond = |seen: &ScannedEntry| seen.position >= cuts.get(seen.stream).copied().unwrap_or(none);
        self.entries().filter(beyond).for_each(|seen| void(memory, seen.place));
    }
}

/// The floor of each stream that has a cut, or the cut if that is less.
pub(crate) fn least(floors: &[u64], cuts: &[u64]) -> Vec<u64> {
    let floors = floors.iter().copied().chain(std::iter::repeat(0));
    floors.zip(cuts).map(|(floor, &cut)| floor.min(cut)).collect()
}

#[cfg(test)]
mod tests {
    use longarm_base::ReplicaId;
    use longarm_index::hash::SlotKind;
    use longarm_store::segment::layout::segment_of;
    use longarm_wire::{Request, RequestKind};

    use super::*;
    use longarm_engine::testing::{TIMES, arena, engine_of, execute, sums};

    /// An arena with entries of two streams.
    fn two_streams() -> (Term, CheckedArena<Mapped>) {
        let (limit, term) = (64 << 20, Term::new(1, ReplicaId(0)));
        let arena = CheckedArena { memory: arena(limit), sums: sums() };
        let engine = engine_of(term, 0, SlotKind::Inline64, limit, &arena.memory);
        for stream in [0, 0, 1] {
            let put = Request { key: b"key", value: b"value", ..Request::new(RequestKind::Put, 0) };
            assert!(execute(&engine, &mut engine.worker_context(stream), TIMES, &put).is_ok());
        }
        drop(engine);
        (term, arena)
    }

    /// A leader that had freed a segment frees it on a follower too, as it pushes its table, and is lost
    /// then. The follower had not yet been asked to release the segment, and its floors are below the entries
    /// that were in it. It had been counted for entries behind those.
    #[test]
    fn what_a_leader_freed_is_no_gap_to_a_replica_that_was_catching_up() {
        let (limit, term) = (64 << 20, Term::new(1, ReplicaId(0)));
        let arena = CheckedArena { memory: arena(limit), sums: sums() };
        let engine = engine_of(term, 0, SlotKind::Inline64, limit, &arena.memory);
        for len in [10, 9_000, 10, 10] {
            let value = vec![7; len];
            let put = Request { key: &[len as u8], value: &value, ..Request::new(RequestKind::Put, 0) };
            assert!(execute(&engine, &mut engine.worker_context(0), TIMES, &put).is_ok());
        }
        drop(engine);
        let scan = |floors: &[u64]| ArenaScan::new(&arena, term, floors.to_vec(), &Settled::default());
        let before = scan(&[1]);
        let large = before.entries().next().expect("the second entry is the large one");
        let (cut, reported) = ([3], before.floors(&[3]));
        before.cut(&arena.memory, &cut);
        assert_eq!(scan(&reported).lens(&[u64::MAX]), [3], "what is cut off is not reported");
        longarm_store::segment::forget(&arena.memory, &arena.sums, segment_of(large.place.offset));
        assert_eq!(scan(&[1]).lens(&[u64::MAX]), [1], "above a floor it is a gap");
        assert_eq!(scan(&reported).lens(&[u64::MAX]), [3]);
        assert_eq!(scan(&[4]).floors(&cut), [3], "floors that were above the cut");
    }

    /// Leaders need not have the same number of workers. A stream that only this replica has was not
    /// reported, so none of it is in the start set.
    #[test]
    fn a_stream_that_has_no_cut_is_void() {
        let (term, arena) = two_streams();
        let scan = || ArenaScan::new(&arena, term, Vec::new(), &Settled::default());
        let of = |stream| scan().entries().filter(|seen| seen.stream == stream).count();
        assert_eq!(of(1), 1);
        scan().cut(&arena.memory, &[u64::MAX]);
        assert_eq!(of(1), 0);
        assert!(of(0) > 0);
    }

    /// A replica that led has floors of every stream of its own, and looked at nothing below them when it
    /// reported. A leader that knows nothing of one of these streams has all of it cut.
    #[test]
    fn a_stream_that_was_passed_over_when_it_reported_is_void_if_it_has_no_cut() {
        let (term, arena) = two_streams();
        let scan = |floors| ArenaScan::new(&arena, term, floors, &Settled::default());
        let of = |stream| scan(Vec::new()).entries().filter(|seen| seen.stream == stream).count();
        let reported = scan(vec![0, of(1) as u64]);
        assert_eq!(reported.entries().filter(|seen| seen.stream == 1).count(), 0);
        ArenaScan::down_to(Some(reported), &arena, term, vec![0]).cut(&arena.memory, &[u64::MAX]);
        assert_eq!(of(1), 0);
        assert!(of(0) > 0);
    }
}
