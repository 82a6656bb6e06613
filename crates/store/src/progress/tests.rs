//! Words come back as they were stored, and those of another term or position do not count.

use longarm_base::{Csn, ReplicaId, Term};
use longarm_memory::{Backing, Mapped, Region, RegionOptions, Words};
use proptest::prelude::*;

use super::layout::{self, DIRECTORY, line_at};
use super::{DirectoryRange, ProgressWords, StreamMarks};

const TERM: Term = Term::new(7, ReplicaId(2));

fn memory(streams: usize) -> Mapped {
    let bytes = layout::bytes(streams);
    let options = RegionOptions { name: "progress".into(), bytes, backing: Backing::Memory };
    Region::create(&options).expect("a region").memory().clone()
}

fn marks(memory: &Mapped, stream: usize, term: Term) -> Option<StreamMarks> {
    let mut bytes = vec![0; line_at(stream + 1) as usize];
    memory.copy_out(0, &mut bytes);
    StreamMarks::parse(&bytes[line_at(stream) as usize..], term)
}

#[test]
fn a_line_says_how_far_its_stream_is_in_its_own_term_alone() {
    let memory = memory(3);
    assert_eq!(marks(&memory, 1, TERM), None, "no term has begun");
    let words = ProgressWords::begin(memory.clone(), 1, TERM);
    assert_eq!(marks(&memory, 1, TERM), Some(StreamMarks::default()));
    words.set_low(Some(Csn(5)));
    words.wrote(0, 640);
    words.wrote(1, 704);
    words.set_committed(1);
    words.set_applied(1, Some(Csn(6)));
    let seen = StreamMarks { written: 2, committed: 1, applied: 1 };
    assert_eq!(marks(&memory, 1, TERM), Some(seen));
    assert_eq!((words.written(), words.applied(), words.low()), (2, 1, Some(Csn(6))));
    assert!(words.is_applied(0) && !words.is_applied(1));
    assert_eq!(marks(&memory, 1, Term::new(8, ReplicaId(2))), None);
    assert_eq!((marks(&memory, 0, TERM), marks(&memory, 2, TERM)), (None, None));
    let next = ProgressWords::begin(memory.clone(), 1, Term::new(8, ReplicaId(2)));
    assert_eq!((next.written(), next.low()), (0, None));
    assert_eq!((words.written(), words.applied()), (0, 0), "the term of those words is over");
}

proptest! {
    #[test]
    fn a_directory_has_the_places_of_the_last_positions(
        first in 0u64..3 * DIRECTORY, count in 1u64..70, most in 1u64..40,
    ) {
        let memory = memory(2);
        let words = ProgressWords::begin(memory.clone(), 1, TERM);
        let offset = |position: u64| 64 * (position + 1);
        (first..first + count).for_each(|position| words.wrote(position, offset(position)));
        let read = |from: u64, to: u64| {
            let range = DirectoryRange::of(1, from, to, most);
            let place = range.place();
            let mut bytes = vec![0; place.len as usize];
            memory.copy_out(place.offset, &mut bytes);
            range.offsets(&bytes).collect::<Vec<_>>()
        };
        let (mut from, end) = (first, first + count);
        while from < end {
            let found = read(from, end);
            prop_assert!(!found.is_empty() && found.len() as u64 <= most);
            for found in found {
                prop_assert_eq!(found, Some(offset(from)));
                from += 1;
            }
        }
        // The same words one round of the directory earlier and later.
        prop_assert!(read(first + DIRECTORY, end + DIRECTORY).iter().all(Option::is_none));
    }
}
