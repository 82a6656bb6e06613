//! A data directory that is made of a backup: what a server that starts on it finds is what the leader had at
//! the version of the backup.
//!
//! (1) Segments stand one behind the other in the new arena, each with the claim, the term and the positions
//!     that it had, and with checksums under the new keys. So a start takes of each key the newest version,
//!     and tombstones go when they may, as after any restart.
//! (2) The note is of a term of its own, above all others, in which nothing was written: everything in the
//!     arena is of an older term, and is kept whole.
//! (3) New versions go on above that of the backup, and the calendar goes on from the leader's.
//! (4) The directory's identity appears last. What was cut off is no data directory.

use std::io::Read;
use std::path::Path;

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Csn, ReplicaId, Term};
use longarm_disk::{ArenaDisk, FileMedium, Note};
use longarm_group::{FileVoteStore, NewDirectory};
use longarm_memory::SumKey;
use longarm_store::object::EntryImage;
use longarm_store::segment::layout::{arena_bytes, segment_at, table_segments};
use longarm_store::segment::{Line, SegmentState, line_image};

use crate::chain::{Chain, Checked};
use crate::error::BackupError;
use crate::frame::Frame;
use crate::target::make_empty;

/// Segments that must be free in the new arena: what a server needs to begin, for each of a few threads.
const SPARE: u32 = 12;

/// Where a backup comes from.
pub enum Origin<'a> {
    /// A directory.
    Directory(&'a Path),
    /// A stream, and what to call it.
    Stream(&'a Path, &'a mut dyn Read),
}

/// What was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// What the backup had.
    pub backup: Checked,
    /// Segments of the new arena, and those of them that are in use.
    pub segments: u32,
    /// Segments in use.
    pub used: u32,
    /// The term of its note.
    pub term: Term,
}

/// Whose data directory is made.
pub enum Whose {
    /// A server's of its own.
    Alone,
    /// A replica's of a new cluster's group. All replicas of the group are made of the same backup, for the
    /// same memory.
    Replica {
        /// The group.
        group: u64,
        /// The key of its checksums.
        sum_key: u64,
        /// The replica.
        replica: ReplicaId,
        /// Where it will keep what it promised.
        votes: FileVoteStore,
    },
}

/// Makes a data directory for a server with so much memory. `dir` is new, or empty, and is so again after an
/// error.
pub fn restore(from: Origin<'_>, dir: &Path, whose: Whose, memory: u64) -> Result<Restored, BackupError> {
    // A backup that is not complete is refused before anything is made.
    let chain = match &from {
        Origin::Directory(backup) => Some(Chain::open(backup)?),
        Origin::Stream(..) => None,
    };
    let segments = (arena_bytes(memory) / SEGMENT_BYTES) as u32;
    let table = table_segments(segments.into()) as u32;
    if let Some(chain) = &chain {
        let used: u64 = chain.manifest().segments.iter().map(|it| u64::from(it.run)).sum();
        let needs = used + u64::from(table + SPARE);
        if needs > u64::from(segments) {
            return Err(BackupError::TooSmall { needs, so_far: false, has: segments.into() });
        }
    }
    let is_made = make_empty(dir)?;
    let text = |error: longarm_group::StartError| BackupError::Directory(error.to_string());
    let fresh = match whose {
        Whose::Alone => NewDirectory::begin(dir),
        Whose::Replica { group, sum_key, replica, votes } => {
            NewDirectory::of_replica(dir, group, sum_key, replica, votes)
        }
    };
    let fresh = fresh.map_err(text)?;
    let made = fill(&fresh, segments, table, |each| match (&chain, from) {
        (Some(chain), _) => chain.visit(each),
        (None, Origin::Stream(name, from)) => Chain::visit_stream(name, from, each),
        (None, Origin::Directory(_)) => unreachable!("opened above"),
    });
    match made {
        Ok(restored) => {
            fresh.appear(restored.term).map_err(text)?;
            Ok(restored)
        }
        Err(error) => {
            fresh.abandon();
            if is_made {
                let _ = std::fs::remove_dir(dir);
            }
            Err(error)
        }
    }
}

/// Makes the arena's file, and fills it with what `visit` shows.
fn fill(
    fresh: &NewDirectory,
    segments: u32,
    table: u32,
    visit: impl FnOnce(&mut dyn FnMut(&Frame) -> Result<(), BackupError>) -> Result<Checked, BackupError>,
) -> Result<Restored, BackupError> {
    let disk = fresh.arena(segments, table)?;
    let mut image =
        Image { disk, sums: fresh.sums(), next: table, segments, term: Term::ZERO, bytes: vec![] };
    let backup = visit(&mut |frame| image.take(frame))?;
    let used = image.next - table;
    let term = image.finish(&backup)?;
    Ok(Restored { backup, segments, used, term })
}

/// The file of an arena that is being filled.
struct Image {
    disk: ArenaDisk<FileMedium>,
    sums: SumKey,
    /// The first segment that is free.
    next: u32,
    segments: u32,
    /// The highest term of any segment.
    term: Term,
    /// Of the segment that is being made.
    bytes: Vec<u8>,
}

impl Image {
    /// Gives a segment, or a run, its place.
    fn take(&mut self, frame: &Frame) -> Result<(), BackupError> {
        let (line, first) = (frame.line, self.next);
        if u64::from(first) + u64::from(line.run + SPARE) > u64::from(self.segments) {
            let needs = u64::from(first) + u64::from(line.run + SPARE);
            return Err(BackupError::TooSmall { needs, so_far: true, has: self.segments.into() });
        }
        let (room, _) = line.rooms();
        self.bytes.clear();
        for entry in frame.iter() {
            let at = u64::from(entry.room) * room;
            let image = EntryImage {
                stream: line.stream,
                term: line.term,
                generation: line.generation,
                ..EntryImage::from(&entry)
            };
            self.bytes.resize(at as usize + image.bytes(), 0);
            image.write(segment_at(first) + at, &self.sums, &mut self.bytes[at as usize..]);
        }
        self.disk.write(segment_at(first), &self.bytes)?;
        self.disk.set_line(first, &line_image(&self.sums, first, &line));
        for distance in 1..line.run {
            let body = Line { state: SegmentState::RunBody, run: distance, ..line };
            self.disk.set_line(first + distance, &line_image(&self.sums, first + distance, &body));
        }
        self.next += line.run;
        self.term = self.term.max(line.term);
        Ok(())
    }

    /// Writes the table, and then the note, which says that all of this is there.
    fn finish(mut self, backup: &Checked) -> Result<Term, BackupError> {
        let manifest = &backup.manifest;
        let term = Term::new(self.term.counter().saturating_add(1), ReplicaId(0));
        let version = Csn(manifest.version);
        self.disk.write_table()?;
        self.disk.sync()?;
        self.disk.write_note(&Note {
            term,
            stable: version,
            ceiling: version,
            ended: true,
            unix: manifest.unix_ms,
            items: backup.entries,
            ..Note::default()
        })?;
        self.disk.sync()?;
        Ok(term)
    }
}
