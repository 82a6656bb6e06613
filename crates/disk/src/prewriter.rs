//! Makes the part of a file that is about to be written ready for it.
//!
//! A file that was given its whole size at once has no bytes on the disk yet: the file system only knows that
//! the room is taken. Whoever writes there first changes these records, too, and the sync of such a write
//! waits for the file system's journal as well: measured, four times as long. So a thread writes zeros ahead
//! of the first place that nobody wrote to, and syncs find nothing but bytes to wait for.
//!
//! (1) It writes only where the file has no bytes, which the file system knows, and whoever writes waits for
//!     it if both meet. So it changes nothing that anybody can read.
//! (2) It is as far ahead as [`AHEAD`], and does no more than [`RATE`]: who writes faster than that has large
//!     batches, and pays for the journal once each. It is passed then, and goes on from there.
//! (3) It goes past the system's cache, so the next sync has none of its bytes to wait for. Where that is not
//!     possible, or fails, it ends, and everything is as without it.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longarm_host::{Thread, spawn};
use rustix::fs::{OFlags, SeekFrom};

/// Bytes that are written at once, at multiples of as many.
pub const PIECE: u64 = 1 << 20;
/// How far it is ahead.
pub const AHEAD: u64 = 64 << 20;
/// Bytes a second.
const RATE: u64 = 64 << 20;
/// The time that a piece has.
const PACE: Duration = Duration::from_micros(PIECE * 1_000_000 / RATE);
/// Memory for such writes begins at a multiple of this.
const ALIGNED: usize = 4096;

/// Where the two writers are.
#[derive(Debug)]
struct Front {
    /// Where the next piece begins that is to be made ready.
    next: u64,
    /// The piece that is being written.
    busy: Range<u64>,
    /// Where writing comes next: the end of the foremost write that was near.
    wanted: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Shared {
    front: Mutex<Front>,
    /// The front, or the piece that is being written, changed.
    changed: Condvar,
}

/// The thread that makes a file ready.
#[derive(Debug)]
pub struct Prewriter {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

impl Prewriter {
    /// Makes the file ready from `from` on. None if the system cannot do so.
    pub fn start(path: &Path, from: u64) -> Option<Prewriter> {
        let direct = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(path).ok()?;
        let from = from.next_multiple_of(PIECE);
        let front = Front { next: from, busy: 0..0, wanted: from, is_over: false };
        let shared = Arc::new(Shared { front: Mutex::new(front), changed: Condvar::new() });
        let of = shared.clone();
        let body = move || {
            // An error is that of a write that nobody waits for: who writes there next hears of its own.
            let _ = of.run(&file);
            of.lock().is_over = true;
            of.changed.notify_all();
        };
        let thread = Some(spawn("longarm-prewriter", body).ok()?);
        Some(Prewriter { shared, thread })
    }

    /// Somebody is about to write there: waits if the thread does so, too.
    pub fn before_write(&self, range: Range<u64>) {
        let mut front = self.shared.lock();
        while front.busy.start < range.end && range.start < front.busy.end && !front.is_over {
            front = self.shared.changed.wait(front).unwrap_or_else(PoisonError::into_inner);
        }
        // Large values come from the other end of the file.
        if range.start < front.next + AHEAD {
            front.next = front.next.max(range.end.next_multiple_of(PIECE));
            if range.end > front.wanted {
                front.wanted = range.end;
                self.shared.changed.notify_all();
            }
        }
    }

    /// Waits until it has nothing to do; whether it goes on at all.
    #[cfg(test)]
    fn is_ahead(&self) -> bool {
        let mut front = self.shared.lock();
        while !front.is_over && (front.next < front.wanted + AHEAD || !front.busy.is_empty()) {
            front = self.shared.changed.wait(front).unwrap_or_else(PoisonError::into_inner);
        }
        !front.is_over
    }
}

impl Drop for Prewriter {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, file: &File) -> io::Result<()> {
        let bytes = file.metadata()?.len() / PIECE * PIECE;
        let zeros = vec![0; PIECE as usize + ALIGNED];
        let from = zeros.as_ptr().align_offset(ALIGNED);
        let zeros = &zeros[from..from + PIECE as usize];
        while let Some(piece) = self.next(bytes) {
            let bare = is_bare(file, &piece);
            let written = match &bare {
                Ok(true) => file.write_all_at(zeros, piece.start),
                _ => Ok(()),
            };
            let mut front = self.lock();
            front.busy = 0..0;
            self.changed.notify_all();
            written?;
            if bare? && !front.is_over {
                let paced = self.changed.wait_timeout_while(front, PACE, |front| !front.is_over);
                drop(paced.unwrap_or_else(PoisonError::into_inner));
            }
        }
        Ok(())
    }

    /// Waits for the next piece, and takes it.
    fn next(&self, bytes: u64) -> Option<Range<u64>> {
        let mut front = self.lock();
        while !front.is_over && front.next >= front.wanted + AHEAD {
            front = self.changed.wait(front).unwrap_or_else(PoisonError::into_inner);
        }
        if front.is_over || front.next >= bytes {
            return None;
        }
        let piece = front.next..front.next + PIECE;
        (front.next, front.busy) = (piece.end, piece.clone());
        Some(piece)
    }
}

/// Whether a piece has no bytes on the disk, nor any on their way there.
fn is_bare(file: &File, piece: &Range<u64>) -> io::Result<bool> {
    match rustix::fs::seek(file, SeekFrom::Data(piece.start)) {
        Ok(data) => Ok(data >= piece.end),
        // None are behind.
        Err(rustix::io::Errno::NXIO) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that has its size, and no bytes, where the file system knows such files.
    fn file(bytes: u64) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).expect("room");
        file
    }

    fn ready(file: &File, bytes: u64) -> Vec<u64> {
        let pieces = (0..bytes / PIECE).map(|piece| piece * PIECE..(piece + 1) * PIECE);
        pieces
            .filter(|piece| !is_bare(file, piece).expect("known"))
            .map(|piece| piece.start / PIECE)
            .collect()
    }

    #[test]
    fn it_is_ahead_of_who_writes_and_changes_nothing() {
        let bytes = AHEAD + 8 * PIECE;
        let file = file(bytes);
        if !ready(file.as_file(), bytes).is_empty() {
            // In memory files have all of their bytes at once.
            return;
        }
        let Some(prewriter) = Prewriter::start(file.path(), 1) else { return };
        if !prewriter.is_ahead() {
            // The file system has other ways.
            return;
        }
        assert_eq!(ready(file.as_file(), bytes), (1..1 + AHEAD / PIECE).collect::<Vec<_>>());
        let text = vec![7; 3 * PIECE as usize / 2];
        let write = |at: u64| {
            prewriter.before_write(at..at + text.len() as u64);
            file.as_file().write_all_at(&text, at).expect("written");
        };
        write(2 * PIECE);
        assert!(prewriter.is_ahead());
        let last = 2 * PIECE + text.len() as u64 + AHEAD;
        assert_eq!(ready(file.as_file(), bytes).last(), Some(&(last / PIECE)));
        // Who passes it is not written over.
        let far = bytes - 2 * PIECE;
        write(far);
        drop(prewriter);
        let mut read = vec![0; bytes as usize];
        file.as_file().read_exact_at(&mut read, 0).expect("read");
        for at in [2 * PIECE, far] {
            let (before, after) = read.split_at_mut(at as usize);
            assert!(before.last() == Some(&0) && after[..text.len()] == text);
            after[..text.len()].fill(0);
        }
        assert!(read.iter().all(|byte| *byte == 0));
    }

    /// One thread writes pieces, as fast as it can, into and across those that are made ready.
    #[test]
    fn no_byte_is_lost_where_both_meet() {
        let bytes = 24 * PIECE;
        let file = file(bytes);
        let Some(prewriter) = Prewriter::start(file.path(), 0) else { return };
        let step = PIECE / 8 + 512;
        let text = vec![9; step as usize];
        for at in (0..bytes - step).step_by(step as usize) {
            prewriter.before_write(at..at + step);
            file.as_file().write_all_at(&text, at).expect("written");
        }
        drop(prewriter);
        let mut read = vec![0; ((bytes - step) / step * step) as usize];
        file.as_file().read_exact_at(&mut read, 0).expect("read");
        assert!(read.iter().all(|byte| *byte == 9));
    }

    #[test]
    fn it_ends_with_its_file_and_without_one() {
        assert!(Prewriter::start(Path::new("/nonexistent/file"), 0).is_none());
        let file = file(PIECE / 2);
        if let Some(prewriter) = Prewriter::start(file.path(), 0) {
            assert!(!prewriter.is_ahead(), "there is no whole piece");
            prewriter.before_write(0..9);
        }
    }
}
