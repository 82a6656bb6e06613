//! The drivers: what the harness measures ([`Target`]), and who speaks to each store.

#[cfg(feature = "etcd")]
mod etcd;
mod floor;
mod longarm;
mod memcached;
mod redis;
mod resp;
mod socket;
mod target;

#[cfg(feature = "etcd")]
pub use etcd::{Etcd, EtcdFactory};
pub use floor::{Floor, FloorFactory};
pub use longarm::{Longarm, LongarmFactory};
pub use memcached::{Memcached, MemcachedFactory};
pub use redis::{Redis, RedisFactory};
pub use target::{OpRef, ScanRef, Seen, ServerInfo, Target, TargetError, TargetFactory, Verb};

#[cfg(test)]
pub(crate) mod tests;
