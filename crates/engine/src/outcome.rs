//! What an operation came to, or why it came to nothing yet.

use longarm_base::Csn;
use longarm_wire::Status;

/// What an operation came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How it went.
    pub status: Status,
    /// The version written, read, or found in the way.
    pub csn: Csn,
    /// What an INCREMENT came to; milliseconds that the item of a GET has left, zero for ever.
    pub number: i64,
}

impl Outcome {
    /// One that has no version.
    pub fn of(status: Status) -> Outcome {
        Outcome { status, csn: Csn::NONE, number: 0 }
    }

    /// The version was written, or read.
    pub fn ok(csn: Csn) -> Outcome {
        Outcome { status: Status::Ok, csn, number: 0 }
    }

    /// The condition did not hold for this version; none if there is no item.
    pub fn mismatch(csn: Csn) -> Outcome {
        Outcome { status: Status::Mismatch, csn, number: 0 }
    }
}

/// There is no memory for the operation; nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Short {
    /// Some may be freed: try again soon.
    Wait,
    /// None can be freed.
    Refused,
    /// There is memory, but another write of the key is under way, or the lease is not there now.
    Busy,
    /// Its pair of the index takes no more keys.
    Crowded,
}
