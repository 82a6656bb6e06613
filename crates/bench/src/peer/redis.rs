//! Redis, alone and with replicas without persistence, and alone with a log on disk.

use super::orders::{GROUP, Orders, PeerOptions, free_ports, words};
use super::scratch::Scratch;
use crate::url::{Address, Protocol, Url};

/// One server.
pub(super) fn alone(options: &PeerOptions) -> Result<Orders, String> {
    let [port] = free_ports()?;
    Ok(Orders { url: url(port, 0), arguments: vec![arguments(options, port)], settings: settings() })
}

/// One server that answers a write when its log is on disk.
pub(super) fn synced(options: &PeerOptions, scratch: &Scratch) -> Result<Orders, String> {
    if scratch.is_in_memory() {
        return Err("it is to write to a disk: name a directory there with --data DIR".into());
    }
    let [port] = free_ports()?;
    let dir = scratch.path().display().to_string();
    let mut arguments = arguments(options, port);
    // The last word counts.
    arguments.extend(words(["--appendonly", "yes", "--appendfsync", "always", "--dir", &dir]));
    let settings = vec![("durability".into(), "disk (appendonly yes, appendfsync always)".into())];
    Ok(Orders { url: url(port, 0), arguments: vec![arguments], settings })
}

/// A primary and its replicas; a write counts when one of them has it, as in a group of three whose majority
/// has it.
pub(super) fn group(options: &PeerOptions) -> Result<Orders, String> {
    let ports: [u16; GROUP] = free_ports()?;
    let primary = ports[0].to_string();
    let of = |port: u16| {
        let mut arguments = arguments(options, port);
        if port == ports[0] {
            // Do not wait for more replicas before the first is given what there is, which is nothing.
            arguments.extend(words(["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]));
        } else {
            arguments.extend(words(["--replicaof", "127.0.0.1", &primary]));
            arguments.extend(words(["--repl-diskless-load", "on-empty-db"]));
        }
        arguments
    };
    Ok(Orders { url: url(ports[0], 1), arguments: ports.map(of).into(), settings: settings() })
}

fn url(port: u16, wait: u32) -> Url {
    Url { protocol: Protocol::Redis, address: Address::Tcp("127.0.0.1".into(), port), wait }
}

fn settings() -> Vec<(String, String)> {
    vec![("durability".into(), "memory (save none, appendonly no)".into())]
}

fn arguments(options: &PeerOptions, port: u16) -> Vec<String> {
    let (port, threads) = (port.to_string(), options.threads.unwrap_or(1).max(1).to_string());
    let memory = options.memory.to_string();
    // Its own default is the least.
    let clients = options.clients.max(10_000).to_string();
    let arguments = [
        ["--maxclients", &clients],
        ["--port", &port],
        ["--bind", "127.0.0.1"],
        ["--save", ""],
        ["--appendonly", "no"],
        ["--daemonize", "no"],
        ["--maxmemory", &memory],
        ["--maxmemory-policy", "noeviction"],
        ["--io-threads", &threads],
    ];
    words(arguments.into_iter().flatten())
}
