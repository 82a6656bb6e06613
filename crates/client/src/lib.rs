//! The client: it reads the server's memory itself and asks the server only to write.
//!
//! ```no_run
//! # fn main() -> Result<(), longarm_client::Error> {
//! use longarm_client::{Client, Options};
//! let mut client = Client::connect(&"shm:/tmp/longarm.sock".parse().expect("an address"), Options::default())?;
//! client.put(b"key", b"value")?;
//! assert_eq!(client.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] belongs to one thread; make one a thread, hundreds per server. GETs ([`Client::get`],
//! [`Client::multi_get`]) are one-sided READs under a lease: `lookup.rs` says what is read, `lease.rs` when
//! it counts. Writes go through the server, blocking ([`Client::put`]) or pipelined ([`Client::submit`]).
//! Each write has an operation number, so a retry after a broken connection is never executed twice. A write
//! whose answer never came is reported as [`Error::InDoubt`], never as failed.
//!
//! A [`ClusterClient`] has a client for each group of a cluster, and knows which of them has a key
//! ([`Topology`]).
#![forbid(unsafe_code)]

mod ask;
mod batch;
mod cache;
mod calendar;
mod client;
mod cluster;
mod deadline;
mod error;
mod fallback;
mod flight;
mod get;
mod heartbeat;
mod lease;
mod link;
mod lookup;
mod multi_get;
mod options;
mod pipeline;
mod raw;
mod scan;
pub mod side;
mod targets;
mod topology;
mod walk;
mod write;

pub use client::Client;
pub use cluster::{ClusterClient, ClusterScan, ClusterSnapshot};
pub use error::{Error, refusal};
pub use flight::{Reply, RequestId};
pub use link::ClientCounters;
pub use longarm_base::{Csn, UnixMillis};
pub use longarm_cluster::FileError;
pub use longarm_fabric::tcp::{Identity, Tcp, Tls};
pub use longarm_fabric::{Address, Any, Login, SetupError, Transport};
pub use longarm_wire::{Condition, OrderedStage, OrderedStats};
pub use options::Options;
pub use pipeline::IN_FLIGHT_MAX;
pub use raw::{Raw, RawRegion};
pub use scan::{
    OrderedInspection, OrderedReport, Page, Scan, ScanItem, ScanItemRef, ScanIter, SnapshotIter, Token,
    inspect_ordered, ordered_stats,
};
pub use topology::{GroupAt, Topology};
pub use walk::Item;
pub use write::{Put, Write};

#[cfg(test)]
mod tests;
