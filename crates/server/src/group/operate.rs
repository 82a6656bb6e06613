//! The operator's side of orders to a group: finds the leader, asks it, and waits for what it says.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Nanos, NodeId, Term};
use longarm_fabric::{Login, Transport};
use longarm_host::{now, sleep};
use longarm_wire::{Order, Purpose, Reply, Stay};

use super::options::Member;
use super::talk::{Mute, Way};

/// Between two rounds of questions while nobody leads.
const ROUND: Duration = Duration::from_millis(20);

/// Whoever may give orders to a group: who can log in at its nodes, and knows its name, which is secret.
pub struct Operator<T> {
    /// How to reach nodes.
    pub transport: Arc<T>,
    /// The group's name.
    pub group: u64,
    /// Its nodes.
    pub members: Vec<Member>,
    /// Proof of identity.
    pub login: Login,
    /// Bound on making a connection.
    pub connect: Duration,
}

/// Another node leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Which; not the one that was to, if that failed and others elected another.
    pub leader: NodeId,
    /// Its term.
    pub term: Term,
    /// From when no new write was taken until it served.
    pub gap: Duration,
}

/// Why an order did not do its work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OrderError {
    /// Nothing has changed: this node leads on.
    #[error("{}", reason(*.0, *.1))]
    Stays(NodeId, Stay),
    /// Nobody leads, as far as could be found out; what each node said.
    #[error("no node leads: {0}")]
    Leaderless(String),
    /// The leader took the order, and what came of it is not known.
    #[error("node {0} took the order, and what came of it is not known: {1}")]
    InDoubt(NodeId, String),
}

fn reason(leader: NodeId, why: Stay) -> String {
    match why {
        Stay::Leads => format!("node {leader} leads already"),
        Stay::Stranger => format!("the leader, node {leader}, knows of no such node in its group"),
        Stay::Behind => format!("node {leader} leads on: that node is not in sync"),
        Stay::Busy => format!("node {leader} is handing over already, on another order"),
        Stay::Late => format!("node {leader} leads on: not all that was under way came to its end in time"),
    }
}

impl<T: Transport> Operator<T> {
    /// Has the leader, whoever it is, hand over to that node. Waits at most about `patience`.
    pub fn move_leader(&self, to: NodeId, patience: Duration) -> Result<Moved, OrderError> {
        let until = now() + Nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX >> 1));
        let mut said = String::new();
        loop {
            let mut hint = None;
            for member in &self.members {
                // Whoever was named first: then those in order, it among them.
                for node in hint.take().into_iter().chain([member.node]) {
                    match self.order(node, Order::MoveLeader { to }, until)? {
                        Ok(Reply::Moved { leader, term, gap }) => {
                            return Ok(Moved { leader, term, gap: Duration::from_nanos(gap.0) });
                        }
                        Ok(Reply::Stays(why)) => return Err(OrderError::Stays(node, why)),
                        Ok(Reply::Elsewhere { leader }) => {
                            hint = leader.filter(|leader| *leader != node);
                            note(&mut said, node, "it does not lead");
                        }
                        Ok(Reply::Unheard) => {
                            let text = "it gave up leading, and did not hear of another leader".into();
                            return Err(OrderError::InDoubt(node, text));
                        }
                        Err(mute) => note(&mut said, node, &mute),
                    }
                }
            }
            if now() >= until {
                return Err(OrderError::Leaderless(said));
            }
            said.clear();
            sleep(ROUND);
        }
    }

    /// Asks one node. What comes to nothing before it was asked is an `Ok(Err(_))`.
    fn order(&self, node: NodeId, order: Order, until: Nanos) -> Result<Result<Reply, String>, OrderError> {
        let Some(member) = self.members.iter().find(|member| member.node == node) else {
            return Ok(Err("it is not of the group".into()));
        };
        let way = Way {
            transport: self.transport.clone(),
            group: self.group,
            me: node,
            address: member.address.clone(),
            login: self.login.clone(),
            timeout: self.connect,
        };
        let mut talk = match way.talk_for(Purpose::Operate) {
            Ok(talk) => talk,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if let Err(mute) = talk.say(&order.encode()) {
            return Ok(Err(mute.to_string()));
        }
        let in_doubt = |mute: Mute| OrderError::InDoubt(node, mute.to_string());
        loop {
            if let Some(reply) = talk.take(Reply::decode).map_err(in_doubt)?.into_iter().next() {
                return Ok(Ok(reply));
            }
            if now() >= until {
                return Err(in_doubt(Mute::Late));
            }
            talk.wait(Duration::from_millis(1));
        }
    }
}

fn note(said: &mut String, node: NodeId, what: &str) {
    let comma = if said.is_empty() { "" } else { "; " };
    said.push_str(&format!("{comma}node {node}: {what}"));
}
