//! Examines a disk: how long it takes until a few bytes are surely there. A replica waits for that before
//! each promise, so a change of the leader takes it twice, in the candidate and in those that vote.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use longarm_memory::{OwnedWords, Persistence, map_persistent};

use super::Finding;

/// Bytes that are written and synced at once.
const BLOCK: usize = 4096;
/// Blocks of the file, which are written one after the other, and again.
const BLOCKS: usize = 64;
/// How often that is measured, and for how long at most.
const TRIES: usize = 500;
const TIME: Duration = Duration::from_secs(2);
/// How long a disk may take that is hardly one.
const PATIENCE: Duration = Duration::from_secs(20);
/// The 99th percentile from which on it delays a change of the leader more than its silence does.
const SLOW: Duration = Duration::from_millis(20);

/// Writes a file in the directory for a moment, and says how long its syncs take.
pub fn sync(dir: &Path) -> Finding {
    let (tell, told) = mpsc::channel();
    let of = dir.to_path_buf();
    let body = move || {
        // The receiver is gone if the answer took too long.
        let _ = tell.send(measure(&of));
    };
    let measured = match std::thread::Builder::new().name("longarm-disk".into()).spawn(body) {
        Ok(_) => told.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            Err(io::Error::other(match error {
                RecvTimeoutError::Timeout => "no answer within 20 s",
                RecvTimeoutError::Disconnected => "asking it ended in a panic",
            }))
        }),
        Err(error) => Err(error),
    };
    match measured {
        Ok(times) => judge(dir, times),
        Err(error) => Finding::bad(
            "disk",
            format!("{}: {error}", dir.display()),
            "name a directory in which this user may make files, on a disk that has room",
        ),
    }
}

/// What the times of syncs mean.
fn judge(dir: &Path, mut times: Vec<Duration>) -> Finding {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let (p50, p99) = (at(50), at(99));
    let found = format!(
        "{}: 4 KiB are written and synced in {} us, 99 of 100 times in {} us ({} tries)",
        dir.display(),
        p50.as_micros(),
        p99.as_micros(),
        times.len()
    );
    if p99 < SLOW {
        return Finding::ok("disk", found);
    }
    Finding::warn("disk", found, "a change of the leader waits for two of these: name another disk as --data")
}

/// Says whether a directory is on persistent memory, and how long a write takes to be surely there.
pub fn persistent(dir: &Path) -> Finding {
    match measure_memory(dir) {
        Ok((Persistence::Power, time)) => {
            let (dir, us) = (dir.display(), time.as_secs_f64() * 1e6);
            Finding::ok(
                "pmem",
                format!("{dir} is on persistent memory: 4 KiB are written back in {us:.1} us"),
            )
        }
        Ok((Persistence::Process, _)) => Finding::ok(
            "pmem",
            format!(
                "{} is on no persistent memory (a file system mounted with dax): --durability pmem wants \
                 --pmem file there, and outlives the process alone",
                dir.display()
            ),
        ),
        // What is wrong with the directory its disk's line says.
        Err(error) => Finding::ok("pmem", format!("{}: cannot say: {error}", dir.display())),
    }
}

/// What a file in the directory is when it is mapped, and how long a block takes to be written back.
fn measure_memory(dir: &Path) -> io::Result<(Persistence, Duration)> {
    let scratch = Scratch::new(dir, "pmem")?;
    scratch.file.write_all_at(&vec![1; BLOCKS * BLOCK], 0)?;
    let (memory, persistence) = map_persistent(&scratch.file, (BLOCKS * BLOCK) as u64)?;
    let begun = Instant::now();
    for block in 0..BLOCKS {
        let at = (block * BLOCK) as u64;
        memory.copy_in(at, &[block as u8; BLOCK]);
        memory.flush(at, BLOCK as u64);
        memory.fence();
    }
    Ok((persistence, begun.elapsed() / BLOCKS as u32))
}

/// A file that goes when this does.
struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    fn new(dir: &Path, what: &str) -> io::Result<Scratch> {
        let path = dir.join(format!(".longarm-doctor-{what}-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(Scratch { file, path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// How long each of some syncs took, of a block that was written in place.
fn measure(dir: &Path) -> io::Result<Vec<Duration>> {
    let scratch = Scratch::new(dir, "sync")?;
    // No holes: a block that is there is written without the file system's journal.
    scratch.file.write_all_at(&vec![1; BLOCKS * BLOCK], 0)?;
    scratch.file.sync_all()?;
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || times.len() < TRIES && begun.elapsed() < TIME {
        let at = (times.len() % BLOCKS * BLOCK) as u64;
        let began = Instant::now();
        scratch.file.write_all_at(&[times.len() as u8; BLOCK], at)?;
        scratch.file.sync_data()?;
        times.push(began.elapsed());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_disk_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let finding = sync(dir.path());
        assert_ne!(finding.verdict, Verdict::Bad, "{finding:?}");
        assert!(finding.found.contains("are written and synced in"), "{finding:?}");
        // Whatever this machine has: it says what, and what follows.
        let memory = persistent(dir.path());
        assert!(memory.found.contains(" persistent memory"), "{memory:?}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn what_is_no_directory_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let none = dir.path().join("none");
        let finding = sync(&none);
        assert_eq!(finding.verdict, Verdict::Bad);
        assert!(finding.found.contains(&none.display().to_string()), "{finding:?}");
        assert!(finding.advice.contains("may make files"));
    }

    #[test]
    fn a_slow_disk_is_a_warning() {
        let times = |slow: usize| {
            let mut times = vec![Duration::from_micros(130); 100 - slow];
            times.extend(vec![Duration::from_millis(30); slow]);
            times
        };
        assert_eq!(judge(Path::new("d"), times(0)).verdict, Verdict::Ok);
        assert_eq!(judge(Path::new("d"), times(1)).verdict, Verdict::Ok);
        let slow = judge(Path::new("d"), times(5));
        assert_eq!(slow.verdict, Verdict::Warn);
        assert_eq!(
            slow.found,
            "d: 4 KiB are written and synced in 130 us, 99 of 100 times in 30000 us (100 tries)"
        );
    }
}
