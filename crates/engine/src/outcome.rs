//! The outcome of an operation, or why it has none yet.

use longarm_base::Csn;
use longarm_wire::Status;

/// The outcome of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Its status.
    pub status: Status,
    /// The version written, read, or found in the way.
    pub csn: Csn,
    /// The sum of an INCREMENT; the milliseconds that the item of a GET has left, zero for ever.
    pub number: i64,
}

impl Outcome {
    /// An outcome without a version.
    pub fn of(status: Status) -> Outcome {
        Outcome { status, csn: Csn::NONE, number: 0 }
    }

    /// Success: the version was written, or read.
    pub fn ok(csn: Csn) -> Outcome {
        Outcome { status: Status::Ok, csn, number: 0 }
    }

    /// The condition did not hold for this version; no version if there is no item.
    pub fn mismatch(csn: Csn) -> Outcome {
        Outcome { status: Status::Mismatch, csn, number: 0 }
    }
}

/// An operation that could not be done now, and that changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Short {
    /// There is no memory, but some may be freed: try again soon.
    Wait,
    /// There is no memory, and none can be freed.
    Refused,
    /// Another write of the key is under way, or the leader has no lease now.
    Busy,
    /// The key's pair of the index takes no more keys.
    Crowded,
}
