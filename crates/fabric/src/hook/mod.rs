//! Wrappers that are queue pairs themselves: count, trace, or break what passes through.

mod count;
mod fault;
mod trace;

pub use count::{Counted, CountsSeen, QueuePairCounts};
pub use fault::{Faults, Faulty};
pub use trace::{Trace, Traced};

/// The methods of a queue pair that a wrapper leaves alone.
macro_rules! pass_through {
    ($($method:ident)*) => {
        $(pass_through!(@ $method);)*
    };
    (@ ring) => {
        fn ring(&mut self) {
            self.inner.ring()
        }
    };
    (@ landing) => {
        #[inline]
        fn landing(&self, at: u32, len: u32) -> &[u8] {
            self.inner.landing(at, len)
        }
    };
    (@ message) => {
        fn message(&self, buffer: u16, len: u32) -> &[u8] {
            self.inner.message(buffer, len)
        }
    };
    (@ release) => {
        fn release(&mut self, buffer: u16) {
            self.inner.release(buffer)
        }
    };
    (@ arm) => {
        fn arm(&mut self) -> bool {
            self.inner.arm()
        }
    };
    (@ wait) => {
        fn ready(&mut self) -> bool {
            self.inner.ready()
        }
        fn wait(&mut self, timeout: std::time::Duration) {
            self.inner.wait(timeout)
        }
    };
    (@ state) => {
        fn state(&self) -> Result<(), $crate::Broken> {
            self.inner.state()
        }
    };
    (@ granted) => {
        fn attend(&mut self, channel: &$crate::Channel) -> Result<(), $crate::SetupError> {
            self.inner.attend(channel)
        }
        fn told(&self) -> Option<$crate::Told> {
            self.inner.told()
        }
        fn granted(&self) -> &[$crate::Granted] {
            self.inner.granted()
        }
    };
    (@ revoke) => {
        fn revoke(&mut self) -> Result<(), $crate::SetupError> {
            self.inner.revoke()
        }
    };
    (@ fence) => {
        fn heed_fence(&mut self) {
            self.inner.heed_fence();
        }
        fn fence(&mut self) -> Result<(), $crate::SetupError> {
            self.inner.fence()
        }
    };
}
use pass_through;

#[cfg(test)]
mod tests;
