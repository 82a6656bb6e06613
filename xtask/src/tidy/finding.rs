//! What a rule finds: where it is broken, and what to do.

/// A broken rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// File, relative to the workspace.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Finding {
    /// A rule broken there.
    pub fn new(path: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding { path: path.to_string(), line, text: text.into() }
    }
}
