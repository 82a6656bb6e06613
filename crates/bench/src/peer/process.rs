//! One server process: killed when dropped, and where `setpriv` exists also with the thread that started it,
//! so that a killed benchmark leaves nothing behind.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lines of what a server said that are shown when it ends.
const SHOWN: usize = 3;

/// A running server.
pub(super) struct Process {
    child: Child,
    said: PathBuf,
}

impl Process {
    /// Starts `program`; what it says goes into the file `said`.
    pub fn start(program: &Path, arguments: &[String], said: &Path) -> Result<Process, String> {
        let wrong = |e: std::io::Error| format!("cannot start {}: {e}", program.display());
        let setpriv = Path::new("/usr/bin/setpriv");
        let mut command = if setpriv.is_file() {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let log = File::create(said).map_err(wrong)?;
        let log_too = log.try_clone().map_err(wrong)?;
        command.args(arguments).current_dir(said.parent().unwrap_or(Path::new("/")));
        command.stdin(Stdio::null()).stdout(log).stderr(log_too);
        Ok(Process { child: command.spawn().map_err(wrong)?, said: said.to_path_buf() })
    }

    /// What it said at its end, if it has ended.
    pub fn check(&mut self) -> Result<(), String> {
        let Ok(Some(status)) = self.child.try_wait() else { return Ok(()) };
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(SHOWN)..].join(" / ");
        Err(format!("it ended at once with {status}: {last}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
