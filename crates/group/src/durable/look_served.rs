//! The directory of a server that serves from persistent memory, at rest: what its next life would find.
//!
//! The files are mapped for this process alone, and a life begins over that: what it puts right stays here,
//! and nothing is written to the directory. Then each record, and each entry that one names, is verified.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

use longarm_base::{Csn, EntryRef, Nanos};
use longarm_disk::DiskError;
use longarm_engine::persistent::root::Root;
use longarm_engine::persistent::{PersistentMemory, layout};
use longarm_engine::{Engine, EngineOptions, Eviction, ReopenEngineError};
use longarm_index::control::Control;
use longarm_index::hash::{Discipline, Entries, Record, Reopened, verify};
use longarm_memory::{Backing, Budget, Mapped, Region, RegionOptions, SumKey, map_private_copy};

use crate::durable::directory::{ENTRIES, INDEX, ROOT};
use crate::durable::look::{Look, LookError, identity};

/// Problems that are named.
const NAMED: usize = 8;

/// What is in such a directory.
#[derive(Clone, Debug, Default)]
pub struct ServedReport {
    /// Items.
    pub items: u64,
    /// Those of them that are entries, and not in their slots.
    pub entries: u64,
    /// Bytes of these, in whole cache lines.
    pub bytes: u64,
    /// What a start puts right.
    pub put_right: Reopened,
    /// What is damaged, in words; some of it.
    pub problems: Vec<String>,
    /// How much is.
    pub problem_count: u64,
}

impl ServedReport {
    fn problem(&mut self, what: String) {
        self.problem_count += 1;
        if self.problems.len() < NAMED {
            self.problems.push(what);
        }
    }
}

/// Looks at a directory that no server uses; none if it is of another form.
pub fn look_served(dir: &Path) -> Result<Option<ServedReport>, LookError> {
    let path = dir.join(ROOT);
    if !path.exists() {
        return Ok(None);
    }
    let (identity, _locked) = identity(dir, Look::AtRest).map_err(|error| match error {
        LookError::InUse(dir) => LookError::Served(dir),
        error => error,
    })?;
    let mut report = ServedReport::default();
    let root = mapped(dir, ROOT)?;
    if !Root::is_laid_out(&root) {
        return Ok(Some(report));
    }
    let memory = PersistentMemory { index: mapped(dir, INDEX)?, arena: mapped(dir, ENTRIES)?, root };
    match begun(memory, identity.sum_key, identity.hash_key)? {
        Err(error) => report.problem(error.to_string()),
        Ok((engine, put_right)) => {
            report.put_right = put_right;
            verify_all(&engine, &SumKey::new(identity.sum_key), &mut report);
        }
    }
    Ok(Some(report))
}

/// A file of the directory, of which this process has its own.
fn mapped(dir: &Path, name: &str) -> Result<Mapped, LookError> {
    let path = dir.join(name);
    if !path.exists() {
        return Err(DiskError::Missing { path }.into());
    }
    let mapped = File::open(&path).and_then(|file| {
        let bytes = file.metadata()?.len();
        map_private_copy(&file, bytes)
    });
    mapped.map_err(|error| LookError::Io(path.display().to_string(), error))
}

/// A life over the memory, or why none can begin.
#[allow(clippy::type_complexity, reason = "what fails here, and what fails there")]
fn begun(
    memory: PersistentMemory<Mapped>,
    sum_key: u64,
    hash_key: u64,
) -> Result<Result<(Engine<Mapped>, Reopened), ReopenEngineError>, LookError> {
    let options = EngineOptions {
        workers: 1,
        slots: Root::slots(&memory.root),
        discipline: Discipline::OutOfPlace,
        expected_items: 0,
        found_items: 0,
        populate: false,
        hash_key,
        eviction: Eviction::None,
        quarantine: Nanos::from_millis(1_000),
        term: None,
        progress: None,
    };
    let page = RegionOptions { name: "look".into(), bytes: layout::BYTES, backing: Backing::Private };
    let page = Region::create(&page)
        .map_err(|error| LookError::Io("memory".into(), std::io::Error::other(error.to_string())))?;
    let sums = SumKey::new(sum_key);
    let control = Control::create(page.memory().clone(), 1, sums.clone());
    let engine = Engine::persistent(memory, control, sums, Arc::new(Budget::new(u64::MAX)), options);
    Ok(engine.map(|(engine, found)| (engine, found.unwrap_or_default())))
}

fn verify_all(engine: &Engine<Mapped>, sums: &SumKey, report: &mut ServedReport) {
    let hash = |record: &Record<'_>| match *record {
        Record::Inline { key, .. } => Ok(engine.index.hasher().hash(key)),
        Record::Entry { csn, entry, .. } => {
            let hash = engine.arena.hash_of(entry, csn, engine.index.hasher());
            hash.ok_or_else(|| format!("{entry:?} is not there"))
        }
    };
    let tables = verify(engine.index.memory(), &engine.index.geometry(), sums, 0, hash);
    report.items = tables.items;
    tables.problems.into_iter().for_each(|problem| report.problem(problem));
    let broken = Mutex::new(Vec::new());
    let entry = |entry: EntryRef, csn: Csn| {
        let found = engine.store.read(engine.arena.with_len(entry), csn, &mut Vec::new()).map(|_| ());
        if let Err(error) = found {
            broken
                .lock()
                .expect("problems")
                .push(format!("the entry of version {} at {:#x}: {error}", csn.0, entry.offset));
        }
    };
    let _: Result<(), ()> = engine.index.each_record(|record| {
        if let Record::Entry { csn, entry: place, .. } = *record {
            entry(place, csn);
        }
        Ok(())
    });
    broken.into_inner().expect("problems").into_iter().for_each(|problem| report.problem(problem));
    let counters = engine.store.counters();
    (report.entries, report.bytes) = (counters.entries, counters.live_bytes);
}
