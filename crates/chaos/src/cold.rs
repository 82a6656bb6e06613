//! When all nodes were killed at one time, and what was seen afterwards.

use std::collections::BTreeSet;

use longarm::cluster::NodeId;
use longarm_base::Nanos;
use longarm_history::Operation;
use longarm_history::counters::Count;

use crate::client::Notes;

/// What is known of the times at which all were killed.
#[derive(Default)]
pub struct Cold {
    /// The nodes that are to end.
    ending: BTreeSet<NodeId>,
    /// The nodes that are to be started again.
    away: BTreeSet<NodeId>,
    /// When the last of them had ended.
    ended: Nanos,
    /// The moment of each loss.
    losses: Vec<Nanos>,
    left: Vec<Operation>,
    counts: Vec<Count>,
}

impl Cold {
    /// All these nodes are about to be killed.
    pub fn expect(&mut self, nodes: impl Iterator<Item = NodeId>) {
        self.ending = nodes.collect();
        self.away = self.ending.clone();
    }

    /// A node ended. Whether that was to be.
    pub fn ended(&mut self, node: NodeId, now: Nanos) -> bool {
        self.ended = now;
        self.ending.remove(&node)
    }

    /// A node is about to be started again. Before the last of them is, nobody can lead, because all report
    /// what is on their disks; nor does anybody as long as a lease of before may hold, under which clients
    /// may read what the memory of a process had over shm. So the loss is then.
    pub fn back(&mut self, node: NodeId, now: Nanos, lease: Nanos) {
        if self.away.remove(&node) && self.away.is_empty() {
            self.losses.push(now.max(self.ended + lease));
        }
    }

    /// Keeps what was seen after a loss.
    pub fn saw(&mut self, left: Vec<Operation>, counts: Vec<Count>) {
        self.left.extend(left);
        self.counts.extend(counts);
    }

    /// Adds what was seen after each loss to what clients noted.
    pub fn give(&mut self, notes: &mut Notes) {
        self.left.drain(..).for_each(|operation| notes.history.push(operation));
        notes.counts.append(&mut self.counts);
    }

    /// The moment of each loss.
    pub fn losses(&self) -> &[Nanos] {
        &self.losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_when_the_last_is_started_again_and_no_lease_holds() {
        let (mut cold, lease) = (Cold::default(), Nanos(40));
        let all = [1, 2, 3].map(NodeId);
        assert!(!cold.ended(all[0], Nanos(5)), "it was struck alone");
        cold.back(all[0], Nanos(9), lease);
        for (died, backs) in [(102, [110, 120, 500]), (602, [610, 611, 612])] {
            cold.expect(all.into_iter());
            all.iter().for_each(|node| assert!(cold.ended(*node, Nanos(died))));
            all.iter().zip(backs).for_each(|(node, back)| cold.back(*node, Nanos(back), lease));
        }
        assert_eq!(cold.losses(), [Nanos(500), Nanos(642)]);
        assert!(!cold.ended(all[0], Nanos(700)), "a second time in the same loss");
    }
}
