//! What the processes of a peer are told, and what every kind of peer says it with.

use std::net::TcpListener;
use std::path::PathBuf;

use crate::url::Url;

/// Servers of a group.
pub(super) const GROUP: usize = 3;

/// How to start a server.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Memory limit for its data, in bytes.
    pub memory: u64,
    /// Threads that serve requests (Redis: `io-threads`; memcached: `-t`), where not as many as by default.
    pub threads: Option<u32>,
    /// Clients that it must take at once.
    pub clients: usize,
    /// Largest value that it must take, in bytes.
    pub value_max: usize,
    /// A directory on the disk to which servers that keep their data write it.
    pub data: Option<PathBuf>,
}

impl Default for PeerOptions {
    fn default() -> PeerOptions {
        PeerOptions { memory: 4 << 30, threads: None, clients: 4096, value_max: 1 << 20, data: None }
    }
}

/// What the processes of a peer are told.
pub(super) struct Orders {
    /// Where clients connect.
    pub url: Url,
    /// Arguments, one list a process.
    pub arguments: Vec<Vec<String>>,
    /// What the report says of how it keeps what it is given.
    pub settings: Vec<(String, String)>,
}

/// Free loopback ports, all different.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N], String> {
    let wrong = |e: std::io::Error| format!("no free loopback port: {e}");
    // Held together, so that none is given out twice.
    let held: Vec<TcpListener> =
        (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>().map_err(wrong)?;
    let ports: Vec<u16> = held
        .iter()
        .map(|listener| listener.local_addr().map(|address| address.port()))
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    Ok(ports.try_into().expect("as many as were bound"))
}

pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(String::from).collect()
}
