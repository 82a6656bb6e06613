//! An operator, who orders leaders to hand over and replicas to change. The operator gives one order at a
//! time, and repeats a change until its outcome is known.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Nanos, ReplicaId};
use longarm_fabric::Login;
use longarm_fabric::sim::Sim;
use longarm_server::{Changed, Deny, Member, Moved, OrderError, Stay};

/// The bound on connecting, and on waiting for the outcome of an order.
const CONNECT: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_millis(1_000);

/// The most changes in one run. Each term begins segments of its own, and segments of older terms are not
/// freed before the quarantine is over, which is longer than most runs.
const CHANGES_MAX: usize = 8;

/// An order to the first group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// This node is to lead, whichever node leads now.
    Lead(u32),
    /// This node is to be a replica.
    Add(u32),
    /// This node is to be no replica any more.
    Remove(u32),
}

/// The orders of a run, and their outcomes.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Whether an order is under way, or the operator rests after one.
    open: bool,
    /// The number of changes that were ordered.
    changes: usize,
    /// A change of which the operator does not know whether it was made.
    pub unsure: Option<Order>,
    /// The replicas, as the operator was told last.
    pub told: Option<BTreeSet<u32>>,
    /// How long writes waited during each order that was carried out.
    pub gaps: Vec<Nanos>,
    /// The first order that failed in a run in which nothing else fails.
    pub wrong: Option<String>,
}

/// The operator's tools.
pub(crate) type Tools = longarm_server::Operator<Sim>;

/// The login of replicas and operators, which clients do not have.
pub(crate) fn peers() -> Login {
    Login::Peer(Arc::from(&b"of replicas"[..]))
}

/// Everything that the operator needs but the order.
pub(crate) fn tools(sim: &Sim, group: u64, members: Vec<Member>) -> Tools {
    Tools { transport: sim.clone().into(), group, members, login: peers(), connect: CONNECT }
}

impl Orders {
    /// Whether the operator waits for the outcome of an order, or rests after one.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the operator may give this order now.
    pub fn may_give(&self, order: Order) -> bool {
        !self.is_open() && (self.changes < CHANGES_MAX || !order.changes())
    }

    /// The node of an addition whose outcome is unknown: it may be a replica by now.
    pub fn may_be_added(&self) -> Option<u32> {
        match self.unsure {
            Some(Order::Add(node)) => Some(node),
            _ => None,
        }
    }

    /// The task that gives an order and then rests. `calm` says that nothing else fails in the run.
    pub fn give(
        orders: &Rc<RefCell<Orders>>,
        order: Order,
        tools: Tools,
        rest: Nanos,
        calm: bool,
    ) -> impl FnOnce() + 'static {
        let orders = orders.clone();
        let again = {
            let mut orders = orders.borrow_mut();
            orders.open = true;
            orders.changes += usize::from(order.changes());
            order.changes() && orders.unsure.replace(order).is_some()
        };
        move || {
            let wrong = match order {
                Order::Lead(to) => {
                    let moved = tools.move_leader(ReplicaId(to as u8), PATIENCE);
                    orders.borrow_mut().moved(to, &moved, calm)
                }
                Order::Add(node) => {
                    let member = tools.members.iter().find(|member| u32::from(member.replica.0) == node);
                    let changed = tools.add(member.expect("a node of the world"), PATIENCE);
                    orders.borrow_mut().changed(again, &changed, calm)
                }
                Order::Remove(node) => {
                    let changed = tools.remove(ReplicaId(node as u8), PATIENCE);
                    orders.borrow_mut().changed(again, &changed, calm)
                }
            };
            longarm_host::sleep(Duration::from_nanos(rest.0));
            let mut orders = orders.borrow_mut();
            orders.open = false;
            if let Some(what) = wrong {
                orders.wrong.get_or_insert(format!("{order:?}: {what}"));
            }
        }
    }

    fn moved(&mut self, to: u32, moved: &Result<Moved, OrderError>, calm: bool) -> Option<String> {
        match moved {
            Ok(moved) if u32::from(moved.leader.0) == to || !calm => {
                self.gaps.push(nanos(moved.gap));
                None
            }
            // The node may not have been synced yet, or be no replica.
            Err(OrderError::Stays(_, Stay::Leads | Stay::Behind | Stay::Stranger)) => None,
            other => calm.then(|| format!("{other:?}")),
        }
    }

    /// Notes the outcome of a change. `again` says that the outcome of the same order before is unknown.
    fn changed(&mut self, again: bool, changed: &Result<Changed, OrderError>, calm: bool) -> Option<String> {
        match changed {
            Ok(changed) => {
                self.unsure = None;
                self.told = Some(changed.members.iter().map(|member| u32::from(member.replica.0)).collect());
                self.gaps.extend(changed.gap.map(nanos));
                None
            }
            // The change was made already.
            Err(OrderError::Denied(_, Deny::Member | Deny::Stranger)) if again => {
                (self.unsure, self.told) = (None, None);
                None
            }
            // Not all replicas were in sync.
            Err(OrderError::Denied(_, Deny::Behind)) if !again => {
                self.unsure = None;
                None
            }
            Err(OrderError::Denied(..) | OrderError::Leaderless(_)) if !again => {
                self.unsure = None;
                calm.then(|| format!("{changed:?}"))
            }
            _ => calm.then(|| format!("{changed:?}")),
        }
    }
}

impl Order {
    fn changes(self) -> bool {
        !matches!(self, Order::Lead(_))
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as u64)
}
