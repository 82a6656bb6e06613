//! Three etcd: with their data in memory, where their directories are in a file system of RAM, and they do
//! not ask it to keep what they write; or as etcd comes, with data on disk before a write is answered.

use super::orders::{GROUP, Orders, PeerOptions, free_ports, words};
use crate::peer::scratch::Scratch;
use crate::url::{Address, Protocol, Url};

/// What the logs of three etcd take before they hold anything, and some room.
const ROOM_MIN: u64 = 1 << 30;
/// etcd's own bound on its data; beyond 8 GiB it warns.
const QUOTA_MAX: u64 = 8 << 30;

/// A group with its data in memory.
pub(super) fn group(options: &PeerOptions, scratch: &Scratch) -> Result<Orders, String> {
    check_room(scratch)?;
    let mut orders = synced(options, scratch)?;
    orders.arguments.iter_mut().for_each(|arguments| arguments.push("--unsafe-no-fsync".into()));
    orders.settings = vec![("durability".into(), "memory (data on tmpfs, unsafe-no-fsync)".into())];
    Ok(orders)
}

/// A group with its data on disk.
pub(super) fn synced(options: &PeerOptions, scratch: &Scratch) -> Result<Orders, String> {
    let ports: [u16; 2 * GROUP] = free_ports()?;
    let (clients, peers) = ports.split_at(GROUP);
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    let name = |node: usize| format!("n{node}");
    let members: Vec<String> =
        peers.iter().enumerate().map(|(node, &port)| format!("{}={}", name(node), at(port))).collect();
    let (members, quota) = (members.join(","), options.memory.min(QUOTA_MAX).to_string());
    // A request is more than its value.
    let request = (options.value_max + (64 << 10)).max(3 << 19).to_string();
    let of = |node: usize| {
        let data = scratch.path().join(name(node)).display().to_string();
        let (client, peer) = (at(clients[node]), at(peers[node]));
        let arguments = [
            ["--name", &name(node)],
            ["--data-dir", &data],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &members],
            ["--initial-cluster-state", "new"],
            ["--quota-backend-bytes", &quota],
            ["--max-request-bytes", &request],
        ];
        let mut arguments = words(arguments.into_iter().flatten());
        arguments.extend(words(["--logger", "zap", "--log-level", "error"]));
        arguments
    };
    Ok(Orders {
        url: Url { protocol: Protocol::Etcd, address: Address::Tcp("127.0.0.1".into(), clients[0]), wait: 0 },
        arguments: (0..GROUP).map(of).collect(),
        settings: vec![("durability".into(), "disk (fsync before a write is answered)".into())],
    })
}

/// A run on a disk would not be what the report says, and one without room would end in the middle.
fn check_room(scratch: &Scratch) -> Result<(), String> {
    if !scratch.is_in_memory() {
        return Err("etcd in memory needs a file system of RAM at /dev/shm, and there is none".into());
    }
    let space = rustix::fs::statvfs(scratch.path()).map_err(|e| format!("/dev/shm: {e}"))?;
    let free = space.f_bavail * space.f_frsize;
    if free < ROOM_MIN {
        let (free, needed) = (free >> 20, ROOM_MIN >> 20);
        return Err(format!("etcd in memory needs {needed} MiB at /dev/shm, and {free} MiB are free there"));
    }
    Ok(())
}
