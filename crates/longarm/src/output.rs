//! The output of the program and its end: results on stdout, failures on stderr with a hint, and one exit
//! code for each kind of end.

use std::io::Write;

use serde_json::{Value, json};

/// The mark of a line of the log that reports a fault of Longarm's own. It stands right after the program's
/// name, where a collector of logs can look for it.
const FAULT: &str = "fault: ";

/// Makes a line of the log that reports a fault of Longarm's own.
pub fn fault(text: &str) -> String {
    format!("{FAULT}{text}")
}

/// Whether a process reports a fault of Longarm's own by this line of its stderr.
pub fn is_fault(line: &str) -> bool {
    line.split_once(": ").map_or(line, |(_, rest)| rest).starts_with(FAULT) || line.starts_with(FAULT)
}

/// How a command ended. The numbers are part of the interface: scripts compare them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// The command did its work.
    Ok = 0,
    /// The key does not exist, or `cas` met another version. This is no error: stderr has a note, except with
    /// `--json`.
    NotFound = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// No server answers at the address, or it went away before the operation began.
    CannotConnect = 3,
    /// The server answered and refused: out of memory, not authenticated, a limit.
    Refused = 4,
    /// The operation may have happened or not: the answer never came.
    InDoubt = 5,
    /// Data read back is not what was written, or a structure breaks an invariant.
    Corrupt = 6,
    /// The local system refused something: a file, a directory, a terminal.
    System = 7,
}

impl Exit {
    /// Every code, in order, with the words of the help about it.
    pub const ALL: [(Exit, &'static str); 8] = [
        (Exit::Ok, "done"),
        (Exit::NotFound, "the key does not exist, or cas met another version"),
        (Exit::Usage, "the command line or the configuration is wrong"),
        (Exit::CannotConnect, "no server answers at the address"),
        (Exit::Refused, "the server refused: out of memory, not authenticated, a limit"),
        (Exit::InDoubt, "in doubt: the answer never came, the operation may have happened or not"),
        (Exit::Corrupt, "data or structures failed verification"),
        (Exit::System, "the local system refused something (a file, a directory)"),
    ];

    /// The number a shell sees.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> std::process::ExitCode {
        std::process::ExitCode::from(exit.code())
    }
}

/// Why a command did not do its work, and what its user can do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The text of the failure, which names the thing that was wrong.
    pub message: String,
    /// Advice to the user; empty if there is nothing to say.
    pub hint: String,
}

impl Failure {
    /// Makes a failure without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: String::new() }
    }

    /// Gives the failure a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = hint.into();
        self
    }

    /// The failure for a file or directory that the system refused.
    pub fn io(what: &str, path: &std::path::Path, error: &std::io::Error) -> Failure {
        Failure::new(Exit::System, format!("cannot {what} {}: {error}", path.display()))
    }

    /// Formats it as lines for a person: `error: ...`, then `hint: ...`.
    pub fn to_text(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        if !self.hint.is_empty() {
            text.push_str(&format!("hint: {}\n", self.hint));
        }
        text
    }

    /// Formats it as one line for a script.
    pub fn to_json(&self) -> Value {
        let mut value = json!({ "error": self.message, "exit": self.exit.code() });
        if !self.hint.is_empty() {
            value["hint"] = Value::String(self.hint.clone());
        }
        value
    }
}

/// Where a command writes: stdout for results, stderr for the rest.
pub struct Output {
    json: bool,
}

impl Output {
    /// An output that writes text for people, or JSON for scripts.
    pub fn new(json: bool) -> Output {
        Output { json }
    }

    /// Whether the user asked for JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Writes `bytes` to stdout as they are. A reader that closed the pipe (`| head`) ends the program
    /// quietly.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {
                std::process::exit(Exit::Ok.code().into())
            }
            Err(e) => Err(Failure::new(Exit::System, format!("cannot write to stdout: {e}"))),
        }
    }

    /// Writes one line of text to stdout.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.write(format!("{text}\n").as_bytes())
    }

    /// Writes one JSON value as a line to stdout.
    pub fn value(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(&value.to_string())
    }

    /// Writes a remark that is not the result to stderr: `warning: ...`.
    pub fn warn(&mut self, text: &str) {
        if self.json {
            self.remark(&format!("{}\n", json!({ "warning": text })));
        } else {
            self.remark(&format!("warning: {text}\n"));
        }
    }

    /// Writes the result to stderr, where stdout is something else.
    pub fn aside(&mut self, text: &str) {
        self.remark(&format!("{text}\n"));
    }

    /// Says on stderr what an exit code means that is no failure. With `--json` it says nothing, for the
    /// result says it.
    pub fn note(&mut self, text: &str) {
        if !self.json {
            self.remark(&format!("{text}\n"));
        }
    }

    /// Reports a failure on stderr and gives its exit code.
    pub fn fail(&mut self, failure: &Failure) -> Exit {
        if self.json {
            self.remark(&format!("{}\n", failure.to_json()));
        } else {
            self.remark(&failure.to_text());
        }
        failure.exit
    }

    /// Writes a line to stderr. stderr may be closed: a lost remark must not change how the program ends.
    fn remark(&mut self, text: &str) {
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_known_by_what_stands_after_the_name_of_the_program() {
        let said = format!("2026-11-25T17:27:17.748Z longarm: {}", fault("segment 4: it is kept"));
        assert!(is_fault(&said) && is_fault(&fault("x")));
        assert!(!is_fault("2026-11-25T17:27:17.748Z longarm: node 1: fault: of another"));
    }

    #[test]
    fn the_exit_codes_are_their_documented_numbers() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_failure_has_one_form_for_people_and_one_for_scripts() {
        let failure = Failure::new(Exit::CannotConnect, "nobody listens").hint("start a server");
        assert_eq!(failure.to_text(), "error: nobody listens\nhint: start a server\n");
        assert_eq!(
            failure.to_json(),
            json!({ "error": "nobody listens", "exit": 3, "hint": "start a server" })
        );
        assert_eq!(Failure::new(Exit::Usage, "x").to_text(), "error: x\n", "no empty hint line");
    }
}
