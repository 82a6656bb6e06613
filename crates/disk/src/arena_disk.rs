//! The file of an arena as a whole: header, table, segments, notes, and the first failure.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use longarm_base::Mutant;
use longarm_base::limits::{LINE, SEGMENT_BYTES, SEGMENTS_MAX};
use longarm_memory::SumKey;

use crate::error::DiskError;
use crate::file::FileMedium;
use crate::layout::{
    COPIES, HEADER_BYTES, MAGIC, NOTE_BYTES, NOTES_AT, PAGE_BYTES, SUM_KEY, VERSION, file_bytes, header,
    note_at, page_at, pages, segments_at,
};
use crate::medium::Medium;
use crate::note::Note;
use crate::persistent::{MediumKind, PersistentMedium};
use crate::sectors::SECTOR;
use crate::sequence::Sequence;
use crate::table::{Line, TablePages};

/// Whose arena it is, and how large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The group of the replica.
    pub group: u64,
    /// Segments, those of the table included.
    pub segments: u32,
    /// Segments of the table, which come first.
    pub table: u32,
}

/// What an opened file says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Drawn when the file was made.
    pub medium: u64,
    /// The newest note, if there is one.
    pub note: Option<Note>,
}

/// The file of an arena.
///
/// Offsets are those of the arena. What is written is surely there once [`sync`](Self::sync) returned, and
/// not before. A note says of bytes that they are there: write it behind the sync of these bytes, and rest
/// nothing on it before the next one.
pub struct ArenaDisk<M> {
    medium: M,
    shape: Shape,
    table: TablePages,
    /// Of notes.
    notes: Sequence,
    failed: Option<DiskError>,
}

impl ArenaDisk<FileMedium> {
    /// The file `arena` in a directory: as it is, or made anew, with `medium` to name it, if there is none.
    pub fn in_dir(dir: &Path, shape: Shape, medium: u64) -> Result<(Self, Found), DiskError> {
        let path = dir.join("arena");
        if path.exists() {
            return ArenaDisk::open(FileMedium::open(&path)?, shape);
        }
        let file = FileMedium::create(&path, file_bytes(shape.segments.into(), shape.table.into()))?;
        let mut disk = ArenaDisk::create(file, shape, medium)?;
        disk.attempt("make", FileMedium::appear)?;
        Ok((disk, Found { medium, note: None }))
    }

    /// The same file, as what it is kept on.
    pub fn on(self, kind: MediumKind) -> Result<ArenaDisk<Box<dyn Medium>>, DiskError> {
        Ok(match kind {
            MediumKind::Disk => self.boxed(),
            MediumKind::PersistentMemory { or_file } => {
                self.over(|file| PersistentMedium::over(file, or_file))?.boxed()
            }
        })
    }
}

impl<M: Medium + 'static> ArenaDisk<M> {
    /// The same file, whatever its medium is.
    pub fn boxed(self) -> ArenaDisk<Box<dyn Medium>> {
        let boxed = self.over(|medium| -> Result<Box<dyn Medium>, Infallible> { Ok(Box::new(medium)) });
        boxed.unwrap_or_else(|never| match never {})
    }

    /// The same file on what becomes of its medium.
    fn over<N, E>(self, becomes: impl FnOnce(M) -> Result<N, E>) -> Result<ArenaDisk<N>, E> {
        let ArenaDisk { medium, shape, table, notes, failed } = self;
        Ok(ArenaDisk { medium: becomes(medium)?, shape, table, notes, failed })
    }
}

impl<M: Medium> ArenaDisk<M> {
    /// A new file on a medium of the right size. When this returns all of it is there.
    pub fn create(medium: M, shape: Shape, id: u64) -> Result<Self, DiskError> {
        let segments = u64::from(shape.segments);
        assert_eq!(medium.bytes(), file_bytes(segments, shape.table.into()), "the size of the file");
        let table = TablePages::new(pages(segments));
        let mut disk = ArenaDisk { medium, shape, table, notes: Sequence::default(), failed: None };
        let zeros = vec![0; (COPIES * NOTE_BYTES) as usize];
        disk.attempt("write", |medium| medium.write(NOTES_AT, &zeros))?;
        // Both copies, so that the file has no holes.
        for _ in 0..COPIES {
            disk.table.change_all();
            disk.write_table()?;
            disk.sync()?;
        }
        let bytes = encode_header(&shape, id);
        disk.attempt("write", |medium| medium.write(0, &bytes))?;
        disk.sync()?;
        Ok(disk)
    }

    /// The file on this medium, if it is one of this shape.
    pub fn open(medium: M, shape: Shape) -> Result<(Self, Found), DiskError> {
        let table = TablePages::new(pages(shape.segments.into()));
        let mut disk = ArenaDisk { medium, shape, table, notes: Sequence::default(), failed: None };
        // A process that was killed may have left bytes that can be read and are not there yet.
        disk.sync()?;
        let id = disk.check_header()?;
        let (note, mut cut_off) = disk.read_notes()?;
        disk.notes = Sequence::of(note.as_ref().map_or(0, |note| note.number));
        cut_off.extend(disk.read_table()?);
        disk.wipe(&cut_off)?;
        Ok((disk, Found { medium: id, note }))
    }

    /// The file on this medium, of whatever shape it is, to be read alone: nothing is wiped, and nothing
    /// synced. Also how many copies of notes and pages were cut off.
    pub fn look(medium: M) -> Result<(Self, Found, usize), DiskError> {
        let mut head = [0; HEADER_BYTES as usize];
        let path = medium.path().to_path_buf();
        if medium.bytes() < HEADER_BYTES {
            return Err(DiskError::Foreign { path });
        }
        medium.read(0, &mut head).map_err(|error| DiskError::io("read", &path, error))?;
        let word = |i: usize| u64::from_le_bytes(head[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        // What the header says counts once it verifies.
        let segments = word(header::SEGMENTS).min(SEGMENTS_MAX);
        let (group, table) = (word(header::GROUP), word(header::TABLE).min(segments) as u32);
        let shape = Shape { group, segments: segments as u32, table };
        let mut disk = ArenaDisk {
            medium,
            shape,
            table: TablePages::new(pages(segments)),
            notes: Sequence::default(),
            failed: None,
        };
        let medium = disk.check_header()?;
        let (note, mut cut_off) = disk.read_notes()?;
        cut_off.extend(disk.read_table()?);
        Ok((disk, Found { medium, note }, cut_off.len()))
    }

    /// Wipes the beginnings of copies that were cut off. If the next write to such a copy were cut off, too,
    /// the two could make up for what each of them lacks, and what was cut off first would count after all.
    fn wipe(&mut self, copies: &[u64]) -> Result<(), DiskError> {
        if copies.is_empty() || Mutant::LeaveTorn.is_on() {
            return Ok(());
        }
        copies
            .iter()
            .try_for_each(|at| self.attempt("write", |medium| medium.write(*at, &[0; SECTOR as usize])))?;
        self.sync()
    }

    /// Each write is waited for from now on. Those of single segments come to the lowest that is free, so the
    /// medium may prepare itself for them from the first one on that was never claimed.
    pub fn expect_writes(&mut self) {
        let mut segments = self.shape.table..self.shape.segments;
        let bare = segments.find(|segment| self.line(*segment).iter().all(|byte| *byte == 0));
        if let Some(first) = bare {
            self.medium.prepare(self.place(u64::from(first) * SEGMENT_BYTES, 0));
        }
    }

    /// Whose arena it is, and how large.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The line of a segment, as it was set last.
    pub fn line(&self, segment: u32) -> Line {
        self.table.line(segment)
    }

    /// Sets the line of a segment; [`write_table`](Self::write_table) writes it.
    pub fn set_line(&mut self, segment: u32, line: &Line) {
        self.table.set_line(segment, line);
    }

    /// Whether lines were set that are not written.
    pub fn has_changed_lines(&self) -> bool {
        self.table.has_changed()
    }

    /// Writes the lines that were set since. A loss of power leaves of the lines of one page either all that
    /// were set, or none.
    pub fn write_table(&mut self) -> Result<(), DiskError> {
        let changed = self.table.take_changed();
        changed.iter().try_for_each(|(at, bytes)| self.attempt("write", |medium| medium.write(*at, bytes)))
    }

    /// Waits until all lines that were set are there.
    pub fn sync_table(&mut self) -> Result<(), DiskError> {
        if self.table.is_synced() {
            return Ok(());
        }
        self.write_table()?;
        self.sync()
    }

    /// Writes bytes of segments behind the table.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let at = self.place(offset, bytes.len());
        self.attempt("write", |medium| medium.write(at, bytes))
    }

    /// Reads bytes of segments behind the table.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let at = self.place(offset, into.len());
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.medium.read(at, into).map_err(|error| DiskError::io("read", self.medium.path(), error))
    }

    /// Reads bytes of segments from where they outlive a loss of power. An error is of these bytes alone.
    pub fn read_back(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.medium.read_back(self.place(offset, into.len()), into)
    }

    /// Whether the page of the table with the line of a segment is there as it was written. If not, it is
    /// written with those that change. One that is on its way is not looked at.
    pub fn check_page(&mut self, segment: u32) -> bool {
        let Some((number, at)) = self.table.counts(segment) else { return true };
        let mut bytes = vec![0; PAGE_BYTES as usize];
        let is_whole = self.medium.read_back(at, &mut bytes).is_ok() && self.table.is_copy(number, &bytes);
        if !is_whole {
            self.table.change(number);
        }
        is_whole
    }

    /// Whether the note that counts is there as it was written.
    pub fn has_note(&self, note: &Note) -> bool {
        let number = self.notes.synced();
        let (at, mut block) = (note_at(number), vec![0; NOTE_BYTES as usize]);
        let is_read = self.medium.read_back(at, &mut block).is_ok();
        let found = Note::decode(at, &block).map(|found| Note { number: note.number, ..found });
        is_read && found.as_ref() == Some(note)
    }

    /// Writes a note, and gives it its number.
    pub fn write_note(&mut self, note: &Note) -> Result<(), DiskError> {
        let numbered = Note { number: self.notes.write(), ..note.clone() };
        self.attempt("write", |medium| medium.write(note_at(numbered.number), &numbered.encode()))
    }

    /// Waits until all that was written is there.
    pub fn sync(&mut self) -> Result<(), DiskError> {
        self.attempt("sync", Medium::sync)?;
        self.table.synced();
        self.notes.sync();
        Ok(())
    }

    fn place(&self, offset: u64, len: usize) -> u64 {
        let (first, end) = (u64::from(self.shape.table), u64::from(self.shape.segments));
        let (first, end) = (first * SEGMENT_BYTES, end * SEGMENT_BYTES);
        assert!(offset >= first && offset + len as u64 <= end, "{len} bytes at {offset} are not of segments");
        segments_at(self.shape.segments.into()) + offset - first
    }

    /// Does something with the medium, unless it has failed.
    fn attempt<R>(
        &mut self,
        step: &'static str,
        what: impl FnOnce(&mut M) -> io::Result<R>,
    ) -> Result<R, DiskError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        what(&mut self.medium).map_err(|error| {
            let failed = DiskError::io(step, self.medium.path(), error);
            self.failed = Some(failed.clone());
            failed
        })
    }

    /// Checks that the file is ours; the medium that it names.
    fn check_header(&mut self) -> Result<u64, DiskError> {
        let path = self.medium.path().to_path_buf();
        if self.medium.bytes() < HEADER_BYTES {
            return Err(DiskError::Foreign { path });
        }
        let mut bytes = [0; HEADER_BYTES as usize];
        self.attempt("read", |medium| medium.read(0, &mut bytes))?;
        let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        if word(header::MAGIC) != MAGIC {
            return Err(DiskError::Foreign { path });
        }
        if word(header::SUM) != SumKey::new(SUM_KEY).sum(0, &bytes[8..]) {
            return Err(DiskError::Damaged { path, what: "its header".into() });
        }
        if word(header::VERSION) != VERSION {
            return Err(DiskError::Version { path, found: word(header::VERSION), known: VERSION });
        }
        let Shape { group, segments, table } = self.shape;
        if word(header::GROUP) != group {
            return Err(DiskError::Group { path, found: word(header::GROUP), group });
        }
        let (found, segments) = (word(header::SEGMENTS), u64::from(segments));
        if (found, word(header::TABLE)) != (segments, u64::from(table)) {
            return Err(DiskError::Shape { path, found, segments });
        }
        let (has, wants) = (self.medium.bytes(), file_bytes(segments, table.into()));
        if has != wants {
            return Err(DiskError::Damaged { path, what: format!("it has {has} bytes, not {wants}") });
        }
        Ok(word(header::MEDIUM))
    }

    /// The newest note that verifies, and where a copy is that was cut off.
    fn read_notes(&mut self) -> Result<(Option<Note>, Vec<u64>), DiskError> {
        let (mut newest, mut cut_off) = (None::<Note>, Vec::new());
        for copy in 0..COPIES {
            let (at, mut block) = (note_at(copy), vec![0; NOTE_BYTES as usize]);
            self.attempt("read", |medium| medium.read(at, &mut block))?;
            let note = Note::decode(at, &block);
            if note.is_none() && is_begun(&block) {
                cut_off.push(at);
            }
            newest = newest.into_iter().chain(note).max_by_key(|note| note.number);
        }
        Ok((newest, cut_off))
    }

    /// Reads the table. Where copies of pages are that were cut off.
    fn read_table(&mut self) -> Result<Vec<u64>, DiskError> {
        let mut cut_off = Vec::new();
        for page in 0..pages(self.shape.segments.into()) {
            let mut bytes = vec![0; (COPIES * PAGE_BYTES) as usize];
            self.attempt("read", |medium| medium.read(page_at(page, 0), &mut bytes))?;
            let (first, second) = bytes.split_at(PAGE_BYTES as usize);
            let Some(whole) = self.table.take(page, [first, second]) else {
                let (path, what) = (self.medium.path().to_path_buf(), format!("page {page} of its table"));
                return Err(DiskError::Damaged { path, what });
            };
            let torn = |copy: &u64| !whole[*copy as usize];
            cut_off.extend((0..COPIES).filter(torn).map(|copy| page_at(page, copy)));
        }
        Ok(cut_off)
    }
}

/// Whether the first sector of a block has anything in it.
fn is_begun(block: &[u8]) -> bool {
    block[..SECTOR as usize].iter().any(|byte| *byte != 0)
}

fn encode_header(shape: &Shape, id: u64) -> Vec<u8> {
    let mut words = [0; (HEADER_BYTES / 8) as usize];
    words[header::MAGIC] = MAGIC;
    words[header::VERSION] = VERSION;
    words[header::MEDIUM] = id;
    words[header::GROUP] = shape.group;
    words[header::SEGMENTS] = shape.segments.into();
    words[header::TABLE] = shape.table.into();
    let body: Vec<u8> = words[1..].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    words[header::SUM] = SumKey::new(SUM_KEY).sum(0, &body);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

const _: () = assert!(LINE == HEADER_BYTES, "the header is within one sector");

#[cfg(test)]
mod tests;
