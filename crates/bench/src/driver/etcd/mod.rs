//! etcd, by its own API: gRPC over one HTTP/2 connection a client, to the leader, calls of a batch all under
//! way at once. Its JSON gateway would need less of a client, but is a proxy in each server before that API.

mod grpc;
mod messages;

use std::time::Duration;

use grpc::{Answer, Call, Channel};
use messages::{
    ALL, DeleteRangeRequest, Empty, MemberListResponse, PutRequest, RangeRequest, RangeResponse,
    StatusResponse, method,
};

use super::{OpRef, Seen, ServerInfo, Target, TargetError, TargetFactory, Verb};
use crate::cpu;
use crate::url::{Address, Url};

/// Deletes under way at once.
const REMOVED_AT_ONCE: usize = 128;

/// One connection.
pub struct Etcd {
    channel: Channel,
}

impl Etcd {
    /// Connects to the leader of the group that `url` is a member of, within `timeout`, which also bounds
    /// every later wait.
    pub fn connect(url: &Url, timeout: Duration) -> Result<Etcd, TargetError> {
        let mut channel = member(url, timeout)?;
        let status: StatusResponse = channel.ask(method::STATUS, &Empty {})?;
        if status.leader == 0 {
            return Err(TargetError::lost(format!("{url}: the group has no leader")));
        }
        if status.header.is_some_and(|header| header.member_id == status.leader) {
            return Ok(Etcd { channel });
        }
        let all: MemberListResponse = channel.ask(method::MEMBER_LIST, &Empty {})?;
        let leader = all.members.iter().find(|member| member.id == status.leader);
        let place = leader.and_then(|leader| leader.client_urls.iter().find_map(|text| place(text)));
        let leader =
            place.ok_or_else(|| TargetError::lost(format!("{url}: its leader listens at no http:// URL")))?;
        Ok(Etcd { channel: member(&leader, timeout)? })
    }

    /// Takes an answer without a message that matters.
    fn settled(answer: Answer) -> Result<(), TargetError> {
        answer.map(drop).map_err(TargetError::Refused)
    }
}

/// A connection to the very member.
fn member(url: &Url, timeout: Duration) -> Result<Channel, TargetError> {
    match &url.address {
        Address::Tcp(host, port) => Channel::connect(host, *port, &url.to_string(), timeout),
        Address::Unix(_) => Err(TargetError::lost(format!("{url}: etcd is reached over TCP"))),
    }
}

/// Where a member says that it serves clients; `None` if not in a way that is spoken here.
fn place(text: &str) -> Option<Url> {
    format!("etcd://{}", text.strip_prefix("http://")?).parse().ok()
}

fn get(key: &[u8]) -> Call {
    Call::new(method::RANGE, &RangeRequest { key: key.into(), ..RangeRequest::default() })
}

fn put(key: &[u8], value: &[u8]) -> Call {
    Call::new(method::PUT, &PutRequest { key: key.into(), value: value.into() })
}

impl Target for Etcd {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TargetError> {
        value.clear();
        let mut result = Ok(false);
        let op = OpRef { verb: Verb::Get, key, value: &[] };
        self.batch(&[op], &mut |_, seen| match seen {
            Seen::Hit(found) => {
                value.extend_from_slice(found);
                result = Ok(true);
            }
            Seen::Refused(text) => result = Err(TargetError::Refused(text.into())),
            Seen::Miss | Seen::Stored => {}
        })?;
        result
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TargetError> {
        self.channel.call(vec![put(key, value)], &mut |_, answer| Etcd::settled(answer))
    }

    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        for some in keys.chunks(REMOVED_AT_ONCE) {
            let delete = |key: &&[u8]| DeleteRangeRequest { key: key.to_vec(), range_end: Vec::new() };
            let calls = some.iter().map(|key| Call::new(method::DELETE_RANGE, &delete(key))).collect();
            self.channel.call(calls, &mut |_, answer| Etcd::settled(answer))?;
        }
        Ok(())
    }

    fn batch(&mut self, ops: &[OpRef<'_>], seen: &mut dyn FnMut(usize, Seen<'_>)) -> Result<(), TargetError> {
        let call = |op: &OpRef<'_>| match op.verb {
            Verb::Get => get(op.key),
            Verb::Put => put(op.key, op.value),
        };
        let name = self.channel.name().to_string();
        self.channel.call(ops.iter().map(call).collect(), &mut |i, answer| {
            match (answer, ops[i].verb) {
                (Err(text), _) => seen(i, Seen::Refused(&text)),
                (Ok(_), Verb::Put) => seen(i, Seen::Stored),
                (Ok(bytes), Verb::Get) => {
                    let found: RangeResponse = grpc::decode(bytes, &name)?;
                    seen(i, found.kvs.first().map_or(Seen::Miss, |kv| Seen::Hit(&kv.value)));
                }
            }
            Ok(())
        })
    }
}

/// Makes connections to one group.
pub struct EtcdFactory {
    label: String,
    url: Url,
    timeout: Duration,
    /// Whether it was started for this benchmark.
    ours: bool,
}

impl EtcdFactory {
    /// Connections to the leader of the group that has a member at `url`, each wait bounded by `timeout`.
    pub fn new(label: String, url: Url, timeout: Duration, ours: bool) -> EtcdFactory {
        EtcdFactory { label, url, timeout, ours }
    }
}

impl TargetFactory for EtcdFactory {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn connect(&self, _client: usize) -> Result<Box<dyn Target>, TargetError> {
        Ok(Box::new(Etcd::connect(&self.url, self.timeout)?))
    }

    fn describe(&self) -> Result<ServerInfo, TargetError> {
        let mut etcd = Etcd::connect(&self.url, self.timeout)?;
        let status: StatusResponse = etcd.channel.ask(method::STATUS, &Empty {})?;
        let all: MemberListResponse = etcd.channel.ask(method::MEMBER_LIST, &Empty {})?;
        let count = RangeRequest { key: ALL.into(), range_end: ALL.into(), count_only: true };
        let stored: RangeResponse = etcd.channel.ask(method::RANGE, &count)?;
        let places = all.members.iter().filter_map(|member| place(member.client_urls.first()?));
        Ok(ServerInfo {
            version: format!("etcd {}", status.version),
            pids: places.filter_map(|url| cpu::listener(&url.address)).collect(),
            leaders: Vec::new(),
            in_sync: None,
            items: u64::try_from(stored.count).ok(),
            used_memory: u64::try_from(status.db_size).ok(),
            settings: vec![
                ("transport".into(), format!("{} by gRPC, the leader", etcd.channel.name())),
                ("members".into(), all.members.len().to_string()),
            ],
        })
    }

    fn clear(&self) -> Result<bool, TargetError> {
        if !self.ours {
            return Ok(false);
        }
        let all = DeleteRangeRequest { key: ALL.into(), range_end: ALL.into() };
        let call = vec![Call::new(method::DELETE_RANGE, &all)];
        let mut etcd = Etcd::connect(&self.url, self.timeout)?;
        etcd.channel.call(call, &mut |_, answer| Etcd::settled(answer)).map(|()| true)
    }
}
