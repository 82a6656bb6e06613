//! One operation of one client.

use longarm_base::{Csn, Nanos};

/// The end of an operation in doubt.
pub const NEVER: Nanos = Nanos(u64::MAX);

/// What somebody wrote: no two writes of a history write the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Value(pub u64);

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invocation {
    /// What is there?
    Get,
    /// Let this be there.
    Put(Value),
    /// Let this be there if nothing is.
    PutIfAbsent(Value),
    /// Let `new` be there if `expected` is.
    Replace {
        /// What the client saw.
        expected: Value,
        /// What it wants.
        new: Value,
    },
    /// Let nothing be there.
    Delete,
    /// No client's: the time of this value is over ([`Operation::expiry`]). If it is there, it goes.
    Expire(Value),
}

impl Invocation {
    /// The value that it asks to be there; `None` of those that ask for none.
    pub fn writes(self) -> Option<Value> {
        match self {
            Invocation::Put(new) | Invocation::PutIfAbsent(new) | Invocation::Replace { new, .. } => {
                Some(new)
            }
            Invocation::Get | Invocation::Delete | Invocation::Expire(_) => None,
        }
    }
}

/// What was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationOutcome {
    /// A get found this.
    Found(Value),
    /// A get, or a delete, found nothing.
    Absent,
    /// A write is done.
    Done,
    /// The condition did not hold: nothing was done.
    Refused,
    /// No answer came.
    InDoubt,
}

/// An operation, on a clock that all of a history's operations share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Who.
    pub client: u32,
    /// The key, by number.
    pub key: u32,
    /// What it asked for.
    pub action: Invocation,
    /// What it was told.
    pub outcome: OperationOutcome,
    /// Before it was asked.
    pub call: Nanos,
    /// After it was answered; in doubt, never.
    pub end: Nanos,
    /// The version of what was found or written, where the store says it.
    pub version: Option<Csn>,
}

impl Operation {
    /// What it wrote, or may have written; `None` for whoever wrote nothing.
    pub fn wrote(&self) -> Option<Value> {
        match self.outcome {
            OperationOutcome::Refused | OperationOutcome::Absent => None,
            _ => self.action.writes(),
        }
    }

    /// The value that it found or wrote, and the version of that, where the store says it.
    pub fn named(&self) -> Option<(Value, Csn)> {
        let value = match self.outcome {
            OperationOutcome::Found(value) => Some(value),
            _ => self.wrote(),
        };
        value.zip(self.version)
    }

    /// Whether it removed something, or may have.
    pub fn removed(&self) -> bool {
        self.action == Invocation::Delete
            && matches!(self.outcome, OperationOutcome::Done | OperationOutcome::InDoubt)
    }

    /// The end of what it wrote with a time to live: at some time between this much of it less `early` and
    /// more `late`, by the clock of the history, the value is gone for everybody, if nobody replaced it.
    /// `None` for whoever wrote nothing. To be pushed beside the write.
    pub fn expiry(&self, ttl: Nanos, early: Nanos, late: Nanos) -> Option<Operation> {
        let value = self.wrote()?;
        // A write in doubt may take effect at any time, and so the time of its value be over at any.
        let outcome = if self.in_doubt() { OperationOutcome::InDoubt } else { OperationOutcome::Done };
        let (call, end) = (self.call + (ttl - early), self.end + ttl + late);
        Some(Operation {
            action: Invocation::Expire(value),
            outcome,
            call,
            end,
            version: None,
            ..self.clone()
        })
    }

    /// The value whose time is over.
    pub fn expires(&self) -> Option<Value> {
        match self.action {
            Invocation::Expire(value) => Some(value),
            _ => None,
        }
    }

    /// Whether no answer came.
    pub fn in_doubt(&self) -> bool {
        self.outcome == OperationOutcome::InDoubt
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Operation { client, key, action, outcome, call, end, version } = self;
        write!(f, "client {client}, key {key}: {action:?} -> {outcome:?}, {} ns", call.0)?;
        match outcome {
            OperationOutcome::InDoubt => f.write_str(" to never")?,
            _ => write!(f, " to {} ns", end.0)?,
        }
        version.map_or(Ok(()), |version| write!(f, ", version {}", version.0))
    }
}
