//! The operator's side of orders to a group: it finds the leader, gives it the order, and waits for the
//! reply.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_fabric::{Login, Member, SetupError, Transport};
use longarm_host::{now, sleep};
use longarm_wire::{Deny, MEMBERS_MAX, MemberAt, NoRecall, OperatorReply, Order, Purpose, Stay};

use crate::peer_channel::{PeerAddress, PeerError};

/// The time between two rounds of questions while no replica leads.
const ROUND: Duration = Duration::from_millis(20);

/// An operator of a group: it knows the group's number, and can prove to the replicas what they prove to each
/// other.
pub struct Operator<T> {
    /// The transport by which the replicas are reached.
    pub transport: Arc<T>,
    /// The number of the group.
    pub group: u64,
    /// The replicas of the group.
    pub members: Vec<Member>,
    /// What replicas prove to each other: [`Login::Peer`], or what clients prove, where replicas have no
    /// secret of their own.
    pub login: Login,
    /// The bound on making a connection.
    pub connect: Duration,
}

/// What came of an order to move the leader: another replica leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The replica that leads. It is not the one that was to lead if that failed, and the replicas elected
    /// another.
    pub leader: ReplicaId,
    /// The term of that leader.
    pub term: Term,
    /// The time from when the older leader took no new write until this one served.
    pub gap: Duration,
}

/// What came of an order to change the members: the group has other replicas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// The replicas that the group has now.
    pub members: Vec<MemberAt>,
    /// The replica that leads, or is about to.
    pub leader: ReplicaId,
    /// The time from when the older leader took no new write until this one served. A leader that was removed
    /// does not know it.
    pub gap: Option<Duration>,
}

/// Why an order did not do its work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OrderError {
    /// Nothing has changed, and this replica leads on.
    #[error("{}", reason(*.0, *.1))]
    Stays(ReplicaId, Stay),
    /// Nothing has changed: this replica, which leads, leaves the replicas as they are.
    #[error("{}", denied(*.0, *.1))]
    Denied(ReplicaId, Deny),
    /// This replica does not stand with what is on its disk.
    #[error("replica {0} does not stand: {reason}", reason = rests(*.1))]
    Rests(ReplicaId, NoRecall),
    /// No replica takes orders from this operator; the text is what each replica said.
    #[error("no replica takes orders from here: {0}")]
    Refused(String),
    /// No leader was found; the text is what each replica said.
    #[error("no replica leads: {0}")]
    Leaderless(String),
    /// This replica, which led, took the order, and what came of it is not known.
    #[error("replica {0} took the order, and what came of it is not known: {1}")]
    InDoubt(ReplicaId, String),
}

fn reason(leader: ReplicaId, why: Stay) -> String {
    match why {
        Stay::Leads => format!("replica {leader} leads already"),
        Stay::Stranger => format!("the leader, replica {leader}, knows of no such replica in its group"),
        Stay::Behind => format!("replica {leader} leads on: that replica is not in sync"),
        Stay::Busy => format!("replica {leader} is handing over already, on another order"),
        Stay::Late => {
            format!("replica {leader} leads on: not all that was under way came to its end in time")
        }
    }
}

fn denied(leader: ReplicaId, why: Deny) -> String {
    match why {
        Deny::Busy => format!("the leader, replica {leader}, hands over or sees to another change"),
        Deny::Member => "that replica is of the group already".into(),
        Deny::Stranger => "that replica is not of the group".into(),
        Deny::Last => "it is the only replica of the group".into(),
        Deny::Full => format!("the group has {MEMBERS_MAX} replicas, which is all that it may have"),
        Deny::Behind => "no majority of those that would be left is in sync".into(),
        Deny::Nowhere => format!("the leader, replica {leader}, does not understand that replica's address"),
        Deny::Late => "that replica was not in sync in time, or too few of the others answered".into(),
    }
}

fn rests(why: NoRecall) -> &'static str {
    match why {
        NoRecall::Led => "it hears a leader, or did so a moment ago",
        NoRecall::Needless => {
            "its group does not acknowledge from memory and keep its data on disks behind that"
        }
        NoRecall::Blank => "its disk says of no promise, and it has not heard from all others",
        NoRecall::Busy => "an election is under way, or it is no replica of the group",
    }
}

impl<T: Transport> Operator<T> {
    /// Has this replica stand with what is on disk, or the one that has most there, though others are
    /// missing, with all that only they have.
    pub fn recall(&self, replica: ReplicaId, patience: Duration) -> Result<(), OrderError> {
        let until = now() + Nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX >> 1));
        match self.order(replica, &Order::Recall, until)? {
            Ok(OperatorReply::Recalls) => Ok(()),
            Ok(OperatorReply::Rests(why)) => Err(OrderError::Rests(replica, why)),
            Ok(other) => Err(astray(replica, &other)),
            Err(error) => Err(OrderError::Leaderless(error.to_string())),
        }
    }

    /// Has the group take one more replica, which runs and waits to be added.
    pub fn add(&self, member: &Member, patience: Duration) -> Result<Changed, OrderError> {
        let member = MemberAt { replica: member.replica, address: member.address.to_string() };
        self.change(&Order::Add { member }, patience)
    }

    /// Has the group do without a replica. If that replica leads, another will.
    pub fn remove(&self, replica: ReplicaId, patience: Duration) -> Result<Changed, OrderError> {
        self.change(&Order::Remove { replica }, patience)
    }

    fn change(&self, order: &Order, patience: Duration) -> Result<Changed, OrderError> {
        match self.command(order, patience)? {
            (_, OperatorReply::Changed { members, leader, gap }) => {
                let gap = gap.map(|gap| Duration::from_nanos(gap.0));
                Ok(Changed { members: members.list, leader, gap })
            }
            (replica, OperatorReply::Denied(why)) => Err(OrderError::Denied(replica, why)),
            (replica, other) => Err(astray(replica, &other)),
        }
    }

    /// Has the leader hand over to that replica. Waits at most about `patience`.
    pub fn move_leader(&self, to: ReplicaId, patience: Duration) -> Result<Moved, OrderError> {
        match self.command(&Order::MoveLeader { to }, patience)? {
            (_, OperatorReply::Moved { leader, term, gap }) => {
                Ok(Moved { leader, term, gap: Duration::from_nanos(gap.0) })
            }
            (replica, OperatorReply::Stays(why)) => Err(OrderError::Stays(replica, why)),
            (replica, other) => Err(astray(replica, &other)),
        }
    }

    /// Finds the leader and gives it the order. Returns which replica that was, and its reply.
    fn command(&self, order: &Order, patience: Duration) -> Result<(ReplicaId, OperatorReply), OrderError> {
        let until = now() + Nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX >> 1));
        let mut said = String::new();
        loop {
            let (mut hint, mut refused) = (None, 0);
            for member in &self.members {
                // A replica that another one named as the leader comes first, then all replicas in order, it
                // included.
                for replica in hint.take().into_iter().chain([member.replica]) {
                    match self.order(replica, order, until)? {
                        Ok(OperatorReply::Elsewhere { leader }) => {
                            hint = leader.filter(|leader| *leader != replica);
                            note(&mut said, replica, "it does not lead");
                        }
                        Ok(OperatorReply::Unheard) => {
                            let text = "it gave up leading, and did not hear of another leader".into();
                            return Err(OrderError::InDoubt(replica, text));
                        }
                        Ok(reply) => return Ok((replica, reply)),
                        Err(error) => {
                            let refuses = |error: &SetupError| {
                                matches!(error, SetupError::Login(_) | SetupError::Refused(_))
                            };
                            refused +=
                                usize::from(matches!(&error, PeerError::Setup(error) if refuses(error)));
                            note(&mut said, replica, &error.to_string());
                        }
                    }
                }
            }
            if refused == self.members.len() {
                return Err(OrderError::Refused(said));
            }
            if now() >= until {
                return Err(OrderError::Leaderless(said));
            }
            said.clear();
            sleep(ROUND);
        }
    }

    /// Gives the order to one replica. A failure before the replica had the order is an `Ok(Err(_))`.
    fn order(
        &self,
        replica: ReplicaId,
        order: &Order,
        until: Nanos,
    ) -> Result<Result<OperatorReply, PeerError>, OrderError> {
        let Some(member) = self.members.iter().find(|member| member.replica == replica) else {
            return Ok(Err(PeerError::Broken("it is not of the group".into())));
        };
        let address = PeerAddress {
            transport: self.transport.clone(),
            group: self.group,
            me: replica,
            address: member.address.clone(),
            login: self.login.clone(),
            own: Default::default(),
            timeout: self.connect,
        };
        let mut channel = match address.channel_for(Purpose::Operate) {
            Ok(channel) => channel,
            Err(error) => return Ok(Err(error.into())),
        };
        if let Err(error) = channel.say(&order.encode()) {
            return Ok(Err(error));
        }
        let in_doubt = |error: PeerError| OrderError::InDoubt(replica, error.to_string());
        loop {
            if let Some(reply) = channel.take(OperatorReply::decode).map_err(in_doubt)?.into_iter().next() {
                return Ok(Ok(reply));
            }
            if now() >= until {
                return Err(in_doubt(PeerError::Late));
            }
            channel.wait(Duration::from_millis(1));
        }
    }
}

/// The error for a reply that does not belong to the order.
fn astray(replica: ReplicaId, reply: &OperatorReply) -> OrderError {
    OrderError::InDoubt(replica, format!("it answers something else: {reply:?}"))
}

fn note(said: &mut String, replica: ReplicaId, what: &str) {
    let comma = if said.is_empty() { "" } else { "; " };
    said.push_str(&format!("{comma}replica {replica}: {what}"));
}
