//! A failed verb, as the contract tells it.

use longarm_ibverbs as ib;

use crate::SetupError;

/// A failed verb, as a set-up error.
pub(super) fn failed(error: ib::Error) -> SetupError {
    match error {
        ib::Error::Verb { verb, source, .. } => SetupError::Os(verb, source),
        other => SetupError::Unsupported(other.to_string()),
    }
}
