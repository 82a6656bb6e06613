//! From what one writes on a command line to a target: a URL, or the name of a server to start.

use std::time::Duration;

use super::{
    LongarmFactory, MemcachedFactory, Protocol, RedisFactory, ServerInfo, Target, TargetError, TargetFactory,
    Url,
};
use crate::peer::{Peer, PeerKind, PeerOptions};

/// How to reach targets.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// Bound of every wait for a server.
    pub timeout: Duration,
    /// How to start the servers that are named without a URL.
    pub peer: PeerOptions,
}

impl Default for TargetOptions {
    fn default() -> TargetOptions {
        TargetOptions { timeout: Duration::from_secs(10), peer: PeerOptions::default() }
    }
}

/// Opens `redis` or `memcached` (started here, on a free loopback port, and stopped when the target is
/// dropped), or connects to a running server: a URL of those, or an address of Longarm.
pub fn open(text: &str, options: &TargetOptions) -> Result<Box<dyn TargetFactory>, String> {
    match PeerKind::named(text) {
        Some(kind) => {
            let peer = Peer::start(kind, &options.peer)?;
            let connection =
                factory(kind.name().into(), peer.url().clone(), options.timeout, Some(peer.pid()));
            Ok(Box::new(Started { connection, _peer: peer }))
        }
        None if ["shm:", "tcp:"].iter().any(|scheme| text.starts_with(scheme)) => {
            let address = text.parse()?;
            Ok(Box::new(LongarmFactory::plain(text.to_string(), address, options.timeout)))
        }
        None if text.contains("://") => {
            let url: Url = text.parse()?;
            Ok(factory(url.to_string(), url, options.timeout, None))
        }
        None => Err(format!(
            "'{text}' is neither a server to start (redis, memcached) nor the address of one \
                 (redis://..., memcached://..., shm:..., tcp://...)"
        )),
    }
}

fn factory(label: String, url: Url, timeout: Duration, pid: Option<u32>) -> Box<dyn TargetFactory> {
    match url.protocol {
        Protocol::Redis => Box::new(RedisFactory::new(label, url, timeout, pid)),
        Protocol::Memcached => Box::new(MemcachedFactory::new(label, url, timeout, pid)),
    }
}

/// A target whose server lives as long as it does.
struct Started {
    connection: Box<dyn TargetFactory>,
    _peer: Peer,
}

impl TargetFactory for Started {
    fn label(&self) -> String {
        self.connection.label()
    }
    fn connect(&self, client: usize) -> Result<Box<dyn Target>, TargetError> {
        self.connection.connect(client)
    }
    fn describe(&self) -> Result<ServerInfo, TargetError> {
        self.connection.describe()
    }
    fn clear(&self) -> Result<bool, TargetError> {
        self.connection.clear()
    }
}
