//! The machine that is examined: a directory that looks like its `/`, and what only system calls tell.

use std::path::PathBuf;

use super::probe::{Probe, probe};
use crate::config::Config;

/// A machine: a directory that looks like its `/`, and what only system calls tell.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where `proc`, `sys` and `dev` are.
    pub root: PathBuf,
    /// Cores this process may run on.
    pub cores: usize,
    /// Bytes this process may lock; `None` is without bound.
    pub lockable: Option<u64>,
    /// Files this process may open now, and the most it may allow itself; `None` is without bound.
    pub files: (Option<u64>, Option<u64>),
    /// Bytes of a page.
    pub page: u64,
    /// What the verbs library tells of RDMA devices.
    pub probe: Probe,
}

impl Machine {
    /// Looks at the machine of this process, for a server or client with these settings.
    pub fn this(config: &Config) -> Machine {
        use rustix::process::{Resource, getrlimit};
        let files = getrlimit(Resource::Nofile);
        Machine {
            root: PathBuf::from("/"),
            cores: longarm_host::cores(),
            lockable: getrlimit(Resource::Memlock).current,
            files: (files.current, files.maximum),
            page: rustix::param::page_size() as u64,
            probe: probe(config),
        }
    }

    /// The trimmed text of a small file below the root, if it is there and readable.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_string())
    }

    /// Names in a directory below the root, sorted; none if it is not there.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Why this user may not read and write the file, if so.
    pub(super) fn refusal(&self, path: &str) -> Option<std::io::Error> {
        use rustix::fs::{Access, access};
        access(self.root.join(path), Access::READ_OK | Access::WRITE_OK).err().map(Into::into)
    }
}
