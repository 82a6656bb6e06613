//! An entry alone: garbage is refused, and every cut of a READ across an owner's change is judged rightly.

use std::sync::Arc;

use longarm_base::limits::{KEY_MAX, VALUE_MAX};
use longarm_base::{Csn, EntryRef, ReplicaId, Term, UnixMillis};
use longarm_memory::{Journal, OwnedWords, SumKey, Words};
use proptest::prelude::*;

use super::layout::{self, EntryKind, OperationId};
use super::*;
use crate::segment::Lane;

const AT: u64 = 128;
const TERM: Term = Term::new(5, ReplicaId(2));

fn sums() -> SumKey {
    SumKey::new(0x5EED)
}

fn room(term: Term, generation: u32) -> Room {
    Room { offset: AT, segment: 0, term, generation, lane: Lane::Write, class: Some(0) }
}

/// Writes an entry as a writer does, value in one piece.
fn write<M: OwnedWords>(
    memory: &M,
    generation: u32,
    csn: u64,
    key: &[u8],
    value: &[u8],
    meta: EntryMeta,
) -> EntryRef {
    write_in(memory, room(TERM, generation), csn, key, value, meta)
}

fn write_in<M: OwnedWords>(
    memory: &M,
    room: Room,
    csn: u64,
    key: &[u8],
    value: &[u8],
    meta: EntryMeta,
) -> EntryRef {
    let new = NewEntry { key, value_len: value.len(), meta };
    let mut draft = begin(memory, &sums(), room, 3, &Arc::default(), new);
    fill(memory, &sums(), &mut draft, 0, value, &mut Vec::new()).expect("fits");
    finish(memory, &sums(), draft, Csn(csn), csn * 10)
}

/// Wipes the room, as the claim of a segment does.
fn wipe<M: OwnedWords>(memory: &M) {
    memory.store(AT + layout::SUM, 0);
}

fn look(memory: &Journal, place: EntryRef) -> Vec<u8> {
    let mut bytes = vec![0; place.len as usize];
    memory.copy_out(place.offset, &mut bytes);
    bytes
}

proptest! {
    /// An image has the bytes that a writer would have written.
    #[test]
    fn an_image_of_an_entry_is_the_entry(
        key in proptest::collection::vec(any::<u8>(), 1..200),
        value in proptest::collection::vec(any::<u8>(), 0..3000),
        expiry in prop_oneof![Just(0u64), any::<u64>()],
        kind in prop_oneof![Just(EntryKind::Put), Just(EntryKind::Tombstone), Just(EntryKind::Move)],
        moved in any::<bool>(),
        csn in 1..=longarm_base::limits::CSN_MAX / 10,
    ) {
        let (journal, expiry) = (Journal::new(8192), UnixMillis(expiry));
        let meta = EntryMeta { moved, ..EntryMeta::of(kind) }.expiring(expiry);
        let place = write(&journal, 4, csn, &key, &value, meta);
        let image = EntryImage {
            csn: Csn(csn), kind, moved, expiry, position: csn * 10, stream: 3, term: TERM, generation: 4,
            key: &key, value: &value,
        };
        prop_assert_eq!(image.bytes(), place.len as usize);
        let mut bytes = vec![9; image.bytes()];
        image.write(place.offset, &sums(), &mut bytes);
        prop_assert_eq!(bytes, look(&journal, place));
    }

    #[test]
    fn an_entry_comes_back_whole(
        key in proptest::collection::vec(any::<u8>(), 1..200),
        value in proptest::collection::vec(any::<u8>(), 0..3000),
        (csn, generation) in (1..=longarm_base::limits::CSN_MAX, 1..=layout::GENERATION_MAX),
        term in (any::<u32>(), 0..=ReplicaId::MAX.0).prop_map(|(count, id)| Term::new(count, ReplicaId(id))),
        expiry in prop_oneof![Just(0u64), any::<u64>()],
        session in proptest::option::of((any::<u64>(), any::<u64>())),
        kind in prop_oneof![Just(EntryKind::Put), Just(EntryKind::Tombstone), Just(EntryKind::Noop)],
        cuts in proptest::collection::vec(0usize..3000, 0..4),
    ) {
        let journal = Journal::new(8192);
        let session = session.map(|(id, operation)| OperationId { id, operation });
        let meta = EntryMeta { session, ..EntryMeta::of(kind) }.expiring(UnixMillis(expiry));
        let new = NewEntry { key: &key, value_len: value.len(), meta };
        let mut draft = begin(&journal, &sums(), room(term, generation), 7, &Arc::default(), new);
        // The value comes in pieces of any length; the bytes are the same as in one piece.
        let mut ends: Vec<usize> = cuts.iter().map(|c| c % (value.len() + 1)).chain([value.len()]).collect();
        ends.sort();
        let mut at = 0;
        for end in ends {
            fill(&journal, &sums(), &mut draft, at as u64, &value[at..end],
                &mut Vec::new()).expect("in order");
            at = end;
        }
        let place = finish(&journal, &sums(), draft, Csn(csn), 99);
        let bytes = look(&journal, place);
        prop_assert_eq!(total_len(&bytes[..bytes.len().min(64)]), Ok(place.len));
        let entry = read(&bytes, AT, &sums()).expect("verifies");
        let wanted = Entry {
            csn: Csn(csn), kind, key: &key, value: &value, expiry: UnixMillis(expiry), session, position: 99,
            stream: 7, term, generation, superseded: false, moved: false,
        };
        prop_assert_eq!(entry, wanted);
        // The entry's writer reads the same, except a value that is longer than it wants.
        let mut own_bytes = Vec::new();
        let stored = own(&journal, AT, Csn(csn), &mut own_bytes, 48);
        let short = (value.len() <= 48).then_some(&value[..]);
        prop_assert_eq!(stored, Stored { value: short, ..Stored::from(&wanted) });
        // At another place, under another key, or with any bit flipped it is no entry.
        prop_assert_eq!(read(&bytes, AT + 64, &sums()), Err(EntryError::Torn));
        prop_assert_eq!(read(&bytes, AT, &SumKey::new(1)), Err(EntryError::Torn));
        let used = layout::header_len(meta.flags()) + key.len() + value.len();
        for bit in (0..used * 8).step_by(7).filter(|&bit| bit != 64) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(read(&flipped, AT, &sums()).is_err(), "bit {}", bit);
        }
    }

    #[test]
    fn an_entry_without_key_and_value_comes_back_whole(
        expiry in prop_oneof![Just(0u64), any::<u64>()],
        session in proptest::option::of((any::<u64>(), any::<u64>())),
    ) {
        let journal = Journal::new(8192);
        let session = session.map(|(id, operation)| OperationId { id, operation });
        let meta = EntryMeta { session, ..EntryMeta::of(EntryKind::Noop) }.expiring(UnixMillis(expiry));
        let new = NewEntry { key: &[], value_len: 0, meta };
        let draft = begin(&journal, &sums(), room(Term::ZERO, 1), 7, &Arc::default(), new);
        let place = finish(&journal, &sums(), draft, Csn(5), 99);
        let bytes = look(&journal, place);
        let entry = read(&bytes, AT, &sums()).expect("verifies");
        prop_assert_eq!((entry.session, entry.expiry, entry.key), (session, UnixMillis(expiry), &[][..]));
    }

    #[test]
    fn garbage_is_refused_and_never_panics(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        lengths in prop_oneof![
            any::<u64>(),
            (0usize..2048, 0usize..(1 << 27)).prop_map(|(k, v)| layout::lengths_word(k, v, 9)),
            (0usize..3, 0usize..5).prop_map(|(k, v)| layout::lengths_word(KEY_MAX + k - 1,
                VALUE_MAX + v - 2, 9)),
            (0usize..300, 0usize..300).prop_map(|(k, v)| layout::lengths_word(k, v, 0)),
        ],
        (kind, flags) in (0u64..16, 0u64..512),
        offset in any::<u64>(),
    ) {
        if bytes.len() >= 40 {
            bytes[24..32].copy_from_slice(&lengths.to_le_bytes());
            let version = 5 | kind << 51 | flags << 55;
            bytes[16..24].copy_from_slice(&version.to_le_bytes());
        }
        prop_assert!(read(&bytes, offset, &sums()).is_err());
        if let Ok(len) = total_len(&bytes) {
            prop_assert!(len as usize <= layout::ENTRY_MAX && len % 8 == 0);
        }
    }

    /// A truncated copy of a whole entry says how much it lacks.
    #[test]
    fn a_short_read_says_so(value_len in 0usize..500, cut in 0usize..500) {
        let journal = Journal::new(4096);
        let place = write(&journal, 1, 5, b"key", &vec![9; value_len], EntryMeta::PUT);
        let bytes = look(&journal, place);
        let cut = cut.min(bytes.len() - 1);
        let need = if cut < 40 { 40 } else { place.len };
        prop_assert_eq!(read(&bytes[..cut], AT, &sums()), Err(EntryError::Short { need, have: cut as u32 }));
    }
}

#[test]
fn lengths_at_their_limits() {
    let line = |key: usize, value: usize, kind: u64, csn: u64| {
        let mut bytes = [1u8; 64];
        bytes[16..24].copy_from_slice(&(csn | kind << 51).to_le_bytes());
        bytes[24..32].copy_from_slice(&layout::lengths_word(key, value, 1).to_le_bytes());
        bytes
    };
    let most = layout::entry_len(0, KEY_MAX, VALUE_MAX) as u32;
    assert_eq!(total_len(&line(KEY_MAX, VALUE_MAX, 1, 5)), Ok(most));
    let need = EntryError::Short { need: most, have: 64 };
    assert_eq!(read(&line(KEY_MAX, VALUE_MAX, 1, 5), AT, &sums()), Err(need));
    assert_eq!(total_len(&line(KEY_MAX + 1, 0, 1, 5)), Err(EntryError::Malformed("key length")));
    assert_eq!(total_len(&line(0, 0, 1, 5)), Err(EntryError::Malformed("key length")));
    assert_eq!(total_len(&line(0, 0, 4, 5)), Ok(40), "a no-op needs no key");
    assert_eq!(total_len(&line(1, VALUE_MAX + 1, 1, 5)), Err(EntryError::Malformed("value length")));
    assert_eq!(total_len(&line(1, 1, 5, 5)), Err(EntryError::Malformed("kind")));
    assert_eq!(total_len(&line(1, 1, 0, 5)), Err(EntryError::Malformed("kind")));
    assert_eq!(total_len(&line(1, 1, 1, 0)), Err(EntryError::Malformed("csn")));
    assert_eq!(total_len(&line(1, 1, 1 | 8 << 4, 5)), Err(EntryError::Malformed("flags")));
    let mut beyond = line(1, 1, 1, 5);
    beyond[31] = 0x80;
    assert_eq!(total_len(&beyond), Err(EntryError::Malformed("word of lengths")));
    let mut empty = line(1, 1, 1, 5);
    empty[..8].fill(0);
    assert_eq!(total_len(&empty), Err(EntryError::Empty));
    assert_eq!(read(&empty, AT, &sums()), Err(EntryError::Empty));
}

#[test]
fn pieces_come_in_order_and_within_the_length() {
    let journal = Journal::new(4096);
    let new = NewEntry { key: b"k", value_len: 10, meta: EntryMeta::PUT };
    let mut draft = begin(&journal, &sums(), room(TERM, 1), 0, &Arc::default(), new);
    let mut put = |at, bytes: &[u8]| fill(&journal, &sums(), &mut draft, at, bytes, &mut Vec::new());
    assert_eq!(put(0, b"abc"), Ok(()));
    assert_eq!(put(4, b"x"), Err(crate::FillError::Order { expected: 3, got: 4 }));
    assert_eq!(put(0, b"x"), Err(crate::FillError::Order { expected: 3, got: 0 }));
    assert_eq!(put(3, b"defghijk"), Err(crate::FillError::Beyond { end: 11, len: 10 }));
    assert_eq!(put(3, b"defghij"), Ok(()));
    assert_eq!(draft.missing(), 0);
}

/// An entry that an accepted cut may be, whole, and when it was there.
struct Story<'a> {
    csn: u64,
    value: &'a [u8],
    /// Moments from the last store that made it valid to the last before it went.
    valid: (usize, usize),
    /// The moment of the store that superseded it.
    superseded_at: usize,
}

/// Checks that every cut of a READ of `len` bytes is refused, or is one whole entry that was there within the
/// READ's interval. A cut that says "not superseded" must reach to a moment before that bit was stored.
fn judge(journal: &Journal, len: usize, from: usize, to: usize, stories: &[Story<'_>]) -> (usize, usize) {
    let (mut accepted, mut refused) = (0, 0);
    for cut in journal.cuts(AT, len, from, to) {
        let Ok(entry) = read(&cut.bytes, AT, &sums()) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        let (lo, hi) = cut.interval();
        let story = stories.iter().find(|s| s.csn == entry.csn.0).expect("an entry somebody wrote");
        assert_eq!((entry.key, entry.value), (&b"the same key"[..], story.value), "torn");
        assert!(lo <= story.valid.1 && hi >= story.valid.0, "{lo}..={hi} csn {}", story.csn);
        if entry.superseded {
            assert!(hi >= story.superseded_at, "seen superseded before it was");
        } else {
            assert!(lo < story.superseded_at, "seen current after it was superseded");
        }
    }
    (accepted, refused)
}

#[test]
fn all_cuts_of_a_finish_in_a_fresh_room() {
    let journal = Journal::new(1024);
    let value = [7; 100];
    let place = write(&journal, 1, 5, b"the same key", &value, EntryMeta::PUT);
    let end = journal.now();
    let story = Story { csn: 5, value: &value, valid: (end, usize::MAX), superseded_at: usize::MAX };
    let (accepted, refused) = judge(&journal, place.len as usize, 0, end, &[story]);
    assert!(accepted > 0 && refused > 100, "{accepted} {refused}");
}

/// A local inspector, which looks at one moment, finds an empty room up to the last store, and then the whole
/// entry. It never finds a broken one, also over the bytes of an older entry.
#[test]
fn every_moment_of_a_draft_is_empty_or_whole() {
    let journal = Journal::new(1024);
    for (csn, len) in [(5, 100), (6, 40), (7, 100)] {
        wipe(&journal);
        let begin = journal.now();
        let value = vec![csn as u8; len];
        let meta = EntryMeta::PUT.expiring(UnixMillis(csn)).by(OperationId { id: csn, operation: 1 });
        let place = write(&journal, csn as u32, csn, b"the same key", &value, meta);
        let end = journal.now();
        for moment in begin..end {
            let bytes = journal.at(moment, AT, place.len as usize);
            assert_eq!(
                read(&bytes, AT, &sums()),
                Err(EntryError::Empty),
                "moment {moment} of {begin}..{end}"
            );
        }
        assert_eq!(read(&look(&journal, place), AT, &sums()).expect("whole").value, value);
    }
}

#[test]
fn all_cuts_of_supersede_and_reuse_by_an_entry_of_the_same_shape() {
    // The second value shares words with the first, so that lines of both fit together as far as possible.
    let mut values = [[7u8; 100]; 2];
    values[1][40..60].fill(8);
    for (second, generation) in [(values[1], 2), (values[0], 2), (values[0], 1)] {
        let journal = Journal::new(1024);
        let place = write(&journal, 1, 5, b"the same key", &values[0], EntryMeta::PUT);
        let begin = journal.now();
        assert_eq!(supersede(&journal, place, Csn(5)), Some(place.units()));
        let superseded_at = journal.now();
        wipe(&journal);
        let wiped = journal.now();
        let again = write(&journal, generation, 6, b"the same key", &second, EntryMeta::PUT);
        assert_eq!(again, place);
        let written = journal.now();
        supersede(&journal, again, Csn(6));
        let end = journal.now();
        let stories = [
            Story { csn: 5, value: &values[0], valid: (begin, wiped - 1), superseded_at },
            Story { csn: 6, value: &second, valid: (written, end), superseded_at: end },
        ];
        let (accepted, refused) = judge(&journal, place.len as usize, begin, end, &stories);
        assert!(accepted > 3 && refused > 5, "{accepted} {refused}");
    }
}

#[test]
fn all_cuts_of_reuse_by_entries_of_other_lengths() {
    for (first, second) in [(60, 130), (130, 60), (0, 130), (130, 0)] {
        let (old, new) = (vec![1; first], vec![2; second]);
        let journal = Journal::new(1024);
        let place = write(&journal, 1, 5, b"the same key", &old, EntryMeta::PUT);
        let begin = journal.now();
        supersede(&journal, place, Csn(5));
        let superseded_at = journal.now();
        wipe(&journal);
        let wiped = journal.now();
        let again = write(&journal, 2, 6, b"the same key", &new, EntryMeta::PUT);
        let end = journal.now();
        for len in [place.len, again.len] {
            let stories = [
                Story { csn: 5, value: &old, valid: (begin, wiped - 1), superseded_at },
                Story { csn: 6, value: &new, valid: (end, end), superseded_at: usize::MAX },
            ];
            assert!(judge(&journal, len as usize, begin, end, &stories).0 > 0);
        }
    }
}

/// A writer that stores the checksum first, as an end byte over reused memory in effect does (L5), is caught
/// by the same judgement: the test can fail.
#[test]
fn the_judgement_finds_an_entry_without_a_wipe() {
    let journal = Journal::new(1024);
    let value = [7; 100];
    let place = write(&journal, 1, 5, b"the same key", &value, EntryMeta::PUT);
    supersede(&journal, place, Csn(5));
    let begin = journal.now();
    // The room is reused under the same generation without a wipe: only the mark is fresh, and the old entry
    // seems current.
    journal.store(AT + layout::MARK, layout::mark_word(TERM, 1));
    let end = journal.now();
    let story = || Story { csn: 5, value: &value, valid: (begin, end), superseded_at: begin };
    let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        judge(&journal, place.len as usize, begin, end, &[story()])
    }));
    assert!(judged.is_err());
}

/// A follower wipes nothing: a leader's WRITE lands over the bytes of an older use, in any order of its
/// words. Until all of it has landed only the old entry verifies. It names another term, even if it has the
/// generation, the version and the value of the new entry (L4, L16).
#[test]
fn an_entry_that_lands_over_one_of_an_older_term_is_never_taken_for_it() {
    let older = Term::new(TERM.counter() - 1, TERM.leader());
    for (csn, value) in [(5, [7u8; 100]), (6, [8; 100])] {
        let (stale, fresh) = (Journal::new(1024), Journal::new(1024));
        let place = write_in(&stale, room(older, 1), 5, b"the same key", &[7; 100], EntryMeta::PUT);
        assert_eq!(write_in(&fresh, room(TERM, 1), csn, b"the same key", &value, EntryMeta::PUT), place);
        let (old, new) = (look(&stale, place), look(&fresh, place));
        assert_eq!(read(&old, AT, &sums()).expect("whole").term, older);
        assert_eq!(read(&new, AT, &sums()).expect("whole").term, TERM);
        let mut marked = old.clone();
        marked[8..16].copy_from_slice(&new[8..16]);
        assert_eq!(read(&marked, AT, &sums()), Err(EntryError::Torn));
        // Of each line the first words have landed, or the last.
        let ways = 16u32;
        let lines = new.len().div_ceil(64) as u32;
        for way in 0..ways.pow(lines) {
            let landed = |at: usize| {
                let (line, word) = ((at / 64) as u32, (at / 8 % 8) as u32);
                let way = way / ways.pow(line) % ways;
                if way < 8 { word < way } else { word >= way - 8 }
            };
            let bytes: Vec<u8> =
                (0..new.len()).map(|at| if landed(at) { new[at] } else { old[at] }).collect();
            match read(&bytes, AT, &sums()) {
                Ok(entry) if entry.term == older => {
                    assert_eq!((entry.csn, entry.value), (Csn(5), &[7; 100][..]))
                }
                Ok(entry) => assert_eq!((entry.term, entry.csn, entry.value), (TERM, Csn(csn), &value[..])),
                Err(error) => assert!(matches!(error, EntryError::Torn), "{error}"),
            }
        }
    }
}

#[test]
fn an_entry_is_superseded_once() {
    let journal = Journal::new(1024);
    let place = write(&journal, 1, 5, b"k", b"v", EntryMeta::PUT);
    assert_eq!(supersede(&journal, place, Csn(5)), Some(1));
    assert_eq!(supersede(&journal, place, Csn(5)), None);
    let entry = look(&journal, place);
    assert!(read(&entry, AT, &sums()).expect("still whole").superseded);
}

#[test]
#[should_panic(expected = "the index names version")]
fn superseding_another_version_is_a_crash() {
    let journal = Journal::new(1024);
    let place = write(&journal, 1, 5, b"k", b"v", EntryMeta::PUT);
    supersede(&journal, place, Csn(6));
}

#[test]
#[should_panic(expected = "before its value was complete")]
fn finishing_early_is_a_crash() {
    let journal = Journal::new(1024);
    let new = NewEntry { key: b"k", value_len: 3, meta: EntryMeta::PUT };
    let draft = begin(&journal, &sums(), room(TERM, 1), 0, &Arc::default(), new);
    finish(&journal, &sums(), draft, Csn(1), 0);
}
