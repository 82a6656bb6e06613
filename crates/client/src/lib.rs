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
//! GETs ([`Client::get`], [`Client::multi_get`]) are one-sided READs under a lease: `lookup.rs` says what is
//! read, `lease.rs` when it counts. Writes go through the server, blocking ([`Client::put`]) or pipelined
//! ([`Client::submit`]). Each write has an operation number, so a retry after a broken connection is never
//! executed twice. A write whose answer never came is reported as [`Error::InDoubt`], never as failed.
//!
//! # Which client
//!
//! | client | threads | connections | for |
//! |---|---|---|---|
//! | [`Client`] | one | one | one server or one group: the quickest, with pipelines and scans |
//! | [`ClusterClient`] | one | one a group | the same for a cluster ([`Topology`] knows which group has a key) |
//! | [`SharedClient`] | any number | few, by default one a core | a service whose threads come and go, or are many |
//!
//! A client of its own for each thread is best while threads are about as many as cores, and for GETs over
//! shared memory, which wait for nothing: with more threads than cores the slowest of them take longer over a
//! shared client. Many threads that write, or use a network, are better off with a shared client: those that
//! ask at the same time share a send, a round trip and a round of replication, and the server has fewer
//! connections.
//!
//! ```no_run
//! # fn main() -> Result<(), longarm_client::Error> {
//! use longarm_client::{Options, SharedClient, Topology};
//! let topology = Topology::of_one(vec!["tcp://localhost:7411".parse().expect("an address")]);
//! let client = SharedClient::new(topology, Options::default());
//! let threads = (0..100).map(|number: u32| {
//!     let client = client.clone();
//!     std::thread::spawn(move || client.put(&number.to_le_bytes(), b"here"))
//! });
//! for thread in threads.collect::<Vec<_>>() {
//!     thread.join().expect("it does not panic")?;
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod ask;
mod backup;
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
mod shared;
pub mod side;
mod targets;
mod topology;
mod walk;
mod write;

pub use backup::Begun;
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
pub use shared::SharedClient;
pub use topology::{GroupAt, Topology};
pub use walk::Item;
pub use write::{Put, Write};

#[cfg(test)]
mod tests;
