//! Two-sided messages between client and server, one file a family.
//!
//! All words are little-endian, headers are fixed, and lengths are checked before use. A message that does
//! not parse is a protocol error of the peer ([`Bad`]): its connection is dropped with that reason, and
//! nothing else happens.
#![forbid(unsafe_code)]

mod codec;
mod disk;
mod hello;
mod members;
mod operator;
mod peer;
mod peer_hello;
mod recall;
mod refusal;
mod request;
mod response;
mod scan;
mod versions;

pub use codec::Bad;
pub use disk::{DiskMark, DiskReply, FREED_MAX};
pub use hello::{Hello, Welcome};
pub use members::{ADDRESS_MAX, MEMBERS_MAX, MemberAt, Members};
pub use operator::{Deny, NoRecall, OperatorReply, Order, Stay};
pub use peer::{Answer, Ask, EntryAt, Extent, PLACES_MAX, ReplicaReport, STREAMS_MAX, SyncState};
pub use peer_hello::{GroupTimes, PeerHello, Purpose};
pub use recall::{DiskReport, Recall};
pub use refusal::{Refusal, RefusalCode};
pub use request::{
    BackupStep, Condition, HINTS_MAX, LET_GO_MAX, Request, RequestKind, SpilledKey, hints, let_go,
};
pub use response::{Response, Status};
pub use scan::{
    COUNT_MAX, FAR_FROM, OrderedStage, OrderedStats, PAGE_BYTES_MAX, PAGE_ITEMS_MAX, SCAN_MESSAGE_MAX,
    ScanAnswer, ScanAnswerWriter, ScanHead, ScanHello, ScanItem, ScanItems, ScanKind, ScanRequest,
    ScanStatus, ScanValue, ScanWelcome, TreeMoment, page_time,
};
pub use versions::{Agreed, BACKUP, VERSIONS, Versions};

use longarm_base::RegionId;
use longarm_base::limits::{KEY_MAX, VALUE_MAX};

/// The region of the segment store.
pub const ARENA_REGION: RegionId = RegionId(3);
/// The page by which a leader tells a follower that it lives.
pub const PAGE_REGION: RegionId = RegionId(4);
/// The ring for requests, which the server lends a client, and the ring for answers, which the client lends.
pub const RING_REGION: RegionId = RegionId(16);
/// Longest message.
pub const MESSAGE_MAX: usize = 64 + KEY_MAX + VALUE_MAX;

#[cfg(test)]
mod tests;
