//! The first message of a connection between replicas, or from an operator to one.

use longarm_base::{Nanos, ReplicaId, Term};

use crate::codec::{Bad, Fields, Out, replica, take_term};
use crate::versions::{PEER_MARK, VERSIONS, Versions};

/// The hello of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerHello {
    /// The group, so that replicas of two groups never mix.
    pub group: u64,
    /// The replica that connects; from an operator, the replica that is meant.
    pub replica: ReplicaId,
    /// The term of the connection; for a talk, any.
    pub term: Term,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// Bytes of the ring that it lends for answers; zero if there are none.
    pub ring_bytes: u64,
    /// The times of its replica; zeroes from an operator.
    pub times: GroupTimes,
    /// The name of this start of its process, among all that it ever had. From an operator, zero.
    pub life: u64,
}

/// The times that all replicas of a group have alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupTimes {
    /// How long a replica keeps what a heartbeat promises.
    pub promise: Nanos,
    /// How long outcomes are kept for clients that may repeat.
    pub keep: Nanos,
}

/// The purpose of a connection between replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Purpose {
    /// Questions and answers of this module. Only rings are lent.
    Talk = 1,
    /// The leader of the term WRITEs the replica's memory, or a candidate READs it.
    Memory = 2,
    /// Orders of an operator (`operator.rs`) to the replica named.
    Operate = 3,
    /// A replica READs how far the streams of the term's leader are.
    Order = 4,
    /// A replica that keeps the term's entries on its disk hears how far the streams of the leader are, READs
    /// where their entries are, and says what it keeps (`disk.rs`).
    Disk = 5,
}

impl PeerHello {
    /// Whether these bytes are a peer's hello, and not a client's.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(&PEER_MARK.to_le_bytes())
    }

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(64));
        out.u32(PEER_MARK);
        VERSIONS.put(&mut out);
        out.u64(self.group);
        out.u32(u32::from(self.replica.0));
        out.u32(self.purpose as u32);
        out.u64(self.term.bits());
        out.u64(self.ring_bytes);
        out.u64(self.times.promise.0);
        out.u64(self.times.keep.0);
        out.u64(self.life);
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<PeerHello, Bad> {
        let mut fields = Fields(bytes);
        if fields.u32()? != PEER_MARK {
            return Err(Bad("not the hello of a replica"));
        }
        if VERSIONS.meet(Versions::take(&mut fields)?).is_err() {
            return Err(Bad("the replicas speak different versions of the protocol"));
        }
        let group = fields.u64()?;
        let replica = replica(fields.u32()?)?;
        let purpose = match fields.u32()? {
            1 => Purpose::Talk,
            2 => Purpose::Memory,
            3 => Purpose::Operate,
            4 => Purpose::Order,
            5 => Purpose::Disk,
            _ => return Err(Bad("unknown purpose of a connection")),
        };
        let (term, ring_bytes) = (take_term(&mut fields)?, fields.u64()?);
        let times = GroupTimes { promise: Nanos(fields.u64()?), keep: Nanos(fields.u64()?) };
        let life = fields.u64()?;
        fields.end()?;
        Ok(PeerHello { group, replica, term, purpose, ring_bytes, times, life })
    }
}
