//! A saved arena: the files that a server with `arena_dir` left behind, mapped read-only.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use longarm_client::Item;
use longarm_index::control::layout::{GEOMETRY, GEOMETRY_WORDS};
use longarm_index::control::{self, Heartbeat};
use longarm_index::hash::{Geometry, LookedAt, Record, Table, has_moved, items};
use longarm_memory::{HashKey, ReadOnly, Region, SumKey, Words};
use longarm_server::Saved as Description;

use super::check::{View, read_entry};
use crate::output::{Exit, Failure};

/// The most records that do not verify and are named; further ones are counted.
const NAMED_MAX: usize = 20;

/// The three regions of a saved arena, and their description.
pub struct Saved {
    directory: PathBuf,
    control: ReadOnly,
    /// Hash tables.
    pub index: ReadOnly,
    /// Segments.
    pub arena: ReadOnly,
    /// Key of the record checksums.
    pub sums: SumKey,
}

impl Saved {
    /// Opens the files in a directory.
    pub fn open(directory: &Path) -> Result<Saved, Failure> {
        let hint = "name a directory that a server used as --arena-dir";
        let about =
            Description::read(directory).map_err(|text| Failure::new(Exit::System, text).hint(hint))?;
        let open = |path: PathBuf, bytes: u64| -> Result<ReadOnly, Failure> {
            let file = File::open(&path).map_err(|error| Failure::io("open", &path, &error).hint(hint))?;
            let found = file.metadata().map_err(|error| Failure::io("examine", &path, &error))?.len();
            if found != bytes {
                let text =
                    format!("{} has {found} bytes, {} says {bytes}", path.display(), Description::FILE);
                return Err(Failure::new(Exit::Corrupt, text).hint("was it copied only in part?"));
            }
            Region::open_saved(&file)
                .map_err(|error| Failure::new(Exit::System, format!("{}: {error}", path.display())))
        };
        Ok(Saved {
            directory: directory.into(),
            control: open(Description::control_path(directory), about.control_bytes)?,
            index: open(Description::index_path(directory), about.index_bytes)?,
            arena: open(Description::segments_path(directory), about.arena_bytes)?,
            sums: SumKey::new(about.sum_key),
        })
    }

    /// Reads the first line of the control page.
    pub fn heartbeat(&self) -> Result<Heartbeat, Failure> {
        let mut line = [0; 64];
        if self.control.bytes() >= 64 {
            self.control.copy_out(0, &mut line);
        }
        Heartbeat::parse(&line).ok_or_else(|| self.broken("the control page is not one of this layout"))
    }

    /// Reads which tables are in use.
    pub fn geometry(&self) -> Result<Geometry, Failure> {
        let mut bytes = [0; GEOMETRY_WORDS * 8];
        if self.control.bytes() >= GEOMETRY + bytes.len() as u64 {
            self.control.copy_out(GEOMETRY, &mut bytes);
        }
        control::geometry(&bytes, &self.sums, self.index.bytes())
            .ok_or_else(|| self.broken("the geometry record of the control page does not verify"))
    }

    fn broken(&self, what: &str) -> Failure {
        Failure::new(Exit::Corrupt, format!("{}: {what}", self.directory.display()))
    }

    /// The memory that is checked.
    pub fn view(&self) -> View<'_> {
        View { index: &self.index, arena: &self.arena, sums: &self.sums }
    }

    /// Shows every item that verifies until `each` returns `false`; says what does not. A server that was cut
    /// off may have left a slot half written, and copies of items that it was moving.
    pub fn items(&self, mut each: impl FnMut(Item) -> bool) -> Result<PassedOver, Failure> {
        let geometry = self.geometry()?;
        let hasher = HashKey::new(geometry.hash_key);
        let mut passed = PassedOver::default();
        for (at, table) in geometry.live().enumerate() {
            for pair in 0..table.pairs {
                let mut items = self.items_of(table, pair, &mut passed);
                items.retain(|item| has_moved(&self.index, &geometry, at, hasher.hash(&item.key)));
                for item in items {
                    if !each(item) {
                        return Ok(passed);
                    }
                }
            }
        }
        Ok(passed)
    }

    /// The items of a pair that verify, each once.
    fn items_of(&self, table: &Table, pair: u64, passed: &mut PassedOver) -> Vec<Item> {
        let (mut found, mut entries) = (Vec::<Item>::new(), Vec::new());
        let looked = items(&self.index, table, pair, &self.sums, |record| match *record {
            Record::Inline { csn, key, value, expiry, .. } => {
                found.push(Item { key: key.to_vec(), value: value.to_vec(), csn, expiry })
            }
            Record::Entry { csn, entry, .. } => entries.push((csn, entry)),
        });
        let here = format!("pair {pair} of table {}", table.id);
        match looked {
            Ok(LookedAt { torn: 0, .. }) => {}
            Ok(LookedAt { torn, .. }) => {
                passed.slots(torn as u64, format!("{torn} slots of {here}, which do not verify"))
            }
            Err(why) => passed.pair(why),
        }
        let mut bytes = Vec::new();
        for (csn, entry) in entries {
            match read_entry(self.view(), csn, entry, &mut bytes) {
                Ok(entry) => {
                    let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
                    found.push(Item { key, value, csn, expiry: entry.expiry });
                }
                Err(why) => passed.slots(1, format!("a slot of {here}, which {why}")),
            }
        }
        // A record on its way within the pair is there twice.
        let mut seen = HashSet::new();
        found.retain(|item| seen.insert((item.csn.0, item.key.clone())));
        found
    }
}

/// What does not verify in a saved arena.
#[derive(Clone, Debug, Default)]
pub struct PassedOver {
    /// The number of slots.
    pub slots: u64,
    /// The number of pairs of which nothing can be read.
    pub pairs: u64,
    /// The first of them, with the reasons.
    pub named: Vec<String>,
}

impl PassedOver {
    fn slots(&mut self, count: u64, text: String) {
        self.slots += count;
        self.name(text);
    }

    fn pair(&mut self, text: String) {
        self.pairs += 1;
        self.name(text);
    }

    fn name(&mut self, text: String) {
        if self.named.len() < NAMED_MAX {
            self.named.push(text);
        }
    }
}
