//! An operator, who has leaders hand over and replicas change: one order at a time, and the same again until
//! it is known what came of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Nanos, NodeId};
use longarm_fabric::Login;
use longarm_fabric::sim::Sim;
use longarm_server::{Changed, Deny, Member, Moved, OrderError, Stay};

/// Bound on a connection of the operator, and on its patience.
const CONNECT: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_millis(1_000);

/// Changes in one run: each term begins segments of its own, and those of older ones are not freed before the
/// quarantine is over, which is longer than most runs.
const CHANGES_MAX: usize = 8;

/// An order to the first group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// That node is to lead, whichever leads now.
    Lead(u32),
    /// It is to be a replica.
    Add(u32),
    /// It is to be none.
    Remove(u32),
}

/// What became of orders.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// One is under way, or was not long ago.
    open: bool,
    /// Changes that were ordered.
    changes: usize,
    /// A change of which it is not known whether it was made.
    pub unsure: Option<Order>,
    /// Who the replicas are, as the operator was told last.
    pub told: Option<BTreeSet<u32>>,
    /// How long writes waited, of those that were carried out.
    pub gaps: Vec<Nanos>,
    /// One that failed where nothing else fails.
    pub wrong: Option<String>,
}

/// The operator's tools.
pub(crate) type Tools = longarm_server::Operator<Sim>;

/// What replicas and operators have, and clients have not.
pub(crate) fn peers() -> Login {
    Login::Peer(Arc::from(&b"of replicas"[..]))
}

/// Everything that he needs but the order.
pub(crate) fn tools(sim: &Sim, group: u64, members: Vec<Member>) -> Tools {
    Tools { transport: sim.clone().into(), group, members, login: peers(), connect: CONNECT }
}

impl Orders {
    /// Whether he waits for what comes of an order, or rests after it.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether he gives this one.
    pub fn may_give(&self, order: Order) -> bool {
        !self.is_open() && (self.changes < CHANGES_MAX || !order.changes())
    }

    /// The nodes that he wants to be replicas, and that may be by now.
    pub fn may_be_added(&self) -> Option<u32> {
        match self.unsure {
            Some(Order::Add(node)) => Some(node),
            _ => None,
        }
    }

    /// What he does about an order; then he does nothing for a while. `calm`: nothing else fails.
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
                    let moved = tools.move_leader(NodeId(to as u8), PATIENCE);
                    orders.borrow_mut().moved(to, &moved, calm)
                }
                Order::Add(node) => {
                    let member = tools.members.iter().find(|member| u32::from(member.node.0) == node);
                    let changed = tools.add(member.expect("a node of the world"), PATIENCE);
                    orders.borrow_mut().changed(again, &changed, calm)
                }
                Order::Remove(node) => {
                    let changed = tools.remove(NodeId(node as u8), PATIENCE);
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
            // It may not have been synced yet, or is no replica.
            Err(OrderError::Stays(_, Stay::Leads | Stay::Behind | Stay::Stranger)) => None,
            other => calm.then(|| format!("{other:?}")),
        }
    }

    /// `again`: of the same order before it is not known what came of it.
    fn changed(&mut self, again: bool, changed: &Result<Changed, OrderError>, calm: bool) -> Option<String> {
        match changed {
            Ok(changed) => {
                self.unsure = None;
                self.told = Some(changed.members.iter().map(|member| u32::from(member.node.0)).collect());
                self.gaps.extend(changed.gap.map(nanos));
                None
            }
            // It is so already.
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
