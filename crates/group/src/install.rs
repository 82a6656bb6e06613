//! The start set in a candidate's own memory (M3). The candidate fetches the entries that it lacks and voids
//! those beyond the cuts; an engine is then built over what is there.

use std::collections::BTreeSet;
use std::ops::Range;

use longarm_base::limits::{LINE, READ_MAX, SEGMENT_BYTES};
use longarm_base::{EntryRef, Mutant, Nanos, Place, ReplicaId, Term};
use longarm_fabric::Transport;
use longarm_host::now;
use longarm_host::observe::{ReplicaStep, reach};
use longarm_memory::{Mapped, OwnedWords};
use longarm_replica::StartSet;
use longarm_store::segment::layout::line_at;
use longarm_store::segment::{ArenaGeometry, Line, SegmentState};
use longarm_store::{Settled, survey, whole_entry};
use longarm_wire::{ARENA_REGION, Answer, Ask, EntryAt, PLACES_MAX};

use super::OWN_HEADER;
use crate::checked_arena::CheckedArena;
use crate::peer_channel::{Bulk, Patience, PeerAddress, PeerError};
use crate::scan::{ArenaScan, ScannedEntry};

/// The entries of a start set's base term that some follower may lack.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Whether the start set is here without a gap. If it has a gap, followers must not be taken to hold it:
    /// a follower of the same base may have what is missing here, and would keep it.
    pub whole: bool,
    /// By stream, the position from which on `entries` has all entries.
    pub from: Vec<u64>,
    pub entries: Vec<ScannedEntry>,
}

/// Completes the arena to the start set: fetches the entries that only other replicas have, and voids all
/// that is beyond the cuts. `scan` is what this replica found in its memory after the fence.
pub(crate) fn complete<T: Transport>(
    arena: &CheckedArena<Mapped>,
    scan: Option<ArenaScan>,
    start: &StartSet,
    me: ReplicaId,
    peer_address: impl Fn(ReplicaId) -> Option<PeerAddress<T>>,
    patience: Patience<'_>,
) -> Result<Tail, PeerError> {
    forget_younger(arena, start.base);
    let (cuts, from): (Vec<u64>, Vec<u64>) =
        start.cuts.iter().zip(&start.own).map(|(cut, own)| (cut.len, own.floor.min(cut.len))).unzip();
    let scan = ArenaScan::down_to(scan, arena, start.base, from.clone());
    let mut whole = true;
    let kept = |seen: &ScannedEntry| cuts.get(seen.stream).is_some_and(|&cut| seen.position < cut);
    let mut entries: Vec<ScannedEntry> = scan.entries().filter(kept).collect();
    for (stream, (cut, own)) in start.cuts.iter().zip(&start.own).enumerate() {
        if cut.holder == me || cut.len <= own.len {
            continue;
        }
        let address = peer_address(cut.holder).ok_or(PeerError::Confused)?;
        let until = now() + patience.limit;
        let (mut channel, mut bulk) =
            (address.channel()?, Bulk::new(address.memory(start.term, READ_MAX)?, patience.worth));
        let mut next = own.len;
        let before = entries.len();
        while next < cut.len {
            let ask = Ask::Fetch { term: start.term, stream: stream as u16, from: next };
            let places = channel
                .settle(&ask, until, patience.worth, |answer| matches!(answer, Answer::Places { .. }))?;
            let Answer::Places { entries: found } = places else { unreachable!("nothing else was wanted") };
            for entry in found.iter().filter(|entry| entry.position < cut.len) {
                fetch(arena, &mut bulk, start.base, entry, until + patience.limit)?;
                let place = EntryRef { offset: entry.offset, len: entry.len };
                entries.push(ScannedEntry { stream, position: entry.position, place });
                reach(ReplicaStep::Fetched);
            }
            let all = found.len() < PLACES_MAX;
            next = found.last().filter(|_| !all).map_or(cut.len, |last| last.position + 1);
        }
        // An entry that is missing was reclaimed on the holder. Or the holder was catching up with a start
        // set in which the entry is cut off, and reported what it was counted for before.
        whole &= fill(&entries[before..], own.len..cut.len);
    }
    scan.cut(&arena.memory, &cuts);
    reach(ReplicaStep::Completed);
    Ok(Tail { whole, from, entries })
}

/// Whether these entries, whose positions are all in the range, have each of its positions.
fn fill(entries: &[ScannedEntry], range: Range<u64>) -> bool {
    let positions: BTreeSet<u64> = entries.iter().map(|seen| seen.position).collect();
    positions.len() as u64 == range.end - range.start || Mutant::HideGaps.is_on()
}

/// Forgets the claims of terms younger than the base: this replica never came to hold their start sets.
fn forget_younger(arena: &CheckedArena<Mapped>, base: Term) {
    let CheckedArena { memory, sums } = arena;
    let geometry = ArenaGeometry::read(memory, sums).expect(OWN_HEADER);
    for segment in geometry.table..geometry.segments {
        let young = Line::read(memory, sums, segment).is_ok_and(|line| line.term > base);
        if young {
            longarm_store::segment::forget(memory, sums, segment);
        }
    }
}

/// Fetches one entry, and the lines of the segments that it is in. Bytes that do not verify are an error, and
/// never replace a line that verifies.
pub(super) fn fetch<Q: longarm_fabric::QueuePair>(
    arena: &CheckedArena<Mapped>,
    bulk: &mut Bulk<'_, Q>,
    base: Term,
    entry: &EntryAt,
    until: Nanos,
) -> Result<(), PeerError> {
    let CheckedArena { memory, sums } = arena;
    let geometry = ArenaGeometry::read(memory, sums).expect(OWN_HEADER);
    let (offset, len) = (entry.offset, u64::from(entry.len).next_multiple_of(8));
    let segment = (offset / SEGMENT_BYTES) as u32;
    let last = ((offset + len.max(1) - 1) / SEGMENT_BYTES) as u32;
    if segment < geometry.table || last >= geometry.segments || !offset.is_multiple_of(LINE) {
        return Err(PeerError::Broken(format!("it named an entry of {len} bytes at {offset:#x}")));
    }
    let bad = |what: String| PeerError::Broken(format!("{what}, which it sent, is not what it named"));
    for segment in segment..=last {
        let place = Place::new(ARENA_REGION, line_at(segment), LINE as u32);
        let bytes = bulk.read(place, until)?;
        let line = Line::from_bytes(bytes, sums, segment);
        if !line.is_ok_and(|line| line.term == base && line.state != SegmentState::Free) {
            return Err(bad(format!("the line of segment {segment}")));
        }
        memory.copy_in(line_at(segment), bytes);
    }
    copy(memory, bulk, offset, len, until)?;
    match whole_entry(memory, sums, segment, offset) {
        Some((position, place)) if (position, place.len) == (entry.position, entry.len) => Ok(()),
        _ => Err(bad(format!("the entry at {offset:#x}"))),
    }
}

fn copy<Q: longarm_fabric::QueuePair>(
    memory: &Mapped,
    bulk: &mut Bulk<'_, Q>,
    offset: u64,
    len: u64,
    until: Nanos,
) -> Result<(), PeerError> {
    let mut at = 0;
    while at < len {
        let size = (len - at).min(u64::from(READ_MAX)) as u32;
        let bytes = bulk.read(Place::new(ARENA_REGION, offset + at, size), until)?;
        memory.copy_in(offset + at, bytes);
        at += u64::from(size);
    }
    Ok(())
}

/// Finds where the entries of a stream are, from the position `from` on: the answer to a candidate that
/// fetches them. The term has `streams` streams, or more.
pub(crate) fn places(
    arena: &CheckedArena<Mapped>,
    term: Term,
    streams: usize,
    stream: u16,
    from: u64,
) -> Vec<EntryAt> {
    let mut floors = vec![u64::MAX; streams.max(usize::from(stream) + 1)];
    floors[usize::from(stream)] = from;
    let mut survey =
        survey(&arena.memory, &arena.sums, term, &floors, &Settled::default()).expect(OWN_HEADER);
    let found = survey.streams.swap_remove(usize::from(stream));
    let at = |(position, place): (u64, EntryRef)| EntryAt { position, offset: place.offset, len: place.len };
    found.tail.into_iter().chain(found.beyond).map(at).collect()
}

/// A replica that was catching up with another start set reported entries that are cut off in that one. A
/// leader that did not find them there had a gap in its own start set, where a follower had all of them.
#[test]
fn a_start_set_with_a_gap_is_not_taken_for_a_whole_one() {
    let place = EntryRef { offset: 0, len: 0 };
    let filled = |positions: &[u64], range: Range<u64>| {
        let seen = |&position: &u64| ScannedEntry { stream: 0, position, place };
        fill(&positions.iter().map(seen).collect::<Vec<_>>(), range)
    };
    assert!(filled(&[], 5..5));
    assert!(filled(&[7, 5, 6], 5..8));
    assert!(filled(&[5, 6, 6, 7], 5..8), "a leader wrote one of them twice");
    assert!(!filled(&[5, 7], 5..8));
    assert!(!filled(&[5, 6], 5..8));
    assert!(!filled(&[], 5..6));
}
