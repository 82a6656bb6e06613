use longarm_base::ReplicaId;
use longarm_base::limits::SEGMENT_BYTES;
use proptest::prelude::*;

use super::*;
use crate::layout::file_bytes;
use crate::sectors::SectorMedium;
use crate::{Found, Shape};

const SHAPE: Shape = Shape { group: 7, segments: 3, table: 1 };
const STREAMS: usize = 2;
const TERM: Term = Term::new(1, ReplicaId(0));
const ENTRY: u64 = 192;

/// A leader's arena: each stream fills a segment of its own with entries that name their version and
/// themselves.
struct Leader {
    arena: Vec<u8>,
    /// By stream: the version of each position.
    versions: [Vec<u64>; STREAMS],
    csn: u64,
}

fn place(stream: usize, position: usize) -> u64 {
    (1 + stream as u64) * SEGMENT_BYTES + position as u64 * ENTRY
}

fn entry(stream: usize, position: usize, csn: u64) -> Vec<u8> {
    let seed = csn << 20 | (stream as u64) << 16 | position as u64;
    (0..ENTRY / 8).flat_map(|word| (seed ^ word << 56).to_le_bytes()).collect()
}

impl Leader {
    fn new() -> Leader {
        Leader { arena: vec![0; 3 * SEGMENT_BYTES as usize], versions: Default::default(), csn: 0 }
    }

    fn write(&mut self, stream: usize, scribe: &mut Scribe<SectorMedium>) {
        self.csn += 1;
        let position = self.versions[stream].len();
        if position == 0 {
            scribe.name_line(1 + stream as u32, &[9; 64]);
        }
        let (at, bytes) = (place(stream, position), entry(stream, position, self.csn));
        self.arena[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        self.versions[stream].push(self.csn);
        scribe.name_entry(stream, at, ENTRY);
    }

    fn mark(&self) -> Mark {
        let written = self.versions.iter().map(|versions| versions.len() as u64).collect();
        Mark { stable: Csn(self.csn), ceiling: Csn(self.csn + 100), written, ..Mark::default() }
    }

    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        into.copy_from_slice(&self.arena[at as usize..][..into.len()]);
        true
    }

    fn batch(&self, scribe: &mut Scribe<SectorMedium>) -> Result<u64, DiskError> {
        let written = scribe.batch(true, |at, into| self.copy(at, into))?;
        Ok(written.expect("nothing changes"))
    }

    /// Whether the file has an entry, and its line.
    fn has(&self, disk: &ArenaDisk<SectorMedium>, stream: usize, position: usize) -> bool {
        let mut bytes = vec![0; ENTRY as usize];
        disk.read(place(stream, position), &mut bytes).expect("read");
        disk.line(1 + stream as u32) == [9; 64]
            && bytes == entry(stream, position, self.versions[stream][position])
    }
}

fn scribe() -> (Scribe<SectorMedium>, SectorMedium) {
    scribe_on(SectorMedium::new(file_bytes(3, 1)))
}

fn scribe_on(medium: SectorMedium) -> (Scribe<SectorMedium>, SectorMedium) {
    let disk = ArenaDisk::create(medium.clone(), SHAPE, 1).expect("made");
    let first = Mark { ceiling: Csn(50), written: vec![0; STREAMS], ..Mark::default() };
    (Scribe::begin(disk, TERM, false, first).expect("begun"), medium)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Writes of two streams, marks and batches in any order, and the power is lost within any step of a
    /// batch: what a batch said to be there is there, and so is all that the note says, which is that of the
    /// batch before, or of the one before that.
    #[test]
    fn what_is_said_to_be_there_outlives_a_loss_of_power(
        steps in proptest::collection::vec(0u8..7, 0..80),
        left in 0u32..12,
        is_memory in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let sectors = SectorMedium::new(file_bytes(3, 1));
        let (mut scribe, medium) = scribe_on(if is_memory { sectors.in_lines() } else { sectors });
        let mut leader = Leader::new();
        for step in steps {
            match step {
                0..=3 => leader.write(usize::from(step % 2), &mut scribe),
                4 => scribe.mark(leader.mark()),
                _ => {
                    leader.batch(&mut scribe).expect("written");
                    let all: Vec<_> = leader.versions.iter().map(|versions| versions.len() as u64).collect();
                    prop_assert_eq!(scribe.floors(), &all);
                }
            }
        }
        // The last batch is cut off.
        medium.fail_after(left);
        let _ = leader.batch(&mut scribe);
        let (floors, said) = (scribe.floors(), &scribe.noted());
        medium.images().visit(8, 8, seed, |image| {
            let opened = ArenaDisk::open(SectorMedium::of(image.to_vec()), SHAPE);
            let (disk, Found { note, .. }) = opened.unwrap_or_else(|error| panic!("{error}"));
            for (stream, floor) in floors.iter().enumerate() {
                for position in 0..*floor as usize {
                    let is_there = leader.has(&disk, stream, position);
                    assert!(is_there, "{position} of stream {stream} was said to be there");
                }
            }
            let note = note.expect("the term began with one");
            let is_newer = note.floors.iter().zip(&said.floors).all(|(note, said)| note >= said);
            assert!(is_newer && note.term == TERM, "an older note than was said");
            for (stream, versions) in leader.versions.iter().enumerate() {
                let floor = note.floors.get(stream).map_or(0, |floor| *floor as usize);
                for (position, csn) in versions.iter().enumerate() {
                    if position < floor || *csn <= note.stable.0 {
                        let is_there = leader.has(&disk, stream, position);
                        assert!(is_there, "{position} of stream {stream} (csn {csn}), by {note:?}");
                    }
                }
            }
            assert!(note.stable <= note.ceiling);
        });
    }
}

#[test]
fn a_server_that_ends_in_order_has_noted_all_that_it_wrote() {
    let (mut scribe, medium) = scribe();
    let mut leader = Leader::new();
    (0..5).for_each(|i| leader.write(i % 2, &mut scribe));
    scribe.mark(leader.mark());
    assert_eq!(scribe.waiting(), 5 * ENTRY);
    scribe.end(|at, into| leader.copy(at, into)).expect("ended");
    let note = scribe.noted().clone();
    assert_eq!((note.floors.as_slice(), note.stable, note.ended), (&[3, 2][..], Csn(5), true));
    let (_, found) = ArenaDisk::open(medium, SHAPE).expect("opened");
    let found = found.note.expect("a note");
    assert_eq!(Note { number: 0, ..found }, note);
}

#[test]
fn entries_that_adjoin_are_written_together_and_a_batch_syncs_once() {
    let (mut scribe, medium) = scribe();
    let mut leader = Leader::new();
    (0..100).for_each(|_| leader.write(0, &mut scribe));
    let syncs = medium.syncs();
    assert_eq!(leader.batch(&mut scribe).expect("written"), 100 * ENTRY);
    assert_eq!((scribe.floors(), &scribe.noted().floors[..]), (&[100, 0][..], &[0, 0][..]));
    assert_eq!(medium.syncs(), syncs + 1);
    assert!(!scribe.is_settled(), "no note says so");
    assert_eq!(leader.batch(&mut scribe).expect("written"), 0);
    assert_eq!(scribe.noted().floors, [100, 0]);
    assert!(scribe.is_settled());
    let joined = |all: &[[u64; 2]]| {
        let all = all.iter().map(|&[start, end]| Stretch { start, end }).collect();
        join(all).iter().map(|it| [it.start, it.end]).collect::<Vec<_>>()
    };
    let all = [[0, 4], [4, 6], [5, 9], [10, 12], [12, 13]];
    assert_eq!(joined(&all), [[0, 9], [10, 13]], "an entry may be landing between");
    let end = SEGMENT_BYTES;
    assert_eq!(joined(&[[end - 8, end], [end, end + 8]]).len(), 2, "of two segments");
}

#[test]
fn a_note_covers_what_was_written_and_drawn_at_a_moment() {
    let (mut scribe, _) = scribe();
    let mut leader = Leader::new();
    (0..4).for_each(|i| leader.write(i % 2, &mut scribe));
    scribe.mark(leader.mark());
    leader.batch(&mut scribe).expect("written");
    assert!(!scribe.noted().covers(&[0, 0], Csn(1)), "the note of the batch is not in the file yet");
    leader.batch(&mut scribe).expect("written");
    assert!(scribe.noted().covers(&[2, 2], Csn(4)));
    assert!(!scribe.noted().covers(&[3, 2], Csn(4)) && !scribe.noted().covers(&[2, 2], Csn(5)));
    assert!(!scribe.noted().covers(&[2, 2, 1], Csn(4)), "a stream that it does not name");
}

/// A replica that is about to be overwritten by another leader must not have that written as this term's.
#[test]
fn a_batch_that_is_given_up_counts_for_nothing() {
    let (mut scribe, medium) = scribe();
    let mut leader = Leader::new();
    leader.write(0, &mut scribe);
    scribe.mark(leader.mark());
    let syncs = medium.syncs();
    assert_eq!(scribe.batch(true, |_, _| false).expect("no failure"), None);
    assert_eq!((scribe.floors(), medium.syncs()), (&[0, 0][..], syncs));
    assert_eq!(scribe.noted().stable, Csn(0));
}

/// A follower's file has the start set, and some of the term's entries, before any note says so.
#[test]
fn who_goes_on_with_a_file_notes_nothing_before_the_first_mark_is_covered() {
    let (begun, medium) = scribe();
    let before = begun.noted().clone();
    let next = Term::new(8, ReplicaId(1));
    let mut scribe = Scribe::go_on(begun.into_disk(), next, true, vec![1, 0]);
    let mut leader = Leader::new();
    leader.csn = 1;
    leader.versions[0].push(1);
    let note = || ArenaDisk::open(medium.clone(), SHAPE).expect("opened").1.note.expect("a note");
    leader.write(1, &mut scribe);
    leader.batch(&mut scribe).expect("written");
    assert!(scribe.is_settled(), "nothing is marked");
    assert_eq!((scribe.floors(), note().term), (&[1, 1][..], before.term));
    scribe.mark(leader.mark());
    assert!(!scribe.is_settled());
    (0..2).for_each(|_| _ = leader.batch(&mut scribe).expect("written"));
    let found = note();
    assert_eq!((found.term, found.stable, &found.floors[..]), (next, Csn(2), &[1, 1][..]));
}

#[test]
fn a_batch_that_fails_says_nothing_and_is_the_last() {
    let (mut scribe, medium) = scribe();
    let mut leader = Leader::new();
    leader.write(0, &mut scribe);
    leader.batch(&mut scribe).expect("written");
    leader.write(0, &mut scribe);
    medium.fail(crate::Fault::Sync);
    assert!(leader.batch(&mut scribe).is_err());
    assert_eq!(scribe.floors(), [1, 0]);
    // The sync would report success now.
    assert!(leader.batch(&mut scribe).is_err());
    assert_eq!(scribe.floors(), [1, 0]);
}
