//! The start of threads, and the wait for their end.

use longarm_host::Thread;

use crate::options::StartError;

/// Starts a thread.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<Thread, StartError> {
    longarm_host::spawn(name, body).map_err(|e| StartError::Os("start a thread", e))
}

/// Waits until the threads have ended. Returns how many had panicked.
pub fn join(threads: impl IntoIterator<Item = Thread>) -> usize {
    threads.into_iter().map(|thread| usize::from(thread.join().is_err())).sum()
}
