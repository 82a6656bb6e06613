//! What a judge says of operations and pages that no store could have shown.

use longarm_base::Nanos;

use crate::{Operation, Page};

/// What a client did: an operation on a key, or a look at a range of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// An operation on one key.
    Operation(Operation),
    /// A page of a scan.
    Page(Page),
}

/// A deed of a history, where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'a> {
    Operation(&'a Operation),
    Page(&'a Page),
}

impl Who<'_> {
    pub fn call(self) -> Nanos {
        match self {
            Who::Operation(operation) => operation.call,
            Who::Page(page) => page.call,
        }
    }

    pub fn end(self) -> Nanos {
        match self {
            Who::Operation(operation) if operation.in_doubt() => crate::NEVER,
            Who::Operation(operation) => operation.end,
            Who::Page(page) => page.end,
        }
    }

    pub fn client(self) -> u32 {
        match self {
            Who::Operation(operation) => operation.client,
            Who::Page(page) => page.client,
        }
    }

    pub fn in_doubt(self) -> bool {
        matches!(self, Who::Operation(operation) if operation.in_doubt())
    }

    pub fn deed(self) -> Deed {
        match self {
            Who::Operation(operation) => Deed::Operation(operation.clone()),
            Who::Page(page) => Deed::Page(page.clone()),
        }
    }
}

/// Why one deed of a cycle is before the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// It ended before the next was called.
    Ended,
    /// Both wrote this key, the next under a higher version.
    Version(u32),
    /// The next saw what it left of this key, or what came later.
    Seen(u32),
    /// It saw this key as it was before the next wrote it.
    Unseen(u32),
    /// It wrote or saw a value of this key, and the next is the end of that value's time.
    Over(u32),
}

/// Deeds that no order explains: in words, with all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which judge says so, and by which rule.
    pub rule: &'static str,
    /// The guilty ones.
    pub guilty: Vec<Deed>,
    /// Of a cycle: why each of the guilty is before the next, and the last before the first. Else empty.
    pub before: Vec<Before>,
}

impl Violation {
    /// One that operations are guilty of.
    pub(crate) fn of(rule: &'static str, guilty: &[&Operation]) -> Violation {
        Violation::by(rule, guilty.iter().map(|&operation| Who::Operation(operation)))
    }

    /// One that operations and pages are guilty of.
    pub(crate) fn by<'a>(rule: &'static str, guilty: impl IntoIterator<Item = Who<'a>>) -> Violation {
        Violation { rule, guilty: guilty.into_iter().map(Who::deed).collect(), before: Vec::new() }
    }
}

impl std::fmt::Display for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Deed::Operation(operation) => operation.fmt(f),
            Deed::Page(page) => page.fmt(f),
        }
    }
}

impl std::fmt::Display for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Before::Ended => f.write_str("it ended before that was called"),
            Before::Version(key) => write!(f, "that wrote key {key} under a higher version"),
            Before::Seen(key) => write!(f, "that saw what it left of key {key}"),
            Before::Unseen(key) => write!(f, "it saw key {key} as it was before that wrote it"),
            Before::Over(key) => write!(f, "that ended the time of the value of key {key} that it knew"),
        }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.rule)?;
        for (at, deed) in self.guilty.iter().enumerate() {
            write!(f, "\n  {deed}")?;
            if let Some(why) = self.before.get(at) {
                let next = if at + 1 == self.guilty.len() { "first" } else { "next" };
                write!(f, "\n    before the {next}: {why}")?;
            }
        }
        Ok(())
    }
}
