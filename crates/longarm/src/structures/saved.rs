//! A saved arena: the files that a server with `arena_dir` left behind, mapped read-only.

use std::fs::File;
use std::path::{Path, PathBuf};

use longarm_base::Csn;
use longarm_client::Item;
use longarm_index::control::layout::{GEOMETRY, GEOMETRY_WORDS};
use longarm_index::control::{self, Heartbeat};
use longarm_index::hash::{Geometry, Record, items};
use longarm_memory::{ReadOnly, Region, SumKey, Words};
use longarm_server::Saved as Description;

use super::check::{View, read_entry};
use crate::output::{Exit, Failure};

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

    /// Shows every item until `each` returns `false`. An item that does not verify is a failure.
    pub fn items(&self, mut each: impl FnMut(Item) -> bool) -> Result<(), Failure> {
        let geometry = self.geometry()?;
        let tables: Vec<_> = geometry.live().copied().collect();
        let mut bytes = Vec::new();
        for table in &tables {
            for pair in 0..table.pairs {
                let mut found = Vec::new();
                let mut entries = Vec::new();
                let looked = items(&self.index, table, pair, &self.sums, |record| match *record {
                    Record::Inline { csn, key, value, expiry, .. } => {
                        found.push(Item { key: key.to_vec(), value: value.to_vec(), csn, expiry })
                    }
                    Record::Entry { csn, entry, .. } => entries.push((csn, entry)),
                });
                looked.map_err(|why| self.broken(&why))?;
                for (csn, entry) in entries {
                    let read = read_entry(self.view(), csn, entry, &mut bytes);
                    let entry = read.map_err(|why| self.broken(&format!("pair {pair}: {why}")))?;
                    let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
                    found.push(Item { key, value, csn: Csn(csn.0), expiry: entry.expiry });
                }
                for item in found {
                    if !each(item) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}
