//! Where a store is, as one writes it on a command line.

use std::fmt;
use std::path::PathBuf;

/// Language a store speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// RESP2.
    Redis,
    /// memcached's text protocol.
    Memcached,
    /// etcd's API v3 (gRPC, without TLS).
    Etcd,
}

impl Protocol {
    const ALL: [Protocol; 3] = [Protocol::Redis, Protocol::Memcached, Protocol::Etcd];

    /// As URLs begin.
    const fn scheme(self) -> &'static str {
        match self {
            Protocol::Redis => "redis",
            Protocol::Memcached => "memcached",
            Protocol::Etcd => "etcd",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Protocol::Redis => 6379,
            Protocol::Memcached => 11211,
            Protocol::Etcd => 2379,
        }
    }
}

/// Where a store listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// `host:port`.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A protocol and an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Language.
    pub protocol: Protocol,
    /// Place.
    pub address: Address,
    /// Replicas that must have a write before it counts (Redis: WAIT); none: the server's own answer counts.
    pub wait: u32,
}

/// Most replicas that a write may wait for.
const WAIT_MAX: u32 = 100;

const FORMS: &str = "use redis://HOST:PORT, redis+unix:///PATH (both also with ?wait=REPLICAS), \
                     memcached://HOST:PORT, memcached+unix:///PATH or etcd://HOST:PORT";

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| format!("'{text}' is not a URL: {FORMS}"))?;
        let (name, unix) = match scheme.strip_suffix("+unix") {
            Some(name) => (name, true),
            None => (scheme, false),
        };
        let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.scheme() == name);
        let protocol = protocol
            .filter(|protocol| !unix || *protocol != Protocol::Etcd)
            .ok_or_else(|| format!("unknown scheme '{scheme}' in '{text}': {FORMS}"))?;
        let (rest, wait) = match rest.split_once("?wait=") {
            Some((rest, wait)) if protocol == Protocol::Redis => {
                let good = wait.parse().ok().filter(|wait| (1..=WAIT_MAX).contains(wait));
                (
                    rest,
                    good.ok_or_else(|| format!("'{text}': wait is for 1 to {WAIT_MAX} replicas: {FORMS}"))?,
                )
            }
            _ => (rest, 0),
        };
        if unix {
            if !rest.starts_with('/') || rest.len() < 2 {
                return Err(format!("'{text}' needs an absolute path: {FORMS}"));
            }
            return Ok(Url { protocol, address: Address::Unix(rest.into()), wait });
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['@', '/', '?']) {
            return Err(format!(
                "'{text}': users, passwords and databases in the URL are not supported: {FORMS}"
            ));
        }
        let (host, port) =
            split_port(rest, protocol.port()).ok_or_else(|| format!("bad port in '{text}': {FORMS}"))?;
        if host.is_empty() {
            return Err(format!("'{text}' names no host: {FORMS}"));
        }
        Ok(Url { protocol, address: Address::Tcp(host.to_string(), port), wait })
    }
}

/// Splits `host:port`, `[v6]:port`, `host` or `[v6]`.
fn split_port(text: &str, default: u16) -> Option<(&str, u16)> {
    let (host, after) = match text.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?,
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    match after.strip_prefix(':') {
        None if after.is_empty() => Some((host, default)),
        None => None,
        Some(port) => port.parse().ok().filter(|&port| port != 0).map(|port| (host, port)),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.protocol.scheme();
        match &self.address {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "{scheme}://[{host}]:{port}")?,
            Address::Tcp(host, port) => write!(f, "{scheme}://{host}:{port}")?,
            Address::Unix(path) => write!(f, "{scheme}+unix://{}", path.display())?,
        }
        match self.wait {
            0 => Ok(()),
            wait => write!(f, "?wait={wait}"),
        }
    }
}
