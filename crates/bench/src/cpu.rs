//! CPU time of this process and of servers, and which process listens at an address.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, ToSocketAddrs};

use crate::url::Address;

/// CPU seconds (user and system) of this process.
pub fn own_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9
}

/// CPU seconds (user and system, all threads) of the processes; `None` when there are none or one is gone.
pub fn seconds_of(pids: &[u32]) -> Option<f64> {
    let ticks: Option<u64> = pids.iter().map(|&pid| ticks_of(pid)).sum();
    let ticks = ticks.filter(|_| !pids.is_empty())?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU nanoseconds that threads had by some moment, by the number of the thread.
pub struct Threads(HashMap<u32, u64>);

impl Threads {
    /// The threads of the processes; `None` as of [`seconds_of`].
    pub fn of(pids: &[u32]) -> Option<Threads> {
        let mut threads = HashMap::new();
        for pid in pids {
            for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
                // Of a thread that has just ended nothing is known.
                let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok());
                let number = thread.file_name().to_str().and_then(|number| number.parse().ok());
                threads.extend(number.zip(nanos));
            }
        }
        (!threads.is_empty()).then_some(Threads(threads))
    }

    /// CPU seconds since `before`, of the threads that are still there.
    pub fn seconds_since(&self, before: &Threads) -> f64 {
        let had = |number| before.0.get(number).copied().unwrap_or(0);
        let nanos: u64 = self.0.iter().map(|(number, nanos)| nanos.saturating_sub(had(number))).sum();
        nanos as f64 * 1e-9
    }
}

/// Resident memory of the processes in bytes.
pub fn resident_of(pids: &[u32]) -> Option<u64> {
    let page = rustix::param::page_size() as u64;
    let resident = |pid: &u32| {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        statm.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let pages: Option<u64> = pids.iter().map(resident).sum();
    pages.filter(|_| !pids.is_empty()).map(|pages| pages * page)
}

fn ticks_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain spaces and parentheses; utime and stime are fields 14 and 15.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let utime: u64 = fields.next()?.parse().ok()?;
    let stime: u64 = fields.next()?.parse().ok()?;
    Some(utime + stime)
}

/// The process of this machine that listens at `address`; `None` when there is none or we may not see it
/// (another user's process, another machine).
pub fn listener(address: &Address) -> Option<u32> {
    let inodes = match address {
        Address::Unix(path) => unix_inodes(path.to_str()?),
        Address::Tcp(host, port) => {
            let addresses = (host.as_str(), *port).to_socket_addrs().ok()?;
            // A server of another machine must not be mistaken for one of ours on the same port.
            let local = addresses.map(|address| address.ip()).any(is_local);
            if local { tcp_inodes(*port) } else { HashSet::new() }
        }
    };
    if inodes.is_empty() { None } else { owner(&inodes) }
}

/// Whether an address is this machine's: only then can a socket be bound to it.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || std::net::UdpSocket::bind((ip, 0)).is_ok()
}

fn tcp_inodes(port: u16) -> HashSet<String> {
    const LISTEN: &str = "0A";
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let matches = u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == LISTEN;
        matches.then(|| fields.get(9).map(|inode| inode.to_string())).flatten()
    };
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(inode).collect()
}

fn unix_inodes(path: &str) -> HashSet<String> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (*fields.get(7)? == path).then(|| fields[6].to_string())
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// The process that has one of the socket inodes open.
fn owner(inodes: &HashSet<String>) -> Option<u32> {
    let links: HashSet<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let holds = |pid: &u32| {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        files
            .flatten()
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| links.contains(link)))
    };
    let entries = fs::read_dir("/proc").ok()?.flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(holds)
}
