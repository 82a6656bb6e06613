//! What can go wrong, in words that say what to do.

use std::io;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library is not on this machine, or too old.
    #[error(
        "libibverbs cannot be used: {0}; install it \
         (Debian, Ubuntu: apt install libibverbs1 ibverbs-providers; Fedora: dnf install libibverbs)"
    )]
    NoLibrary(String),
    /// The machine has no such device.
    #[error("no RDMA device {wanted}: {found}")]
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// What there is instead.
        found: String,
    },
    /// More memory would be locked than the process may.
    #[error(
        "cannot register {bytes} bytes with {device}: registered memory is locked, and this process may lock \
         {limit}; raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity in its systemd unit, or \
         memlock in /etc/security/limits.conf)"
    )]
    MemoryLock {
        /// The device.
        device: String,
        /// Size of the registration.
        bytes: usize,
        /// The limit, for people.
        limit: String,
    },
    /// The device or the kernel refused.
    #[error("{verb} on {device}: {source}")]
    Verb {
        /// The verb.
        verb: &'static str,
        /// The device.
        device: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// The last error of the system, for a verb that returns a null pointer.
    pub(crate) fn last(verb: &'static str, device: &str) -> Error {
        Error::Verb { verb, device: device.into(), source: io::Error::last_os_error() }
    }

    /// For a verb that returns an error number, 0 for none.
    pub(crate) fn check(code: i32, verb: &'static str, device: &str) -> Result<(), Error> {
        match code {
            0 => Ok(()),
            // Some verbs return -1 and set errno, some the number itself, some negated.
            -1 => Err(Error::last(verb, device)),
            code => {
                let source = io::Error::from_raw_os_error(code.saturating_abs());
                Err(Error::Verb { verb, device: device.into(), source })
            }
        }
    }
}
