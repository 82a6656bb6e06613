//! The file that remembers how far a load came, so that a rerun goes on from there.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::args::Args;
use super::source;
use crate::items::digest::Digest;
use crate::items::item::Source;
use crate::output::{Exit, Failure};
use crate::replaced::replace;

/// The least time between two writes of the file.
const EVERY: Duration = Duration::from_millis(200);
/// Version of the file's form.
const VERSION: u64 = 1;

/// The file, and what it says.
pub struct Resume {
    path: PathBuf,
    source: u64,
    boot: u64,
    written: Option<Instant>,
    /// Records done when this run began.
    pub done: u64,
    /// Records skipped by earlier runs.
    pub skipped: u64,
}

impl Resume {
    /// Opens the file if it exists, and checks that it is about this source, these arguments and this server.
    pub fn open(path: &Path, args: &Args, of: &dyn Source, boot: u64) -> Result<Resume, Failure> {
        let Some(fingerprint) = of.fingerprint() else {
            return Err(Failure::new(
                Exit::Usage,
                "--resume needs a source that can be read again, stdin cannot",
            ));
        };
        let source = Digest::new().words(&[fingerprint]).bytes(meaning(args).as_bytes()).0;
        let mut resume = Resume { path: path.into(), source, boot, written: None, done: 0, skipped: 0 };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Writing the file before the work begins tells the user at once of a path that cannot be
                // written.
                resume.write(0, 0)?;
                return Ok(resume);
            }
            Err(error) => return Err(Failure::io("read", path, &error)),
        };
        resume.believe(&text)?;
        Ok(resume)
    }

    fn believe(&mut self, text: &str) -> Result<(), Failure> {
        let wrong = |what: &str| {
            Failure::new(Exit::Usage, format!("{}: {what}", self.path.display()))
                .hint("remove the file to load everything from the beginning")
        };
        let state: Value = serde_json::from_str(text).map_err(|_| wrong("it is no file of --resume"))?;
        let number = |name: &str| state[name].as_u64().ok_or_else(|| wrong("it is no file of --resume"));
        if number("longarm_load")? != VERSION {
            return Err(wrong("it is of another version of this program"));
        }
        if number("source")? != self.source {
            return Err(wrong("the source, or how it is read, changed since that load began"));
        }
        if number("boot")? != self.boot {
            return Err(wrong("the server was started anew since then, and what it had stored is gone"));
        }
        (self.done, self.skipped) = (number("done")?, number("skipped")?);
        Ok(())
    }

    /// Whether the last note is old enough for another.
    pub fn is_due(&self) -> bool {
        self.written.is_none_or(|written| written.elapsed() >= EVERY)
    }

    /// Notes the progress. The file is replaced whole: a kill leaves the old or the new one.
    pub fn write(&mut self, done: u64, skipped: u64) -> Result<(), Failure> {
        let state = json!({
            "longarm_load": VERSION, "source": self.source, "boot": self.boot, "done": done,
            "skipped": skipped,
        });
        replace(&self.path, |new| std::fs::write(new, format!("{state}\n")))?;
        self.written = Some(Instant::now());
        Ok(())
    }
}

/// Formats all arguments that change what records mean.
fn meaning(args: &Args) -> String {
    let format = source::format(args).ok();
    let path = std::fs::canonicalize(&args.path).unwrap_or_else(|_| args.path.clone());
    format!(
        "{path:?} {format:?} {:?} {:?} {:?} {} {} {}",
        args.prefix, args.key, args.value, args.whole_line, args.no_header, args.base64
    )
}
