use proptest::prelude::*;

use super::*;
use crate::layout::{PAGE_LINES, TABLE_AT};
use crate::sectors::{Fault, SectorMedium};

/// Two pages of lines, and one segment behind them.
const SHAPE: Shape = Shape { group: 7, segments: 70, table: 69 };
const DATA: u64 = 69 * SEGMENT_BYTES;
/// All images of one moment are opened if they are no more than this; else so many are drawn.
const ALL: usize = 1 << 16;
const DRAWN: usize = 1 << 11;

fn made() -> (ArenaDisk<SectorMedium>, SectorMedium) {
    made_on(SectorMedium::new(file_bytes(70, 69)))
}

fn made_on(medium: SectorMedium) -> (ArenaDisk<SectorMedium>, SectorMedium) {
    let disk = ArenaDisk::create(medium.clone(), SHAPE, 99).expect("made");
    (disk, medium)
}

/// A disk, or persistent memory.
fn medium(is_memory: bool) -> SectorMedium {
    let sectors = SectorMedium::new(file_bytes(70, 69));
    if is_memory { sectors.in_lines() } else { sectors }
}

fn line(value: u64) -> Line {
    let mut line = [0; LINE as usize];
    line[..8].copy_from_slice(&value.to_le_bytes());
    line
}

fn value(disk: &ArenaDisk<SectorMedium>, segment: u32) -> u64 {
    u64::from_le_bytes(disk.line(segment)[..8].try_into().expect("eight bytes"))
}

/// Opens every image, or those that are drawn.
fn each_image(medium: &SectorMedium, mut check: impl FnMut(ArenaDisk<SectorMedium>, Found)) -> u128 {
    let images = medium.images();
    images.visit(ALL, DRAWN, 1, |bytes| {
        let opened = ArenaDisk::open(SectorMedium::of(bytes.to_vec()), SHAPE);
        let (disk, found) = opened.unwrap_or_else(|error| panic!("an image is refused: {error}"));
        check(disk, found);
    });
    images.count()
}

#[test]
fn what_was_synced_is_there_and_a_page_is_the_one_before_or_the_one_after() {
    let (mut disk, medium) = made();
    for version in 1..=4 {
        for segment in [0, 1, 62, 63, 69] {
            disk.set_line(segment, &line(version));
        }
        disk.write_table().expect("written");
        let mut seen = std::collections::BTreeSet::new();
        let count = each_image(&medium, |disk, _| {
            let pages = [
                [0, 1, 62].map(|at| value(&disk, at)).to_vec(),
                [63, 69].map(|at| value(&disk, at)).to_vec(),
            ];
            for page in pages {
                assert!(page.iter().all(|it| *it == page[0]), "lines of two moments: {page:?}");
                assert!([version - 1, version].contains(&page[0]), "{page:?} of version {version}");
                seen.insert(page[0]);
            }
        });
        assert!(count > 1 << 10 && seen.len() == 2, "{count} images, {seen:?}");
        disk.sync().expect("synced");
        assert_eq!(each_image(&medium, |disk, _| assert_eq!(value(&disk, 69), version)), 1);
    }
}

#[test]
fn the_note_is_the_one_before_or_the_one_after() {
    let (mut disk, medium) = made();
    assert_eq!(each_image(&medium, |_, found| assert_eq!(found, Found { medium: 99, note: None })), 1);
    for number in 1..=5 {
        let note = Note { floors: vec![number; 200], ..Note::default() };
        disk.write_note(&note).expect("written");
        let mut seen = std::collections::BTreeSet::new();
        each_image(&medium, |_, found| {
            let floor = found.note.map_or(0, |note| {
                assert!(note.floors.iter().all(|floor| *floor == note.number), "{note:?}");
                note.number
            });
            seen.insert(floor);
        });
        assert_eq!(seen, [number - 1, number].into());
        disk.sync().expect("synced");
    }
    let (mut disk, found) = ArenaDisk::open(medium.clone(), SHAPE).expect("opened");
    assert_eq!(found.note.map(|note| note.number), Some(5));
    disk.write_note(&Note::default()).expect("written");
    let (_, found) = ArenaDisk::open(medium, SHAPE).expect("opened");
    assert_eq!(found.note.map(|note| note.number), Some(6), "it goes on counting");
}

/// Found by the test below: a page, or a note, that was written twice before a sync went to both of its
/// places, and a loss of power left none of them whole.
#[test]
fn what_is_written_twice_before_a_sync_leaves_one_copy_alone() {
    let (mut disk, medium) = made();
    disk.set_line(0, &line(1));
    disk.write_table().expect("written");
    disk.write_note(&Note { floors: vec![1; 200], ..Note::default() }).expect("written");
    disk.sync().expect("synced");
    for version in 2..=3 {
        disk.set_line(0, &line(version));
        disk.write_table().expect("written");
        disk.write_note(&Note { floors: vec![version; 200], ..Note::default() }).expect("written");
    }
    each_image(&medium, |disk, found| {
        assert!((1..=3).contains(&value(&disk, 0)));
        assert!(found.note.is_some_and(|note| note.floors.iter().all(|floor| *floor == note.floors[0])));
    });
}

/// A process is killed, and its successor reads what is not on the disk yet: it counts, so it must be there.
#[test]
fn what_a_killed_process_left_is_synced_before_it_counts() {
    let (mut disk, medium) = made();
    disk.set_line(0, &line(1));
    disk.write_table().expect("written");
    drop(disk);
    let (mut disk, _) = ArenaDisk::open(medium.clone(), SHAPE).expect("opened");
    assert_eq!(value(&disk, 0), 1);
    disk.set_line(0, &line(2));
    disk.write_table().expect("written");
    each_image(&medium, |disk, _| assert!((1..=2).contains(&value(&disk, 0))));
}

#[derive(Clone, Debug)]
enum Step {
    Set(u32, u64),
    Table,
    Note(u64),
    Write(u64, u8),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..70, 1u64..1000).prop_map(|(segment, value)| Step::Set(segment, value)),
        3 => Just(Step::Table),
        1 => (0u64..1000).prop_map(Step::Note),
        2 => (0u64..4000, any::<u8>()).prop_map(|(at, byte)| Step::Write(at, byte)),
        2 => Just(Step::Sync),
    ]
}

/// What the file may hold of one thing: what was synced last, and all that was written since.
#[derive(Clone, Debug)]
struct MayBe<T>(Vec<T>);

impl<T: Clone + PartialEq> MayBe<T> {
    fn write(&mut self, value: T) {
        self.0.push(value);
    }

    fn sync(&mut self) {
        self.0 = self.0.split_off(self.0.len() - 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any series of steps, then a loss of power: of each page, of the note and of each byte the file has
    /// what was synced last or something that was written since.
    #[test]
    fn is_what_was_synced_or_written_since(
        steps in proptest::collection::vec(step(), 0..60),
        is_memory in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let (mut disk, medium) = made_on(medium(is_memory));
        let mut now = vec![0u64; 70];
        let page_of = |now: &[u64], page: usize| {
            now.chunks(PAGE_LINES as usize).nth(page).expect("a page").to_vec()
        };
        let mut pages = [0, 1].map(|page| MayBe(vec![page_of(&now, page)]));
        let (mut note, mut bytes) = (MayBe(vec![None]), vec![MayBe(vec![0u8]); 4000]);
        for step in steps {
            match step {
                Step::Set(segment, value) => {
                    disk.set_line(segment, &line(value));
                    now[segment as usize] = value;
                }
                Step::Table => {
                    disk.write_table().expect("written");
                    (0..).zip(&mut pages).for_each(|(page, may_be)| may_be.write(page_of(&now, page)));
                }
                Step::Note(floor) => {
                    disk.write_note(&Note { floors: vec![floor], ..Note::default() }).expect("written");
                    note.write(Some(floor));
                }
                Step::Write(at, byte) => {
                    disk.write(DATA + at, &[byte]).expect("written");
                    bytes[at as usize].write(byte);
                }
                Step::Sync => {
                    disk.sync().expect("synced");
                    pages.iter_mut().for_each(MayBe::sync);
                    note.sync();
                    bytes.iter_mut().for_each(MayBe::sync);
                }
            }
        }
        medium.images().visit(8, 8, seed, |image| {
            let opened = ArenaDisk::open(SectorMedium::of(image.to_vec()), SHAPE);
            let (disk, found) = opened.unwrap_or_else(|error| panic!("{error}"));
            for (page, may_be) in pages.iter().enumerate() {
                let first = page * PAGE_LINES as usize;
                let lines: Vec<u64> =
                    (first..70.min(first + PAGE_LINES as usize)).map(|at| value(&disk, at as u32)).collect();
                assert!(may_be.0.contains(&lines), "page {page}: {lines:?}, not of {may_be:?}");
            }
            let floor = found.note.map(|note| note.floors[0]);
            assert!(note.0.contains(&floor), "{floor:?}, not of {note:?}");
            let mut read = vec![0; 4000];
            disk.read(DATA, &mut read).expect("read");
            for (at, byte) in read.iter().enumerate() {
                assert!(bytes[at].0.contains(byte), "byte {at}");
            }
        });
    }
}

#[test]
fn what_is_not_ours_or_is_damaged_is_named() {
    let (_, medium) = made();
    let refused = |medium: &SectorMedium, shape: Shape| match ArenaDisk::open(medium.clone(), shape) {
        Ok(_) => panic!("it is opened"),
        Err(error) => error.to_string(),
    };
    let other = refused(&medium, Shape { group: 8, ..SHAPE });
    assert!(other.contains("is of group 0000000000000007, and this replica of 0000000000000008"), "{other}");
    let larger = refused(&medium, Shape { segments: 71, ..SHAPE });
    assert!(larger.contains("of 70 segments, and the server's has 71"), "{larger}");
    let nothing = refused(&SectorMedium::new(file_bytes(70, 69)), SHAPE);
    assert!(nothing.contains("is no file of an arena"), "{nothing}");
    assert!(refused(&SectorMedium::new(10), SHAPE).contains("is no file of an arena"));
    let mut bytes = vec![0; medium.bytes() as usize];
    medium.read(0, &mut bytes).expect("read");
    let mut damaged = |at: u64, says: &str| {
        bytes[at as usize] ^= 1;
        let error = refused(&SectorMedium::of(bytes.clone()), SHAPE);
        assert!(error.contains(says), "{error}");
        bytes[at as usize] ^= 1;
    };
    damaged(40, "is damaged: its header");
    damaged(9, "is no file of an arena");
    // One copy of a page is enough.
    bytes[TABLE_AT as usize + 100] ^= 1;
    assert!(ArenaDisk::open(SectorMedium::of(bytes.clone()), SHAPE).is_ok());
    bytes[(TABLE_AT + PAGE_BYTES) as usize + 200] ^= 1;
    let both = refused(&SectorMedium::of(bytes.clone()), SHAPE);
    assert!(both.contains("is damaged: page 0 of its table"), "{both}");
    bytes.truncate(1 << 20);
    assert!(refused(&SectorMedium::of(bytes), SHAPE).contains("it has 1048576 bytes"));
    let later = SectorMedium::new(64);
    let mut header = encode_header(&SHAPE, 1);
    header[16] = 2;
    let sum = SumKey::new(SUM_KEY).sum(0, &header[8..]);
    header[..8].copy_from_slice(&sum.to_le_bytes());
    let mut writer = later.clone();
    writer.write(0, &header).expect("written");
    assert!(refused(&later, SHAPE).contains("has version 2 of the file, and this program knows 1"));
}

/// Of a page with new lines in two sectors one sector was lost, so the page before counts. The next page has
/// the same number, and only the sector was written that the first one lacked.
#[test]
fn what_was_cut_off_does_not_come_back_with_the_next_write() {
    let (mut disk, medium) = made();
    let [mine, theirs] = [20, 40];
    let image = |medium: &SectorMedium| {
        let mut bytes = vec![0; medium.bytes() as usize];
        medium.read(0, &mut bytes).expect("read");
        bytes
    };
    for version in 1..=2 {
        disk.set_line(theirs, &line(version));
        disk.write_table().expect("written");
        disk.sync().expect("synced");
    }
    let before = image(&medium);
    disk.set_line(mine, &line(3));
    disk.set_line(theirs, &line(3));
    disk.write_table().expect("written");
    let whole = image(&medium);
    let sector = |segment: u64| {
        let changed = (TABLE_AT as usize..whole.len()).filter(|at| whole[*at] != before[*at]);
        let at = changed.filter(|at| *at as u64 % PAGE_BYTES / 512 == (64 + 64 * segment) / 512).min();
        at.expect("it was written") / 512 * 512
    };
    let lost = sector(theirs.into());
    let mut torn = whole.clone();
    torn[lost..lost + 512].copy_from_slice(&before[lost..lost + 512]);
    let medium = SectorMedium::of(torn);
    let (mut disk, _) = ArenaDisk::open(medium.clone(), SHAPE).expect("opened");
    assert_eq!((value(&disk, mine), value(&disk, theirs)), (0, 2));
    // Whoever opened it goes on without the line.
    disk.set_line(theirs, &line(3));
    disk.write_table().expect("written");
    each_image(&medium, |disk, _| assert_eq!(value(&disk, mine), 0, "it was lost, and somebody knows it"));
}

/// A sync that is tried again after an error reports success, and the bytes are lost.
#[test]
fn after_the_first_failure_nothing_is_written_or_said_to_be_there() {
    for fault in [Fault::Write, Fault::Sync] {
        let (mut disk, medium) = made();
        medium.fail(fault);
        let mut byte = [0];
        let tried =
            disk.write(DATA, b"x").and_then(|()| disk.sync()).expect_err("the medium fails").to_string();
        let step = format!("{fault:?}").to_lowercase();
        assert_eq!(tried, format!("cannot {step} sectors: the disk fails"));
        let syncs = medium.syncs();
        disk.set_line(1, &line(1));
        let again = [
            disk.sync(),
            disk.write_table(),
            disk.write(DATA, b"y"),
            disk.write_note(&Note::default()),
            disk.read(DATA, &mut byte),
        ];
        for result in again {
            assert_eq!(result.expect_err("it has failed").to_string(), tried);
        }
        assert_eq!(medium.syncs(), syncs);
    }
    // A read that fails changes nothing: another place may be readable.
    let (mut disk, medium) = made();
    medium.fail(Fault::Read);
    let mut byte = [0];
    let failed = disk.read(DATA, &mut byte).expect_err("the medium fails").to_string();
    assert_eq!(failed, "cannot read sectors: the disk fails");
    disk.read(DATA, &mut byte).expect("read");
    disk.write(DATA, b"x").expect("written");
}

#[test]
fn a_directory_keeps_an_arena_over_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut disk, found) = ArenaDisk::in_dir(dir.path(), SHAPE, 5).expect("made");
    assert_eq!(found, Found { medium: 5, note: None });
    disk.set_line(69, &line(3));
    disk.write_table().expect("written");
    disk.write(DATA + 1000, b"an entry").expect("written");
    disk.sync().expect("synced");
    let note = Note { floors: vec![1], ..Note::default() };
    disk.write_note(&note).expect("written");
    disk.sync().expect("synced");
    let second = ArenaDisk::in_dir(dir.path(), SHAPE, 6).err().map(|error| error.to_string());
    assert!(second.is_some_and(|text| text.contains("a server runs on this directory already")));
    drop(disk);
    let (disk, found) = ArenaDisk::in_dir(dir.path(), SHAPE, 6).expect("opened");
    assert_eq!(found, Found { medium: 5, note: Some(Note { number: 1, ..note }) });
    let mut bytes = [0; 8];
    disk.read(DATA + 1000, &mut bytes).expect("read");
    assert_eq!((&bytes, disk.line(69)), (b"an entry", line(3)));
    // As memory, and as a file again.
    let mut disk = disk.on(MediumKind::PersistentMemory { or_file: true }).expect("mapped");
    disk.write(DATA + 1008, b"another.").expect("written");
    disk.sync().expect("synced");
    drop(disk);
    let (disk, _) = ArenaDisk::in_dir(dir.path(), SHAPE, 6).expect("opened");
    let mut bytes = [0; 16];
    disk.read(DATA + 1000, &mut bytes).expect("read");
    assert_eq!(&bytes, b"an entryanother.");
}
