//! What to do about a server that does not start.

use longarm_fabric::SetupError;
use longarm_server::{DiskError, StartError};

use crate::output::{Exit, Failure};

/// Says why a server did not start, and what to do about it.
pub fn start_failure(error: &StartError) -> Failure {
    let failure = Failure::new(Exit::System, error.to_string());
    match error {
        StartError::Option { .. } => Failure { exit: Exit::Usage, ..failure }
            .hint("`longarm --print-config` shows where each value comes from"),
        StartError::Listen { source: SetupError::Unsupported(_), .. } => {
            failure.hint("`longarm doctor` says what this machine has for RDMA, and what it lacks")
        }
        StartError::Listen { .. } => failure.hint(
            "if another server listens there, stop it or choose another --address; its directory must \
             exist and be writable",
        ),
        StartError::Region(_) | StartError::Arena(_) => {
            failure.hint("`longarm doctor` shows the memory and huge pages of this machine")
        }
        StartError::Index { .. } => failure.hint("raise --memory or lower --expected-items"),
        StartError::Directory { .. } => failure.hint("--data wants a directory of its own"),
        StartError::Disk(DiskError::Damaged { .. }) => failure.hint(
            "a server alone starts without what is damaged with --accept-damage; a copy of the directory, \
             made first, keeps it. A cluster's node is started with an empty one: the others give it all",
        ),
        StartError::Disk(_) => failure.hint("`longarm doctor --data DIR` says what the disk can do"),
        _ => failure.hint("`longarm doctor` shows the limits of this machine"),
    }
}
