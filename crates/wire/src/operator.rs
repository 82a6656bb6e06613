//! The orders of an operator to a replica, on a connection of its own ([`Purpose::Operate`](crate::Purpose)).
//!
//! ```text
//! move leader to replica   -> moved, stays, elsewhere, unheard
//! add a replica         -> changed, denied, elsewhere, unheard
//! remove a replica      -> changed, denied, elsewhere, unheard
//! recall                -> recalls, rests
//! ```
//! Each order is answered once, or the connection is over. A message is `kind u32 | 0 u32`, then words, as in
//! `peer.rs`.

use longarm_base::{Nanos, ReplicaId, Term};

use crate::codec::{Bad, Fields, Out, kind, replica, take_term};
use crate::{MemberAt, Members};

/// An order to a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Let another replica lead, for the leader.
    MoveLeader {
        /// The replica that is to lead.
        to: ReplicaId,
    },
    /// Add a replica to the group.
    Add {
        /// The replica and its address.
        member: MemberAt,
    },
    /// Remove a replica from the group.
    Remove {
        /// The replica.
        replica: ReplicaId,
    },
    /// Stand with what is on disk, though others are missing, with all that only they have; for any replica.
    Recall,
}

/// The answer to an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OperatorReply {
    /// Another replica leads since then.
    Moved {
        /// It: the ordered one, unless that failed and the others elected another.
        leader: ReplicaId,
        /// Its term.
        term: Term,
        /// The time from when no new write was taken until the other replica served.
        gap: Nanos,
    },
    /// Nothing has changed: this replica still leads.
    Stays(Stay),
    /// This replica does not lead.
    Elsewhere {
        /// The leader, if this replica knows it.
        leader: Option<ReplicaId>,
    },
    /// This replica has stopped leading, and has not heard of another leader in time.
    Unheard,
    /// A term serves that has other replicas than before.
    Changed {
        /// Its replicas.
        members: Members,
        /// The replica that leads it, or is about to: a leader that is being removed does not hear of it.
        leader: ReplicaId,
        /// The time from when no new write was taken until the term served, if it did.
        gap: Option<Nanos>,
    },
    /// The replicas stay as they are.
    Denied(Deny),
    /// It stands with what is on disk, or has the replica stand that has more there.
    Recalls,
    /// It does not.
    Rests(NoRecall),
}

/// Why a replica does not stand with what is on its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum NoRecall {
    /// It hears a leader, or has just promised a term.
    Led = 0,
    /// Its group keeps nothing on disks, or only acknowledges what is there: then a majority elects by
    /// itself.
    Needless = 1,
    /// It does not know what it promised, and has not heard from all others.
    Blank = 2,
    /// It stands, or reports, or is no replica of the group.
    Busy = 3,
}

impl NoRecall {
    pub(crate) const ALL: [NoRecall; 4] =
        [NoRecall::Led, NoRecall::Needless, NoRecall::Blank, NoRecall::Busy];
}

/// Why a group's replicas stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Deny {
    /// The leader hands over, or makes another change.
    Busy = 0,
    /// The replica is of the group already.
    Member = 1,
    /// The replica is not of the group.
    Stranger = 2,
    /// The replica is the only one.
    Last = 3,
    /// The group has as many replicas as it may have.
    Full = 4,
    /// No majority of the remaining replicas is in sync.
    Behind = 5,
    /// The replica that is to be added was not in sync in time, or a majority did not answer.
    Late = 6,
    /// The leader does not understand the address of the replica that is to be added.
    Nowhere = 7,
}

impl Deny {
    pub(crate) const ALL: [Deny; 8] = [
        Deny::Busy,
        Deny::Member,
        Deny::Stranger,
        Deny::Last,
        Deny::Full,
        Deny::Behind,
        Deny::Late,
        Deny::Nowhere,
    ];
}

/// Why a leader continues to lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Stay {
    /// It is the replica that is to lead.
    Leads = 0,
    /// The other replica is not of the group.
    Stranger = 1,
    /// The other replica is not in sync, or no longer.
    Behind = 2,
    /// It is handing over already.
    Busy = 3,
    /// Not all work under way was done in time, or the other replica did not have all of it.
    Late = 4,
}

impl Stay {
    const ALL: [Stay; 5] = [Stay::Leads, Stay::Stranger, Stay::Behind, Stay::Busy, Stay::Late];
}

/// The word for no replica.
const NOBODY: u64 = u64::MAX;
/// The word for no time.
const UNKNOWN: u64 = u64::MAX;

impl Order {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(16));
        match self {
            Order::MoveLeader { to } => {
                out.kind(1);
                out.u64(u64::from(to.0));
            }
            Order::Add { member } => {
                out.kind(2);
                member.put(&mut out);
            }
            Order::Remove { replica } => {
                out.kind(3);
                out.u64(u64::from(replica.0));
            }
            Order::Recall => out.kind(4),
        }
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<Order, Bad> {
        let mut fields = Fields(bytes);
        let order = match kind(&mut fields)? {
            1 => Order::MoveLeader { to: replica(fields.u64()?)? },
            2 => Order::Add { member: MemberAt::take(&mut fields)? },
            3 => Order::Remove { replica: replica(fields.u64()?)? },
            4 => Order::Recall,
            _ => return Err(Bad("unknown order of an operator")),
        };
        fields.end()?;
        Ok(order)
    }
}

impl OperatorReply {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(32));
        match self {
            OperatorReply::Moved { leader, term, gap } => {
                out.kind(1);
                out.u64(u64::from(leader.0));
                out.u64(term.bits());
                out.u64(gap.0);
            }
            OperatorReply::Stays(why) => {
                out.kind(2);
                out.u64(*why as u64);
            }
            OperatorReply::Elsewhere { leader } => {
                out.kind(3);
                out.u64(leader.map_or(NOBODY, |leader| u64::from(leader.0)));
            }
            OperatorReply::Unheard => out.kind(4),
            OperatorReply::Changed { members, leader, gap } => {
                out.kind(5);
                members.put(&mut out);
                out.u64(u64::from(leader.0));
                out.u64(gap.map_or(UNKNOWN, |gap| gap.0));
            }
            OperatorReply::Denied(why) => {
                out.kind(6);
                out.u64(*why as u64);
            }
            OperatorReply::Recalls => out.kind(7),
            OperatorReply::Rests(why) => {
                out.kind(8);
                out.u64(*why as u64);
            }
        }
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<OperatorReply, Bad> {
        let mut fields = Fields(bytes);
        let reply = match kind(&mut fields)? {
            1 => {
                let (leader, term) = (replica(fields.u64()?)?, take_term(&mut fields)?);
                OperatorReply::Moved { leader, term, gap: Nanos(fields.u64()?) }
            }
            2 => {
                let why = fields.u64()?;
                let known = Stay::ALL.into_iter().find(|known| *known as u64 == why);
                OperatorReply::Stays(known.ok_or(Bad("unknown reason to stay"))?)
            }
            3 => {
                let leader = fields.u64()?;
                OperatorReply::Elsewhere {
                    leader: if leader == NOBODY { None } else { Some(replica(leader)?) },
                }
            }
            4 => OperatorReply::Unheard,
            5 => {
                let (members, leader) = (Members::take(&mut fields)?, replica(fields.u64()?)?);
                let gap = Some(fields.u64()?).filter(|gap| *gap != UNKNOWN).map(Nanos);
                OperatorReply::Changed { members, leader, gap }
            }
            6 => {
                let why = fields.u64()?;
                let known = Deny::ALL.into_iter().find(|known| *known as u64 == why);
                OperatorReply::Denied(known.ok_or(Bad("unknown reason to deny"))?)
            }
            7 => OperatorReply::Recalls,
            8 => {
                let why = fields.u64()?;
                let known = NoRecall::ALL.into_iter().find(|known| *known as u64 == why);
                OperatorReply::Rests(known.ok_or(Bad("unknown reason to rest"))?)
            }
            _ => return Err(Bad("unknown reply to an operator")),
        };
        fields.end()?;
        Ok(reply)
    }
}
