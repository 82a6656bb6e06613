//! The replicas of a group, as of a term: a replica keeps this set beside its promise.
//!
//! `term u64 | changed u64 | count u64`, then for each `replica u32 | len u32` and the text of its address.

use longarm_base::{ReplicaId, Term};

use crate::codec::{Bad, Fields, Out, replica, take_term};

/// The most replicas of a group.
pub const MEMBERS_MAX: usize = 9;
/// The longest text of an address.
pub const ADDRESS_MAX: usize = 1 << 10;

/// A replica and its address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MemberAt {
    /// The replica.
    pub replica: ReplicaId,
    /// The address at which other replicas, and clients, find it: text that this crate does not parse.
    pub address: String,
}

/// The replicas of a group, as of a term.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// The term whose leader named the set; zero for the set with which the group began.
    pub term: Term,
    /// Whether it is the set that this leader wants next, and not the set of its own term.
    pub changed: bool,
    /// The replicas; none, if a replica has not been told yet.
    pub list: Vec<MemberAt>,
}

impl MemberAt {
    pub(crate) fn put(&self, out: &mut Out) {
        out.u32(u32::from(self.replica.0));
        out.u32(self.address.len() as u32);
        out.0.extend_from_slice(self.address.as_bytes());
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Result<MemberAt, Bad> {
        let (replica, len) = (replica(fields.u32()?)?, fields.u32()? as usize);
        if len > ADDRESS_MAX {
            return Err(Bad("an address too long"));
        }
        let address = String::from_utf8(fields.bytes(len)?.to_vec());
        Ok(MemberAt { replica, address: address.map_err(|_| Bad("an address that is no text"))? })
    }
}

impl Members {
    /// Whether this set replaces `than`.
    pub fn is_newer(&self, than: &Members) -> bool {
        let rank = |members: &Members| (members.term, members.changed, !members.list.is_empty());
        rank(self) > rank(than)
    }

    /// Whether the replica is in the set.
    pub fn has(&self, replica: ReplicaId) -> bool {
        self.list.iter().any(|member| member.replica == replica)
    }

    /// All of the set.
    pub fn replicas(&self) -> Vec<ReplicaId> {
        self.list.iter().map(|member| member.replica).collect()
    }

    /// Encodes the set.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(24 + 40 * self.list.len()));
        self.put(&mut out);
        out.0
    }

    /// Decodes bytes.
    pub fn decode(bytes: &[u8]) -> Result<Members, Bad> {
        let mut fields = Fields(bytes);
        let members = Members::take(&mut fields)?;
        fields.end()?;
        Ok(members)
    }

    pub(crate) fn put(&self, out: &mut Out) {
        out.u64(self.term.bits());
        out.u64(u64::from(self.changed));
        out.u64(self.list.len() as u64);
        self.list.iter().for_each(|member| member.put(out));
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Result<Members, Bad> {
        let term = take_term(fields)?;
        let changed = match fields.u64()? {
            0 => false,
            1 => true,
            _ => return Err(Bad("neither changed nor not")),
        };
        let count = fields.u64()?;
        if count > MEMBERS_MAX as u64 {
            return Err(Bad("more members than a group may have"));
        }
        let mut members = Members { term, changed, list: Vec::new() };
        for _ in 0..count {
            let member = MemberAt::take(fields)?;
            if members.has(member.replica) {
                return Err(Bad("a member twice"));
            }
            members.list.push(member);
        }
        Ok(members)
    }
}
