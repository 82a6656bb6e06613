//! Examines a machine. Everything is read below a root directory, from a few numbers and from what the verbs
//! library told ([`probe`]), so that tests can invent a machine; nothing is changed.

mod memory;
mod network;
pub mod probe;
mod processor;
mod rdma;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use longarm_fabric::Address;
use serde_json::{Value, json};

use crate::config::Config;
use probe::Probe;

/// What is thought of one thing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Nothing to do.
    Ok,
    /// It works, but slower or with less than it could.
    Warn,
    /// A server with the present settings would not start or not work.
    Bad,
}

impl Verdict {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Bad => "bad",
        }
    }
}

/// One thing examined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was examined: a stable name for scripts.
    pub name: &'static str,
    /// What is thought of it.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do; empty if nothing.
    pub advice: String,
}

impl Finding {
    fn ok(name: &'static str, found: impl Into<String>) -> Finding {
        Finding { name, verdict: Verdict::Ok, found: found.into(), advice: String::new() }
    }

    fn warn(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { name, verdict: Verdict::Warn, found: found.into(), advice: advice.into() }
    }

    fn bad(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { name, verdict: Verdict::Bad, found: found.into(), advice: advice.into() }
    }

    /// Lines for a person.
    pub fn to_text(&self) -> String {
        let mut text = format!("{:<5} {:<12} {}\n", self.verdict.name(), self.name, self.found);
        if !self.advice.is_empty() {
            text.push_str(&format!("{:<18} -> {}\n", "", self.advice));
        }
        text
    }

    /// One line for a script.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "verdict": self.verdict.name(), "found": self.found, "advice": self.advice,
        })
    }
}

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
    /// The one we run on, looked at for a server or client with these settings.
    pub fn this(config: &Config) -> Machine {
        use rustix::process::{Resource, getrlimit};
        let files = getrlimit(Resource::Nofile);
        Machine {
            root: PathBuf::from("/"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            lockable: getrlimit(Resource::Memlock).current,
            files: (files.current, files.maximum),
            page: rustix::param::page_size() as u64,
            probe: probe::probe(config),
        }
    }

    /// The trimmed text of a small file below the root, if it is there and readable.
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_string())
    }

    /// Names in a directory below the root, sorted; none if it is not there.
    fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Why this user may not read and write the file, if so.
    fn refusal(&self, path: &str) -> Option<std::io::Error> {
        use rustix::fs::{Access, access};
        access(self.root.join(path), Access::READ_OK | Access::WRITE_OK).err().map(Into::into)
    }
}

/// Examines everything, in the order it is printed.
pub fn examine(machine: &Machine, config: &Config) -> Vec<Finding> {
    let mut findings = vec![
        processor::kernel(machine),
        processor::cores(machine, config),
        processor::flags(machine),
        processor::clock(machine),
        memory::available(machine, config),
        memory::page(machine),
        memory::huge(machine, config),
        memory::shared_huge(machine),
        memory::lockable(machine, config),
        network::files(machine, config),
        network::nics(machine),
    ];
    findings.extend(rdma::all(machine, config));
    findings
}

/// Addresses for which a NIC is needed.
fn verbs_addresses(config: &Config) -> impl Iterator<Item = &Address> {
    config.address.iter().filter(|address| matches!(address, Address::Verbs(_)))
}
