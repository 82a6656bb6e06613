//! Finds the party that has the socket at the other end of a connection. The kernel knows which process has
//! it, and tells without root.
//!
//! A question to the kernel takes milliseconds, however many connections it is about, so relays ask about
//! many at once.

use std::collections::{BTreeMap, HashMap};

/// A party that has one end of a connection: a node's number, or 0 for all clients.
pub type Party = u32;

/// The sockets of this machine, and the parties that have them, at one moment.
pub struct Sockets {
    /// By the port that a socket is bound to, and the port that it is connected to: its inode.
    inodes: HashMap<(u16, u16), u64>,
    /// By inode: the node that has the socket.
    owners: HashMap<u64, Party>,
}

impl Sockets {
    /// Reads the sockets as they are now, where nodes have these processes.
    pub fn look(processes: &BTreeMap<Party, u32>) -> std::io::Result<Sockets> {
        let table = std::fs::read_to_string("/proc/net/tcp")?;
        let inodes = table.lines().skip(1).filter_map(inode).collect();
        let of = |(party, process): (&Party, &u32)| {
            // A process that has ended has no sockets.
            let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
            let links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            links.filter_map(|link| socket(link.to_str()?)).map(|inode| (inode, *party)).collect::<Vec<_>>()
        };
        Ok(Sockets { inodes, owners: processes.iter().flat_map(of).collect() })
    }

    /// The party that has the socket bound to `port` and connected to `other`; `None` if there is no such
    /// socket.
    pub fn party(&self, port: u16, other: u16) -> Option<Party> {
        let inode = self.inodes.get(&(port, other))?;
        Some(self.owners.get(inode).copied().unwrap_or(0))
    }
}

/// Parses a line of the kernel's table: number, local and remote address, state, queues, timer,
/// retransmissions, user, timeout, inode. Returns the two ports and the inode.
fn inode(line: &str) -> Option<((u16, u16), u64)> {
    let fields: Vec<&str> = line.split_whitespace().take(10).collect();
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
    Some(((port(fields.get(1)?)?, port(fields.get(2)?)?), fields.get(9)?.parse().ok()?))
}

/// Parses the link of a descriptor; returns the inode if it is a socket.
fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_of_the_process_that_made_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let at = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(at).expect("connected");
        let port = stream.local_addr().expect("bound").port();
        let party = |processes: &[(Party, u32)]| {
            let sockets = Sockets::look(&processes.iter().copied().collect()).expect("a table");
            sockets.party(port, at.port())
        };
        assert_eq!(party(&[(1, 1), (2, std::process::id())]), Some(2));
        assert_eq!(party(&[(1, 1), (2, u32::MAX >> 1)]), Some(0), "whoever is no node is a client");
        drop((stream, listener));
        assert_eq!(party(&[(2, std::process::id())]).unwrap_or(0), 0, "it is closed, or closing");
    }

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line =
            "   2: 0100007F:9F5C 0100007F:1BBD 01 00000000:00000000 02:000A 00000000     0        0 48213 2";
        assert_eq!(inode(line), Some(((0x9f5c, 0x1bbd), 48_213)));
        assert_eq!(
            inode("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt"),
            None
        );
        assert_eq!(socket("socket:[48213]"), Some(48_213));
        assert_eq!(socket("pipe:[48213]"), None);
    }
}
