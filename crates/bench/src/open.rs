//! From what one writes on a command line to a target: a URL, or the name of a server to start.

use std::time::Duration;

use crate::driver::{
    FloorFactory, LongarmFactory, MemcachedFactory, RedisFactory, ServerInfo, Target, TargetError,
    TargetFactory,
};
use crate::peer::{Peer, PeerKind, PeerOptions};
use crate::url::{Protocol, Url};

/// What is no server, but the least that any store could take for the same operations.
const FLOOR: &str = "floor";

/// How to reach targets.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// Bound of every wait for a server.
    pub timeout: Duration,
    /// How to start the servers that are named without a URL.
    pub peer: PeerOptions,
    /// Whether scans are measured: stores without an order of keys are told to keep one, where they can.
    pub ordered: bool,
}

impl Default for TargetOptions {
    fn default() -> TargetOptions {
        TargetOptions { timeout: Duration::from_secs(10), peer: PeerOptions::default(), ordered: false }
    }
}

/// Opens servers by the name of their kind (started here, on free loopback ports, and stopped when the target
/// is dropped), or connects to a running one: a URL, or an address of Longarm.
pub fn open(text: &str, options: &TargetOptions) -> Result<Box<dyn TargetFactory>, String> {
    if text == FLOOR {
        return Ok(Box::new(FloorFactory::new(text.into())));
    }
    match PeerKind::named(text) {
        Some(kind) => {
            spoken(kind.protocol())?;
            let connect = |url| factory(kind.name().into(), url, options, true);
            let peer = Peer::start(kind, &options.peer, &connect)?;
            Ok(Box::new(Started { connection: connect(peer.url().clone()), peer }))
        }
        None if ["shm:", "tcp:"].iter().any(|scheme| text.starts_with(scheme)) => {
            let address = text.parse()?;
            Ok(Box::new(LongarmFactory::plain(text.to_string(), address, options.timeout)))
        }
        None if text.contains("://") => {
            let url: Url = text.parse()?;
            spoken(url.protocol)?;
            Ok(factory(url.to_string(), url, options, false))
        }
        None => {
            let kinds = PeerKind::ALL.map(PeerKind::name).join(", ");
            Err(format!(
                "'{text}' is neither a server to start ({kinds}), nor {FLOOR}, nor the address of one \
                 (redis://..., memcached://..., etcd://..., shm:..., tcp://...)"
            ))
        }
    }
}

/// Whether this program was built with what speaks a protocol.
fn spoken(protocol: Protocol) -> Result<(), String> {
    spoken_by(cfg!(feature = "etcd"), protocol)
}

fn spoken_by(has_etcd: bool, protocol: Protocol) -> Result<(), String> {
    if protocol == Protocol::Etcd && !has_etcd {
        return Err("this program was built without what speaks to etcd: build it with \
                    `cargo build --release --features etcd`"
            .into());
    }
    Ok(())
}

/// Connections to `url`; `ours` if it was started for this benchmark.
fn factory(label: String, url: Url, options: &TargetOptions, ours: bool) -> Box<dyn TargetFactory> {
    let timeout = options.timeout;
    match url.protocol {
        Protocol::Redis => Box::new(RedisFactory::new(label, url, timeout, ours).ordered(options.ordered)),
        Protocol::Memcached => Box::new(MemcachedFactory::new(label, url, timeout, ours)),
        #[cfg(feature = "etcd")]
        Protocol::Etcd => Box::new(crate::driver::EtcdFactory::new(label, url, timeout, ours)),
        #[cfg(not(feature = "etcd"))]
        Protocol::Etcd => unreachable!("it was asked whether it is spoken"),
    }
}

/// A target whose servers live as long as it does.
struct Started {
    connection: Box<dyn TargetFactory>,
    peer: Peer,
}

impl TargetFactory for Started {
    fn scans(&self) -> bool {
        self.connection.scans()
    }
    fn label(&self) -> String {
        self.connection.label()
    }
    fn connect(&self, client: usize) -> Result<Box<dyn Target>, TargetError> {
        self.connection.connect(client)
    }
    fn describe(&self) -> Result<ServerInfo, TargetError> {
        let mut info = self.connection.describe()?;
        info.settings.extend_from_slice(self.peer.settings());
        Ok(info)
    }
    fn clear(&self) -> Result<bool, TargetError> {
        self.connection.clear()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_etcd_says_how_to_have_it() {
        assert!(spoken_by(false, Protocol::Etcd).expect_err("no etcd").contains("--features etcd"));
        spoken_by(false, Protocol::Redis).expect("Redis is always spoken");
        spoken_by(true, Protocol::Etcd).expect("this one has it");
    }
}
