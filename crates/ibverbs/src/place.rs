//! Registered memory that a request or a receive names: our own, or the peer's.

use crate::bindings as b;

/// Our own memory in a request.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
    /// [`local_key`](crate::MemoryRegion::local_key) of its registration; ignored with
    /// [`Flags::inline`](crate::Flags::inline).
    pub key: u32,
}

impl Local {
    pub(crate) fn raw(self) -> b::ibv_sge {
        b::ibv_sge { addr: self.address, length: self.bytes, lkey: self.key }
    }
}

/// The peer's memory in a request.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// Address of the first byte, in the peer's process.
    pub address: u64,
    /// [`remote_key`](crate::MemoryRegion::remote_key) of its registration.
    pub key: u32,
}
