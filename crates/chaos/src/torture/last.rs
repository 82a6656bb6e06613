//! The last look reads every key at every replica while that replica leads. Each acknowledged write must be
//! there, whichever replica leads. What a follower lacks shows at no other time.

use longarm::cluster::NodeId;
use longarm::connect;
use longarm::output::{Exit, Failure};
use longarm_base::Nanos;
use longarm_host::now;

use super::Torture;
use super::orders::Order;
use crate::client::{Way, look_at_all};
use crate::looks::{LOOKER, Looks};

impl Torture {
    /// Looks at each replica, the one that leads now first. No other client does anything meanwhile.
    pub(super) fn look_everywhere(&mut self) -> Result<Looks, Failure> {
        let options = connect::options(&self.config(), "longarm-chaos: last look")?;
        let way = Way { options, ..self.way.clone() };
        let (leader, _) = self.recover(now())?[0].leader.clone().expect("recovered");
        let mut nodes: Vec<NodeId> = self.replicas.cluster().nodes.iter().map(|one| one.node).collect();
        nodes.sort_by_key(|node| (*node != leader, *node));
        let (mut looks, rounds) = (Looks::default(), self.stage.round() + 1);
        for node in nodes {
            self.have_lead(node)?;
            self.replicas.journal().note("fault", &format!("none: all is read while node {node} leads"));
            let (left, counts) =
                look_at_all(&way, &self.stage, LOOKER + node.0, 0..rounds).map_err(|error| {
                    let text = format!("nothing strikes, node {node} leads, and yet: {error}");
                    Failure::new(Exit::Corrupt, text)
                })?;
            looks.at.push(node);
            looks.left.extend(left);
            looks.counts.extend(counts);
        }
        Ok(looks)
    }

    /// Has a node lead all groups.
    fn have_lead(&mut self, node: NodeId) -> Result<(), Failure> {
        let until = now() + self.bounds.sync;
        loop {
            let standings = self.recover(now())?;
            let leads = |at: usize| standings[at].leader.as_ref().is_some_and(|(leader, _)| *leader == node);
            let Some(group) = (0..standings.len()).find(|at| !leads(*at)) else { return Ok(()) };
            let given = self.order(group, Order::Move(self.replica(group, node)), Nanos(0))?;
            // Whether the node leads is seen when all is in sync again.
            let _ = self.await_order(given)?;
            if now() >= until {
                let text = format!("node {node} does not lead, though it is in sync and nothing strikes");
                return Err(Failure::new(Exit::Corrupt, text));
            }
        }
    }
}
