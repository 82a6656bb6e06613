//! Orders to the groups under torture, given as an operator would give them, each from a thread of its own.
//! An order must come about whatever strikes meanwhile.

use std::thread::JoinHandle;
use std::time::Duration;

use longarm::cluster::NodeId;
use longarm::operator::{operator, patience};
use longarm::output::{Exit, Failure};
use longarm_base::{Nanos, ReplicaId};
use longarm_fabric::Any;
use longarm_host::{now, sleep};
use longarm_server::{Deny, Member, Operator, OrderError, Stay};

use super::{LOOK, Torture};

/// The time between two tries.
const RETRY: Duration = Duration::from_millis(20);
/// The number of elections that an order may take.
const ELECTIONS: u64 = 4;

/// An order to a group.
#[derive(Clone, Debug)]
pub enum Order {
    /// This replica is to lead.
    Move(ReplicaId),
    /// This replica is to be one of the group.
    Add(Member),
    /// This replica is to be none any more.
    Remove(ReplicaId),
}

/// An order that is under way. At its end it says whether the order came about, or why not.
pub struct Given(JoinHandle<Result<(), String>>);

/// Gives an order once. It counts as done if it had come about already.
fn done(order: &Order, operator: &Operator<Any>, patience: Duration) -> Result<(), OrderError> {
    let came = match order {
        Order::Move(to) => operator.move_leader(*to, patience).and_then(|moved| match moved.leader {
            leader if leader == *to => Ok(()),
            leader => Err(OrderError::Stays(leader, Stay::Behind)),
        }),
        Order::Add(member) => operator.add(member, patience).map(|_| ()),
        Order::Remove(replica) => operator.remove(*replica, patience).map(|_| ()),
    };
    match (order, came) {
        (Order::Move(_), Err(OrderError::Stays(_, Stay::Leads)))
        | (Order::Add(_), Err(OrderError::Denied(_, Deny::Member)))
        | (Order::Remove(_), Err(OrderError::Denied(_, Deny::Stranger))) => Ok(()),
        (_, came) => came,
    }
}

impl Torture {
    /// Gives an order to a group, again and again until it comes about or `time` is over; at least once.
    pub(super) fn order(&self, group: usize, order: Order, time: Nanos) -> Result<Given, Failure> {
        let cluster = self.replicas.cluster();
        let operator = operator(cluster, group, &self.config)?;
        let patience = patience(cluster, ELECTIONS, &self.config);
        let (journal, until) = (self.replicas.journal().clone(), now() + time);
        let body = move || loop {
            match done(&order, &operator, patience) {
                Ok(()) => return Ok(()),
                Err(error) => journal.note("order", &format!("{order:?}: {error}")),
            }
            if now() >= until {
                return Err(format!("{order:?} did not come about: see the log for what was said"));
            }
            sleep(RETRY);
        };
        let thread = std::thread::Builder::new().name("order".into()).spawn(body);
        thread
            .map(Given)
            .map_err(|error| Failure::new(Exit::System, format!("cannot start a thread: {error}")))
    }

    /// Waits for the outcome of an order, and starts processes again that ended. The thread has a bound of
    /// its own.
    pub(super) fn await_order(&mut self, Given(thread): Given) -> Result<Result<(), String>, Failure> {
        while !thread.is_finished() {
            self.pass(Nanos(LOOK.as_nanos() as u64))?;
            if self.is_unwanted() {
                return Err(Failure::new(Exit::System, "interrupted; the replicas are stopped"));
            }
            sleep(LOOK);
        }
        thread
            .join()
            .map_err(|_| Failure::new(Exit::Corrupt, "an order ended by a broken invariant (see above)"))
    }

    /// Starts a new node, and orders the group to add it.
    pub(super) fn add(&mut self) -> Result<(NodeId, Given), Failure> {
        let node = NodeId(self.next_node);
        self.next_node += 1;
        let place = self.options.over.place(&self.replicas.cluster().nodes)?;
        let address = self.replicas.add(node, place)?.address;
        let member = Member { replica: self.replica(0, node), address };
        self.replicas.journal().note("fault", &format!("node {node} is to be added"));
        self.start(node)?;
        Ok((node, self.order(0, Order::Add(member), self.bounds.sync)?))
    }

    /// Waits until the group has added the node.
    pub(super) fn added(&mut self, node: NodeId, given: Given) -> Result<(), Failure> {
        self.await_order(given)?.map_err(|text| Failure::new(Exit::Corrupt, text))?;
        self.replicas.journal().note("fault", &format!("node {node} is added"));
        self.way.map.revise(longarm_client::Topology::from(self.replicas.cluster()));
        Ok(())
    }

    /// Orders the group to remove a node, whose process then ends.
    pub(super) fn remove(&mut self, node: NodeId) -> Result<(), Failure> {
        let given = self.order(0, Order::Remove(self.replica(0, node)), self.bounds.sync)?;
        self.await_order(given)?.map_err(|text| Failure::new(Exit::Corrupt, text))?;
        self.replicas.journal().note("fault", &format!("node {node} is removed"));
        self.replicas.remove(node)?;
        self.down.remove(&node);
        self.told.remove(&node);
        self.lost.remove(&node);
        self.way.map.revise(longarm_client::Topology::from(self.replicas.cluster()));
        Ok(())
    }

    /// The replica of a group that a node has.
    pub(super) fn replica(&self, group: usize, node: NodeId) -> ReplicaId {
        self.replicas.cluster().groups[group].on(node).expect("each node has a replica of each group")
    }
}
