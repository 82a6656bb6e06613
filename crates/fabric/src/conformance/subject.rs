//! The transport under test, as the suite comes by it.

use crate::{Address, Channel, Transport};

/// How the suite comes by a transport.
pub trait Setup: 'static {
    /// The transport under test.
    type Transport: Transport;
    /// `module_path!()` of the module that says `conformance!`: child processes are started through it.
    const SUITE: &'static str;
    /// The transport, as the side that connects has it.
    fn transport() -> Self::Transport;
    /// The transport, as the side that listens has it.
    fn listening() -> Self::Transport {
        Self::transport()
    }
    /// An address where nobody listens yet, another one at each call. A TCP port may be 0.
    fn address() -> Address;
    /// A channel for the side that listens.
    fn channel() -> Channel {
        Channel::new().expect("channel")
    }
}
