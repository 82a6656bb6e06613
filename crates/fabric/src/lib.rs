//! One contract, several transports: verbs semantics over shared memory, TCP, RDMA NICs and a simulated
//! network.
//!
//! [`contract`] says what a queue pair does, and [`setup`] how it comes about; [`shm`], [`tcp`], [`verbs`]
//! and [`sim`] do it; [`hook`] wraps any of them to count, trace or break it; `conformance` is the one suite
//! that all of them pass. [`Any`] chooses at run time. [`ring`] carries two-sided messages by WRITE_WITH_IMM
//! into the receiver's ring.

pub mod address;
pub mod any;
mod buffer;
pub mod channel;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod contract;
pub mod deadline;
mod door;
mod execute;
mod failures;
pub mod handshake;
pub mod hook;
mod poller;
pub mod ring;
pub mod setup;
pub mod setup_error;
pub mod shm;
pub mod sim;
mod spares;
mod stream;
pub mod tcp;
pub mod verbs;
mod wait;

pub use address::{Address, Member};
pub use any::{Any, AnyIncoming, AnyListener, AnyQp};
pub use channel::{Channel, Told};
pub use contract::*;
pub use setup::*;
pub use setup_error::{Reason, RegionFailure, SetupError};
pub use wait::spin_and_wait;
