//! One file for the output of all processes of a run, line by line, with the time and the name of the
//! process.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::output::{Failure, is_fault};

/// The number of its last lines that a failure shows.
const SHOWN: usize = 30;

/// The file of a run. A clone writes to the same file.
#[derive(Clone)]
pub struct Journal {
    began: Instant,
    path: PathBuf,
    file: Arc<Mutex<File>>,
    /// The first line that reports a fault of Longarm's own, with the process that wrote it.
    fault: Arc<OnceLock<String>>,
}

impl Journal {
    /// Creates the file.
    pub fn create(path: PathBuf) -> Result<Journal, Failure> {
        let file = File::create(&path).map_err(|error| Failure::io("create", &path, &error))?;
        let (file, fault) = (Arc::new(Mutex::new(file)), Arc::default());
        Ok(Journal { began: Instant::now(), path, file, fault })
    }

    /// The time since the file was created, as its lines state it.
    pub fn time(&self) -> Duration {
        self.began.elapsed()
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line of `who`.
    pub fn note(&self, who: &str, line: &str) {
        if is_fault(line) {
            self.fault.get_or_init(|| format!("{who} says: {line}"));
        }
        let text = format!("{:>11.4} {who}: {line}\n", self.time().as_secs_f64());
        // A full disk loses lines of the journal, which does no other harm.
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
    }

    /// Adds the lines of `said` until it ends, from a thread of its own.
    pub fn follow(&self, who: &str, said: impl Read + Send + 'static) -> Result<(), Failure> {
        let (journal, who) = (self.clone(), who.to_string());
        let body = move || {
            let lines = BufReader::new(said).split(b'\n');
            lines.map_while(Result::ok).for_each(|line| journal.note(&who, &String::from_utf8_lossy(&line)));
        };
        let thread = std::thread::Builder::new().name("journal".into()).spawn(body);
        thread.map(|_| ()).map_err(|error| Failure::io("follow what is written to", &self.path, &error))
    }

    /// The first line by which a process reported a fault of Longarm's own.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// The last lines of the file.
    pub fn last(&self) -> String {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fault;

    #[test]
    fn lines_have_their_speaker() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Journal::create(dir.path().join("log")).expect("a file");
        journal.note("fault", "kill the leader");
        journal.follow("node 2", &b"one\ntwo"[..]).expect("a thread");
        let began = Instant::now();
        while !journal.last().contains("node 2: two") {
            assert!(began.elapsed() < Duration::from_secs(20), "{}", journal.last());
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let text = journal.last();
        let lines: Vec<&str> =
            text.lines().map(|line| line.trim_start().split_once(' ').expect("a time").1).collect();
        assert_eq!(lines, ["fault: kill the leader", "node 2: one", "node 2: two"]);
        assert_eq!(journal.fault(), None);
    }

    #[test]
    fn what_a_server_finds_to_be_wrong_with_itself_is_remembered() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Journal::create(dir.path().join("log")).expect("a file");
        journal.note("node 1", "it is to lead");
        let said = fault("segment 4 is kept");
        journal.note("node 2", &said);
        journal.note("node 1", &said);
        assert_eq!(journal.fault(), Some("node 2 says: fault: segment 4 is kept"));
    }
}
