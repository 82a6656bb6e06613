//! Threads that read everything back and check every byte, and threads that update meanwhile.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use longarm_base::random::SplitMix64;
use longarm_client::{ClusterClient, Csn, Error, Reply, RequestId, Write};
use longarm_workload::values::make;

use crate::config::Config;
use crate::connect;
use crate::items::described::{SMALL, check, scratch_key, scratch_len, small_key};
use crate::items::difference::difference;
use crate::items::digest::stamp;
use crate::items::tree::Listed;
use crate::output::{Exit, Failure};

/// Prefix of the files' keys.
pub const PREFIX: &[u8] = b"file/";
/// Keys of one multi-GET.
const BATCH: u64 = 64;
/// Batches of small items between two files.
const SMALL_BATCHES: u64 = 16;
/// Updates under way at once.
const PIPELINE: usize = 8;

/// The items that the threads read and update.
#[derive(Clone)]
pub struct Plan {
    /// The root of the files.
    pub root: PathBuf,
    /// The paths of the files, and what the files were when they were listed.
    pub files: Arc<Vec<Listed>>,
    /// The number of small items.
    pub items: u64,
    /// The number of values that writers replace.
    pub scratch: u64,
    /// Whether the user wants an end.
    pub stop: Arc<AtomicBool>,
}

/// What the threads did so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// GETs checked.
    pub gets: u64,
    /// Bytes of values compared.
    pub bytes: u64,
    /// Updates acknowledged.
    pub updates: u64,
    /// Files that changed on disk, so that they could not be compared.
    pub changed: u64,
}

#[derive(Default)]
struct Shared {
    gets: AtomicU64,
    bytes: AtomicU64,
    updates: AtomicU64,
    changed: AtomicU64,
    /// The number of readers that have seen everything once.
    seen_all: AtomicU64,
    end: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl Shared {
    fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        // Relaxed: a flag to end; the failure is read after the threads were joined.
        self.end.store(true, Ordering::Relaxed);
    }
}

/// The threads of one phase.
pub struct Work {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    readers: u64,
    threads: Vec<JoinHandle<()>>,
}

impl Work {
    /// Starts readers and writers. With `files` the readers read the files too.
    pub fn start(
        config: &Config,
        plan: &Plan,
        readers: u16,
        writers: u16,
        files: bool,
    ) -> Result<Work, Failure> {
        let shared = Arc::new(Shared::default());
        let mut work = Work { shared, stop: plan.stop.clone(), readers: readers.into(), threads: Vec::new() };
        for i in 0..readers + writers {
            let client = connect::connect(config, &format!("longarm demo {i}"))?;
            let (shared, plan, config) = (work.shared.clone(), plan.clone(), config.clone());
            let body = move || {
                let one = Thread { client, plan, shared: shared.clone() };
                let (at, of) = (u64::from(i), u64::from(readers));
                let done =
                    if i < readers { one.read(at, of, files) } else { one.write(at - of, writers.into()) };
                if let Err(trouble) = done {
                    shared.fail(trouble.failure(&config));
                }
            };
            let thread = std::thread::Builder::new().name(format!("demo-{i}")).spawn(body);
            work.threads
                .push(thread.map_err(|error| {
                    Failure::new(Exit::System, format!("cannot start a thread: {error}"))
                })?);
        }
        Ok(work)
    }

    /// Whether each reader has seen all of its share.
    pub fn seen_all(&self) -> bool {
        // Relaxed: counters for people, and flags to end; nothing is read under them. So in all of this file.
        self.shared.seen_all.load(Ordering::Relaxed) >= self.readers
    }

    /// Whether no thread failed and the user wants no end.
    pub fn goes_on(&self) -> bool {
        // Relaxed: as in `seen_all`.
        !self.shared.end.load(Ordering::Relaxed) && !self.stop.load(Ordering::Relaxed)
    }

    /// What the threads did so far.
    pub fn totals(&self) -> Totals {
        // Relaxed: as in `seen_all`.
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        Totals {
            gets: load(&shared.gets),
            bytes: load(&shared.bytes),
            updates: load(&shared.updates),
            changed: load(&shared.changed),
        }
    }

    /// Ends the threads and gives what they did, or the first failure.
    pub fn finish(mut self) -> Result<Totals, Failure> {
        self.end();
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or_else(|| Ok(self.totals()), Err)
    }

    fn end(&mut self) {
        // Relaxed: as in `seen_all`.
        self.shared.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared
                    .fail(Failure::new(Exit::Corrupt, "a thread of the demo ended by a broken invariant"));
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why a thread ends early.
enum Trouble {
    Client(Error),
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Client(error)
    }
}

impl Trouble {
    fn failure(self, config: &Config) -> Failure {
        match self {
            Trouble::Client(error) => connect::failure(&error, config),
            Trouble::Wrong(text) => Failure::new(Exit::Corrupt, format!("FAILED: {text}"))
                .hint("please report this with the machine and the kernel it happened on"),
        }
    }
}

struct Thread {
    client: ClusterClient,
    plan: Plan,
    shared: Arc<Shared>,
}

impl Thread {
    fn ended(&self) -> bool {
        // Relaxed: as in `Work::seen_all`.
        self.shared.end.load(Ordering::Relaxed) || self.plan.stop.load(Ordering::Relaxed)
    }

    /// Reads every `of`-th batch of small items, value and file from the `at`-th on, again and again.
    fn read(mut self, at: u64, of: u64, files: bool) -> Result<(), Trouble> {
        let batches = self.plan.items.div_ceil(BATCH);
        let (mut batch, mut scratch, mut file) = (at, at, at as usize);
        let (mut small_done, mut files_done) = (false, !files);
        let mut told = false;
        while !self.ended() {
            for _ in 0..SMALL_BATCHES {
                self.small(batch * BATCH)?;
                batch += of;
                if batch >= batches {
                    (batch, small_done) = (at, true);
                }
            }
            self.scratch(scratch)?;
            scratch = if scratch + of < self.plan.scratch { scratch + of } else { at };
            if files {
                self.file(file)?;
                file += of as usize;
                if file >= self.plan.files.len() {
                    (file, files_done) = (at as usize, true);
                }
            }
            if small_done && files_done && !told {
                told = true;
                // Relaxed: as in `Work::seen_all`.
                self.shared.seen_all.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn small(&mut self, first: u64) -> Result<(), Trouble> {
        if first >= self.plan.items {
            return Ok(());
        }
        let keys: Vec<[u8; 16]> = (first..self.plan.items.min(first + BATCH)).map(small_key).collect();
        let mut wrong = None;
        let mut bytes = 0;
        self.client.multi_get(&keys, |i, found| {
            let value = found.map(|(value, _)| value);
            bytes += value.map_or(0, <[u8]>::len) as u64;
            wrong = wrong.take().or(check(&keys[i], first + i as u64, value, |_| SMALL));
        })?;
        self.checked(keys.len() as u64, bytes, wrong)
    }

    fn scratch(&mut self, number: u64) -> Result<(), Trouble> {
        if number >= self.plan.scratch {
            return Ok(());
        }
        let key = scratch_key(number);
        let wrong = |found: Option<&[u8]>| check(&key, number, found, |version| scratch_len(number, version));
        let read = |value: &[u8], _: Csn| (value.len() as u64, wrong(Some(value)));
        let (bytes, wrong) = self.client.get_with(&key, read)?.unwrap_or_else(|| (0, wrong(None)));
        self.checked(1, bytes, wrong)
    }

    fn file(&mut self, at: usize) -> Result<(), Trouble> {
        let Some(file) = self.plan.files.get(at) else { return Ok(()) };
        let key = [PREFIX, file.path.as_os_str().as_bytes()].concat();
        if key.len() > longarm_base::limits::KEY_MAX {
            return Ok(());
        }
        let whole = self.plan.root.join(&file.path);
        let listed = file.stamp;
        let stored = self.client.get(&key)?;
        let on_disk = std::fs::read(&whole);
        // Another program may write the tree meanwhile: then there is nothing to compare with.
        let unchanged = std::fs::metadata(&whole).is_ok_and(|about| stamp(&about) == listed);
        let (true, Ok(on_disk)) = (unchanged, on_disk) else { return self.skip_file() };
        let Some(stored) = stored else {
            return self.checked(1, 0, Some(format!("{} is missing", whole.display())));
        };
        let wrong = difference(&on_disk, &stored).map(|how| format!("{}: {how}", whole.display()));
        self.checked(1, stored.len() as u64, wrong)
    }

    fn skip_file(&mut self) -> Result<(), Trouble> {
        // Relaxed: as in `Work::seen_all`.
        self.shared.changed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn checked(&mut self, gets: u64, bytes: u64, wrong: Option<String>) -> Result<(), Trouble> {
        // Relaxed: as in `Work::seen_all`.
        self.shared.gets.fetch_add(gets, Ordering::Relaxed);
        // Relaxed: as in `Work::seen_all`.
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        wrong.map_or(Ok(()), |text| Err(Trouble::Wrong(text)))
    }

    /// Overwrites small items and replaces longer values, each key by one writer, so that versions only grow.
    fn write(mut self, at: u64, of: u64) -> Result<(), Trouble> {
        let mut numbers = SplitMix64::new(at + 1);
        let mut version = 0u64;
        let mut open: std::collections::VecDeque<RequestId> = std::collections::VecDeque::new();
        while !self.ended() {
            version += 1;
            let small = !version.is_multiple_of(8);
            let of_all = if small { self.plan.items } else { self.plan.scratch };
            let number = numbers.modulo(of_all.div_ceil(of)) * of + at;
            if number < of_all {
                let len = if small { SMALL } else { scratch_len(number, version) };
                let value = make(number, version, len);
                let key = if small { small_key(number).to_vec() } else { scratch_key(number) };
                open.push_back(self.client.submit(&Write::put(&key, &value))?);
            }
            if open.len() >= PIPELINE {
                self.acknowledged(&mut open)?;
            }
        }
        while !open.is_empty() {
            self.acknowledged(&mut open)?;
        }
        Ok(())
    }

    fn acknowledged(&mut self, open: &mut std::collections::VecDeque<RequestId>) -> Result<(), Trouble> {
        let Some(oldest) = open.pop_front() else { return Ok(()) };
        match self.client.wait(oldest)? {
            Reply::Done(_) => {
                // Relaxed: as in `Work::seen_all`.
                self.shared.updates.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            other => Err(Trouble::Wrong(format!("an update was answered with {other:?}"))),
        }
    }
}
