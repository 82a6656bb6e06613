//! A data directory that is looked at, and not changed: what a server that starts on it would find.
//!
//! (1) Every page of the table, the notes, and every entry of a segment in use is verified, and judged as a
//!     start judges it (`load.rs`).
//! (2) At rest the directory is locked meanwhile, so nothing changes.
//! (3) While a server writes, a look is of no single moment. A note that was there first says less than the
//!     entries that are read later, so what is below its floors is whole in the file, unless its segment is
//!     used again meanwhile. So damage counts only if each of several looks sees it at the same place.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use longarm_base::limits::{LINE, SEGMENT_BYTES};
use longarm_base::{Csn, Term};
use longarm_disk::{ArenaDisk, DiskError, FileMedium, Note};
use longarm_host::Mutex;
use longarm_memory::{SumKey, Words};
use longarm_store::segment::layout::segment_at;
use longarm_store::segment::{ArenaGeometry, Line, SegmentState};
use longarm_store::{ArenaView, Entry, EntryKind, Room, SegmentUse};

use crate::durable::directory::{IDENTITY, Identity};
use crate::durable::load::{Found, Judge};
use crate::durable::owner_file::{self, Unread};
use crate::vault;
use crate::vote_store::VoteStore;

/// Looks at a directory that is being written to.
const LOOKS: usize = 3;
/// States of a segment.
const STATES: usize = 6;
/// Lines that do not verify and are named.
const NAMED: usize = 8;

/// Whether a server may be writing to the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// No: it is locked, or refused.
    AtRest,
    /// Perhaps: it is not locked.
    Live,
}

/// Why nothing can be said of a directory, or what of it is broken as a whole.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// It is no data directory.
    #[error(
        "{0} is no data directory of a server alone: it has no `identity`. A cluster's node has its keys in \
         the cluster's file: start it, and look at it live"
    )]
    Foreign(String),
    /// A server runs on it.
    #[error("{0} is in use: a server runs on it. Stop that first; `longarm inspect --data` looks at it live")]
    InUse(String),
    /// A server runs on it, and serves from it.
    #[error(
        "{0} is in use: a server serves from it. `longarm inspect --address` looks at that server, and \
         `longarm check` at the directory when the server has ended"
    )]
    Served(String),
    /// Its identity is damaged.
    #[error(
        "the `identity` of {0} is damaged, and without the keys in it nothing else can be verified: put that \
         file back"
    )]
    Identity(String),
    /// The system refused something.
    #[error("cannot read {0}: {1}")]
    Io(String, std::io::Error),
    /// The arena's file.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl LookError {
    /// Whether bytes are not what was written, or are missing.
    pub fn is_damage(&self) -> bool {
        let lost = matches!(self, LookError::Disk(DiskError::Damaged { .. } | DiskError::Missing { .. }));
        let garbled = matches!(self, LookError::Io(_, error) if error.kind() == ErrorKind::InvalidData);
        lost || garbled || matches!(self, LookError::Identity(_))
    }
}

/// What is in a data directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DirectoryReport {
    /// The number of its group.
    pub group: u64,
    /// Segments of the arena, those of the table included, and those of the table.
    pub segments: u32,
    /// Segments of the table.
    pub table: u32,
    /// Segments by state, by the number of the state.
    pub states: [u32; STATES],
    /// The newest note; none if nothing was ever acknowledged.
    pub note: Option<Note>,
    /// The highest term that was promised.
    pub promised: Term,
    /// Entries that a start keeps.
    pub entries: u64,
    /// Whole entries that are tombstones.
    pub tombstones: u64,
    /// Bytes of whole entries.
    pub bytes: u64,
    /// The highest version of a whole entry.
    pub newest: Csn,
    /// Entries that a start drops: they were not acknowledged as kept.
    pub dropped: u64,
    /// Copies of notes and pages that were cut off, and that the other copy stands for.
    pub torn_copies: usize,
    /// Entries that were acknowledged and are not what was written.
    pub damaged: u64,
    /// What is damaged, in words; some of it.
    pub problems: Vec<String>,
    /// Offsets of damaged entries.
    places: Vec<u64>,
}

impl DirectoryReport {
    /// Whether all is as it was written.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A whole entry, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct EntryAt<'a> {
    /// The use of its segment.
    pub used: SegmentUse,
    /// Its offset in the arena.
    pub offset: u64,
    /// What it says.
    pub entry: &'a Entry<'a>,
}

/// Looks at a data directory, and shows every whole entry.
pub fn look(dir: &Path, how: Look, show: &mut dyn FnMut(&EntryAt<'_>)) -> Result<DirectoryReport, LookError> {
    if how == Look::AtRest {
        return look_once(dir, how, show);
    }
    let mut report = look_once(dir, how, show)?;
    for _ in 1..LOOKS {
        if report.is_sound() {
            break;
        }
        let again = look_once(dir, how, &mut |_| {})?;
        report.places.retain(|place| again.places.contains(place));
        report.problems.retain(|problem| again.problems.contains(problem));
        report.damaged = report.places.len() as u64;
    }
    Ok(report)
}

fn look_once(
    dir: &Path,
    how: Look,
    show: &mut dyn FnMut(&EntryAt<'_>),
) -> Result<DirectoryReport, LookError> {
    let shown = dir.display().to_string();
    let (identity, _locked) = identity(dir, how)?;
    let promise = vault::pointed(dir).and_then(|store| store.load());
    let promised = promise.map_err(|error| LookError::Io(shown, error))?.map_or(Term::ZERO, |it| it.term);
    let path = dir.join("arena");
    let mut report = DirectoryReport { group: identity.id, promised, ..DirectoryReport::default() };
    if !path.exists() {
        return match promised {
            Term::ZERO => Ok(report),
            _ => Err(DiskError::Missing { path }.into()),
        };
    }
    let (disk, found, torn_copies) = ArenaDisk::look(FileMedium::look(&path, how == Look::AtRest)?)?;
    let shape = disk.shape();
    if shape.group != identity.id {
        return Err(DiskError::Group { path, found: shape.group, group: identity.id }.into());
    }
    (report.segments, report.table) = (shape.segments, shape.table);
    report.torn_copies = torn_copies;
    let sums = SumKey::new(identity.sum_key);
    let words = FileWords { disk, read: Mutex::default() };
    lines(&words, &sums, &mut report);
    if let Some(note) = &found.note {
        entries(&words, &sums, note, &mut report, show);
    }
    report.note = found.note;
    let failed = words.read.lock().failed.take();
    failed.map_or(Ok(report), |error| Err(error.into()))
}

/// Who the directory says that it is, and the file that is locked meanwhile.
pub(super) fn identity(dir: &Path, how: Look) -> Result<(Identity, File), LookError> {
    let shown = dir.display().to_string();
    let read = owner_file::read(dir, IDENTITY, how == Look::AtRest).map_err(|why| match why {
        Unread::InUse => LookError::InUse(shown.clone()),
        Unread::Failed(_, error) if error.kind() == ErrorKind::NotFound && dir.is_dir() => {
            LookError::Foreign(shown.clone())
        }
        Unread::Failed(_, error) => LookError::Io(shown.clone(), error),
    });
    let (text, file) = read?;
    Identity::parse(&text).map(|identity| (identity, file)).ok_or(LookError::Identity(shown))
}

/// Checks each line of the table.
fn lines(words: &FileWords, sums: &SumKey, report: &mut DirectoryReport) {
    for segment in report.table..report.segments {
        match Line::from_bytes(&words.disk.line(segment), sums, segment) {
            Ok(line) => report.states[line.state as usize] += 1,
            Err(why) => {
                report.damaged += 1;
                report.places.push(segment_at(segment));
                if report.problems.len() < NAMED {
                    report.problems.push(format!("segment {segment}: {why}"));
                }
            }
        }
    }
}

/// Checks each entry.
fn entries(
    words: &FileWords,
    sums: &SumKey,
    note: &Note,
    report: &mut DirectoryReport,
    show: &mut dyn FnMut(&EntryAt<'_>),
) {
    let geometry = ArenaGeometry { segments: report.segments, table: report.table };
    let view = ArenaView { memory: words, sums };
    let judge = Judge { note };
    let mut found = Found::default();
    let mut dead = 0;
    for segment in report.table..report.segments {
        let Some(used) = SegmentUse::read(view, geometry, segment) else { continue };
        let is_later = used.line.term > note.term;
        used.rooms(view, &mut |offset, room| {
            let (csn, position, whole) = match &room {
                Room::Entry(_, entry) => (entry.csn, entry.position, true),
                Room::Broken { csn, position } => (*csn, *position, false),
            };
            // A term whose first note is not there has acknowledged nothing.
            if is_later {
                dead += 1;
                return;
            }
            found.see(judge.judge(&used.line, csn, position, whole), &used.line, position, offset);
            if let Room::Entry(place, entry) = &room {
                report.newest = report.newest.max(entry.csn);
                report.tombstones += u64::from(entry.kind == EntryKind::Tombstone);
                report.bytes += u64::from(place.len);
                show(&EntryAt { used, offset, entry });
            }
        });
    }
    found.end_tails(&judge);
    report.entries = found.entries;
    report.dropped = dead + found.goes.len() as u64 - found.damaged;
    report.damaged += found.damaged;
    for offset in &found.named {
        report.problems.push(format!(
            "the entry at {offset:#x} of the arena was acknowledged, and is not what was written"
        ));
    }
    let more = found.damaged.saturating_sub(found.named.len() as u64);
    if more > 0 {
        report.problems.push(format!("{more} more entries were acknowledged, and are not what was written"));
    }
    report.places.append(&mut found.named);
}

/// The file of an arena, as words.
struct FileWords {
    disk: ArenaDisk<FileMedium>,
    read: Mutex<ReadSegment>,
}

/// The segment that was read last.
#[derive(Default)]
struct ReadSegment {
    segment: u32,
    bytes: Vec<u8>,
    failed: Option<DiskError>,
}

impl Words for FileWords {
    fn bytes(&self) -> u64 {
        u64::from(self.disk.shape().segments) * SEGMENT_BYTES
    }

    fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.copy_out(at, &mut word);
        u64::from_le_bytes(word)
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        if at < u64::from(self.disk.shape().table) * SEGMENT_BYTES {
            let line = self.disk.line((at / LINE) as u32);
            let from = (at % LINE) as usize;
            return into.copy_from_slice(&line[from..from + into.len()]);
        }
        let mut read = self.read.lock();
        let (mut at, mut into) = (at, into);
        while !into.is_empty() {
            let segment = (at / SEGMENT_BYTES) as u32;
            if read.segment != segment || read.bytes.is_empty() {
                read.bytes.resize(SEGMENT_BYTES as usize, 0);
                let got = self.disk.read(segment_at(segment), &mut read.bytes);
                read.segment = segment;
                if let Err(error) = got {
                    // It reads as nothing, and the caller asks for the reason at the end.
                    read.bytes.fill(0);
                    read.failed.get_or_insert(error);
                }
            }
            let from = (at % SEGMENT_BYTES) as usize;
            let (now, later) = into.split_at_mut(into.len().min(SEGMENT_BYTES as usize - from));
            now.copy_from_slice(&read.bytes[from..from + now.len()]);
            at += now.len() as u64;
            into = later;
        }
    }
}

const _: () = assert!(SegmentState::Quarantined as usize == STATES - 1);
