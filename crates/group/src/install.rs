//! The start set in a candidate's own memory (M3). The candidate fetches the entries that it lacks and voids
//! those beyond the cuts; an engine is then built over what is there.

use std::collections::BTreeSet;
use std::ops::Range;

use longarm_base::limits::READ_MAX;
use longarm_base::{EntryRef, Mutant, ReplicaId, Term};
use longarm_fabric::Transport;
use longarm_host::now;
use longarm_host::observe::{ReplicaStep, reach};
use longarm_memory::Mapped;
use longarm_replica::StartSet;
use longarm_store::segment::{ArenaGeometry, Line};
use longarm_store::{Settled, survey};
use longarm_wire::{Answer, Ask, EntryAt, PLACES_MAX};

use super::OWN_HEADER;
use crate::checked_arena::CheckedArena;
use crate::merge::{Fetched, Merge};
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
    let mut merge = Merge::new(arena, start.base);
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
                if merge.fetch(&mut bulk, entry, until + patience.limit)? == Fetched::Over {
                    continue;
                }
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
    whole &= merge.settle(&mut entries);
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
