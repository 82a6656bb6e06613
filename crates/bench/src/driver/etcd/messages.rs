//! The few messages of etcd's API v3 that a benchmark needs, with only the fields it looks at: the others are
//! skipped when a message is read, and have their defaults when one is written. Names and numbers are those
//! of etcd's `api/etcdserverpb/rpc.proto` and `api/mvccpb/kv.proto`.

use prost::Message;

/// Methods, as paths of requests.
pub mod method {
    /// `RangeRequest` to `RangeResponse`.
    pub const RANGE: &str = "/etcdserverpb.KV/Range";
    /// `PutRequest` to `Ignored`.
    pub const PUT: &str = "/etcdserverpb.KV/Put";
    /// `DeleteRangeRequest` to `Ignored`.
    pub const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
    /// `Empty` to `StatusResponse`.
    pub const STATUS: &str = "/etcdserverpb.Maintenance/Status";
    /// `Empty` to `MemberListResponse`.
    pub const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
}

/// From this key to this end means: all keys.
pub const ALL: &[u8] = &[0];

/// A request that says nothing.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// A linearizable read, unless told otherwise.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "bytes", tag = "5")]
    pub value: bytes::Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(int64, tag = "4")]
    pub count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResponseHeader {
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    #[prost(uint64, tag = "4")]
    pub leader: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Member {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, repeated, tag = "4")]
    pub client_urls: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}
