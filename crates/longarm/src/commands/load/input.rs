//! The file of lines that is read, or stdin.

use std::path::{Path, PathBuf};

use crate::items::digest::{Digest, stamp};
use crate::output::{Exit, Failure};

/// An open file, or stdin.
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) reader: Box<dyn std::io::BufRead>,
    pub(super) bytes: Option<u64>,
    pub(super) fingerprint: Option<u64>,
}

impl Input {
    pub(super) fn open(path: &Path, stdin: bool) -> Result<Input, Failure> {
        if stdin {
            let reader = Box::new(std::io::stdin().lock());
            return Ok(Input { path: "stdin".into(), reader, bytes: None, fingerprint: None });
        }
        let file = std::fs::File::open(path).map_err(|error| Failure::io("open", path, &error))?;
        let about = file.metadata().map_err(|error| Failure::io("examine", path, &error))?;
        if about.is_dir() {
            let text = format!("{} is a directory", path.display());
            return Err(Failure::new(Exit::Usage, text).hint("load it with --format tree"));
        }
        // A pipe or a device has neither a size nor a second reading.
        let plain = about.is_file();
        Ok(Input {
            path: path.into(),
            reader: Box::new(std::io::BufReader::with_capacity(1 << 20, file)),
            bytes: plain.then_some(about.len()),
            fingerprint: plain.then(|| Digest::new().words(&stamp(&about)).0),
        })
    }

    /// The failure of a read at this line.
    pub(super) fn failed(&self, line: u64, error: &std::io::Error) -> Failure {
        let text = format!("cannot read {} at line {line}: {error}", self.path.display());
        Failure::new(Exit::System, text)
    }
}
