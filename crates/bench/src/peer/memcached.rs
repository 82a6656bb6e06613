//! memcached.

use super::orders::{Orders, PeerOptions, free_ports, words};
use crate::url::{Address, Protocol, Url};

/// Its own default.
const THREADS: u32 = 4;

/// One server.
pub(super) fn alone(options: &PeerOptions) -> Result<Orders, String> {
    let [port] = free_ports()?;
    let url = Url { protocol: Protocol::Memcached, address: Address::Tcp("127.0.0.1".into(), port), wait: 0 };
    let (port, threads) = (port.to_string(), options.threads.unwrap_or(THREADS).max(1).to_string());
    let clients = options.clients.max(4096).to_string();
    let megabytes = (options.memory >> 20).max(64).to_string();
    let mut arguments = words(["-l", "127.0.0.1", "-p", &port, "-U", "0", "-t", &threads, "-c", &clients]);
    arguments.extend(words(["-M", "-m", &megabytes]));
    // memcached refuses items above 1 MiB unless told; the item includes key and header.
    if options.value_max + 512 > 1 << 20 {
        arguments.extend(["-I".into(), format!("{}m", (options.value_max + 512).div_ceil(1 << 20) + 1)]);
    }
    // It refuses to run as root without being told as whom.
    if rustix::process::geteuid().is_root() {
        arguments.extend(words(["-u", "root"]));
    }
    Ok(Orders { url, arguments: vec![arguments], settings: Vec::new() })
}
