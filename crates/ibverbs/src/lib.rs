//! libibverbs without headers, compiler or link: its types, the library itself at run time, and owned objects
//! on top.
//!
//! The library is opened by name when it is first needed ([`devices`], [`Context::open`]); a machine without
//! it gets [`Error::NoLibrary`], which says what to install. The types are rdma-core's, committed in
//! [`bindings`] and checked against their C layout by the compiler.
//!
//! Objects hold what they stand on alive: queue pair, then its queues, channel, memory, protection domain,
//! context. So they may be dropped in any order. All are `Send` and `Sync`: the library locks each object
//! itself (its documentation promises that every verb may be called from every thread).
//!
//! Nothing here waits: completion and asynchronous events are read without blocking, from descriptors that
//! the caller polls. Exceptions are verbs that ask the kernel: [`QueuePair::ready_to_receive`] resolves the
//! peer's address (a second, if it does not answer) and [`MemoryRegion::register`] pins every page.

#[allow(
    missing_docs,
    non_camel_case_types,
    clippy::undocumented_unsafe_blocks,
    reason = "written by a program; the names are the C header's"
)]
pub mod bindings;

mod batch;
mod context;
mod error;
mod library;
mod memory;
mod place;
mod queue;
mod queue_pair;
mod receive;

pub use batch::{Batch, Flags, Request};
pub use context::{Attributes, Context, Event, Gid, GidKind, Port, devices};
pub use error::Error;
pub use memory::{Access, Buffer, MemoryRegion, ProtectionDomain, registered_bytes};
pub use place::{Local, Remote};
pub use queue::{CompletionChannel, CompletionQueue, Status, WorkCompletion, WorkKind};
pub use queue_pair::{AddressHandle, Capacity, Kind, Path, QueuePair, Reliability, State, queue_pairs};
pub use receive::Receive;
