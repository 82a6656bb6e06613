//! The outcome of examining one thing: what was found, and the verdict on it.

use serde_json::{Value, json};

/// The verdict on one thing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// There is nothing to do.
    Ok,
    /// It works, but slower or with less than it could.
    Warn,
    /// A server with the present settings would not start or not work.
    Bad,
}

impl Verdict {
    /// The word that is printed for it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Bad => "bad",
        }
    }
}

/// One thing that was examined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was examined: a stable name for scripts.
    pub name: &'static str,
    /// The verdict on it.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// Advice to the user; empty if there is nothing to do.
    pub advice: String,
}

impl Finding {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Finding {
        Finding { name, verdict: Verdict::Ok, found: found.into(), advice: String::new() }
    }

    pub(super) fn warn(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { name, verdict: Verdict::Warn, found: found.into(), advice: advice.into() }
    }

    pub(super) fn bad(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { name, verdict: Verdict::Bad, found: found.into(), advice: advice.into() }
    }

    /// Formats it as lines for a person.
    pub fn to_text(&self) -> String {
        let mut text = format!("{:<5} {:<12} {}\n", self.verdict.name(), self.name, self.found);
        if !self.advice.is_empty() {
            text.push_str(&format!("{:<18} -> {}\n", "", self.advice));
        }
        text
    }

    /// Formats it as one line for a script.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "verdict": self.verdict.name(), "found": self.found, "advice": self.advice,
        })
    }
}
