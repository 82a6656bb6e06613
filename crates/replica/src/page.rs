//! The page by which a leader tells a passive follower that it lives, and what the follower is known to have.
//! Frozen: replicas of neighbouring versions write each other's pages.
//!
//! ```text
//!  0  beat: term (39 bits) << 24 | number of the heartbeat, modulo 2^24, never zero
//!  8  stable point: the csn up to which everything is applied or aborted
//! 16  items in the index of that leader, about: how large a next one should be made; zero if unknown
//! 24  that leader's calendar when the heartbeat was sent, in unix milliseconds; zero if unknown. If
//!     that leader ended its lease to hand over: its last calendar less a promise, since a new leader's begins
//!     a promise later
//! 32  two versions that are in every later start set, each with the time for which it has been drawn at
//!     least: csn << 16 | time in units of 16 ms, the older version first; zero if unknown
//! 48  zeroes
//! 64  floors: for each stream of the term, positions that this follower has acknowledged
//! then a line of
//!  0  released: the packed term of a leader that has ended its lease, to hand over
//!  8  reclaimed: segments of which this follower was told, in its sync term, that they are free
//! 16  ceiling: no version up to this one is drawn in a later term, though no entry may have it: writes that
//!     had them were lost with the power
//! ```
//! The leader of the follower's term writes the page, by one-sided WRITEs; the follower writes it when it
//! takes another term, and reads it. Each word is whole; the words need not be of one moment. Each word only
//! grows within a term, except the calendar at its end. A heartbeat is one WRITE from the beat to the floors
//! ([`heartbeat`]); the words that it must not touch come after them.

use longarm_base::{Csn, Nanos, Term};

use crate::Timing;

/// Offset of the beat.
pub const BEAT: u64 = 0;
/// Offset of the stable point.
pub const STABLE: u64 = 8;
/// Offset of the number of items.
pub const ITEMS: u64 = 16;
/// Offset of the leader's calendar.
pub const UNIX: u64 = 24;
/// Offsets of the two versions whose ages the leader knows.
pub const AGES: [u64; 2] = [32, 40];
/// Offset of the floors.
pub const FLOORS: u64 = 64;
/// Offset of the word that releases a promise.
pub const RELEASED: u64 = floor_at(longarm_wire::STREAMS_MAX);
/// Offset of the count of reclaimed segments.
pub const RECLAIMED: u64 = RELEASED + 8;
/// Offset of the ceiling of versions.
pub const CEILING: u64 = RECLAIMED + 8;
/// Bytes of a page.
pub const BYTES: u64 = RELEASED + 64;

/// Offset of the floor of a stream.
pub const fn floor_at(stream: usize) -> u64 {
    FLOORS + 8 * stream as u64
}

/// The bytes of a heartbeat, from [`BEAT`] on; with the floors of all streams, once the follower is synced.
pub fn heartbeat(beat: Beat, told: HeartbeatPayload, floors: &[u64]) -> Vec<u8> {
    let zeroes = if floors.is_empty() { 0 } else { (FLOORS - AGES[1]) / 8 - 1 };
    let words = [beat.0, told.stable, told.items, told.unix]
        .into_iter()
        .chain(told.ages)
        .chain((0..zeroes).map(|_| 0))
        .chain(floors.iter().copied());
    words.flat_map(u64::to_le_bytes).collect()
}

/// The part of a heartbeat that is the same for every follower.
#[derive(Clone, Copy, Debug)]
pub struct HeartbeatPayload {
    /// The stable point.
    pub stable: u64,
    /// Items in the leader's index, about.
    pub items: u64,
    /// The leader's calendar now, in unix milliseconds.
    pub unix: u64,
    /// Two versions and their ages ([`age_word`]).
    pub ages: [u64; 2],
}

const AGE_BITS: u32 = 16;
/// The unit in which an age is told. Ages up to 17 minutes can be.
const AGE_UNIT: u64 = 16_000_000;

/// A version that was drawn so long ago, at least, as one word.
pub fn age_word(csn: Csn, age: Nanos) -> u64 {
    // What cannot be told is left out: then a next leader knows less.
    let told = csn.0.leading_zeros() >= AGE_BITS;
    if told { csn.0 << AGE_BITS | (age.0 / AGE_UNIT).min((1 << AGE_BITS) - 1) } else { 0 }
}

/// The version of such a word, and its age.
pub fn age_of(word: u64) -> (Csn, Nanos) {
    (Csn(word >> AGE_BITS), Nanos(word % (1 << AGE_BITS) * AGE_UNIT))
}

/// The calendar that a page states for a leader whose lease has ended, if the page said `unix` last. A new
/// leader's calendar begins a promise after what pages say, as it must if a lease may have run on.
pub fn calendar_at_end(unix: u64, timing: &Timing) -> u64 {
    unix.saturating_sub(timing.promise_millis())
}

const NUMBER_BITS: u32 = 24;

/// A heartbeat: its term and its number. Any change of it is a sign of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beat(pub u64);

impl Beat {
    /// Heartbeat `number` of a term.
    pub const fn new(term: Term, number: u64) -> Beat {
        let number = number % ((1 << NUMBER_BITS) - 1) + 1;
        Beat(term.bits() << NUMBER_BITS | number)
    }

    /// Its term; `None` if there was no heartbeat yet, or the word cannot be one.
    pub const fn term(self) -> Option<Term> {
        if self.0 == 0 { None } else { Term::from_bits(self.0 >> NUMBER_BITS) }
    }

    /// How many heartbeats it is later than `older`; `None` if it is not a later heartbeat of the same term.
    pub fn since(self, older: Beat) -> Option<u64> {
        let numbers = (1 << NUMBER_BITS) - 1;
        let number = |beat: Beat| beat.0 % (1 << NUMBER_BITS);
        let later = (number(self) + numbers).checked_sub(number(older))? % numbers;
        (self.term().is_some() && self.term() == older.term() && later > 0).then_some(later)
    }
}

const _: () = {
    assert!(Term::BITS + NUMBER_BITS <= 64);
    assert!(BYTES.is_multiple_of(64));
};

#[cfg(test)]
mod tests {
    use super::*;
    use longarm_base::ReplicaId;

    #[test]
    fn a_heartbeat_touches_nothing_that_stands_behind_the_floors() {
        let beat = Beat::new(Term::new(3, ReplicaId(2)), 7);
        let word = |bytes: &[u8], at: u64| {
            u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().expect("a word"))
        };
        let told = HeartbeatPayload { stable: 5, items: 6, unix: 7, ages: [8, 9] };
        assert_eq!(heartbeat(beat, told, &[]).len(), 48, "of one that is not synced: its floors stay");
        let most: Vec<u64> = (100..100 + longarm_wire::STREAMS_MAX as u64).collect();
        let bytes = heartbeat(beat, told, &most);
        let words = [BEAT, STABLE, ITEMS, UNIX, AGES[0], AGES[1]].map(|at| word(&bytes, at));
        assert_eq!(words, [beat.0, 5, 6, 7, 8, 9]);
        assert!((0..most.len()).all(|stream| word(&bytes, floor_at(stream)) == most[stream]));
        assert!(bytes.len() as u64 <= RELEASED && RECLAIMED + 8 <= BYTES);
    }

    #[test]
    fn an_age_is_told_as_no_more_than_it_is() {
        let told = |csn, age| age_of(age_word(Csn(csn), Nanos(age)));
        assert_eq!(told(7, 3 * AGE_UNIT + 1), (Csn(7), Nanos(3 * AGE_UNIT)));
        assert_eq!(told(7, AGE_UNIT - 1), (Csn(7), Nanos(0)));
        assert_eq!(told((1 << 48) - 1, u64::MAX), (Csn((1 << 48) - 1), Nanos(65_535 * AGE_UNIT)));
        assert_eq!(told(1 << 48, 1 << 40), (Csn(0), Nanos(0)), "there is no room for it");
    }

    #[test]
    fn each_heartbeat_differs_from_the_one_before() {
        let term = Term::new(3, ReplicaId(2));
        let mut before = Beat::default();
        for number in [0, 1, 2, (1 << 24) - 3, (1 << 24) - 2, (1 << 24) - 1, 1 << 24] {
            let beat = Beat::new(term, number);
            assert_ne!(beat, before);
            assert_eq!(beat.term(), Some(term));
            assert_eq!(beat.since(beat), None);
            assert_eq!(Beat::new(term, number + 3).since(beat), Some(3));
            assert_eq!(Beat::new(Term::new(4, ReplicaId(2)), number + 3).since(beat), None);
            before = beat;
        }
        assert_eq!(Beat::default().term(), None);
    }
}
