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
}

const FORMS: &str =
    "use redis://HOST:PORT, redis+unix:///PATH, memcached://HOST:PORT or memcached+unix:///PATH";

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| format!("'{text}' is not a URL: {FORMS}"))?;
        let (protocol, unix) = match scheme {
            "redis" => (Protocol::Redis, false),
            "redis+unix" => (Protocol::Redis, true),
            "memcached" => (Protocol::Memcached, false),
            "memcached+unix" => (Protocol::Memcached, true),
            _ => return Err(format!("unknown scheme '{scheme}' in '{text}': {FORMS}")),
        };
        if unix {
            if !rest.starts_with('/') || rest.len() < 2 {
                return Err(format!("'{text}' needs an absolute path: {FORMS}"));
            }
            return Ok(Url { protocol, address: Address::Unix(rest.into()) });
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['@', '/', '?']) {
            return Err(format!(
                "'{text}': users, passwords and databases in the URL are not supported: {FORMS}"
            ));
        }
        let default = if protocol == Protocol::Redis { 6379 } else { 11211 };
        let (host, port) =
            split_port(rest, default).ok_or_else(|| format!("bad port in '{text}': {FORMS}"))?;
        if host.is_empty() {
            return Err(format!("'{text}' names no host: {FORMS}"));
        }
        Ok(Url { protocol, address: Address::Tcp(host.to_string(), port) })
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
        let scheme = match self.protocol {
            Protocol::Redis => "redis",
            Protocol::Memcached => "memcached",
        };
        match &self.address {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "{scheme}://[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{scheme}://{host}:{port}"),
            Address::Unix(path) => write!(f, "{scheme}+unix://{}", path.display()),
        }
    }
}
