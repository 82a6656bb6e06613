//! Which nodes have the replicas of which group, when a cluster is made: spread evenly, and so is who leads.

use longarm_base::NodeId;

/// Replicas of each of `groups` groups, whoever is to lead it first. Every node has as many as any other, or
/// one more; and so with those that it leads.
///
/// Each group takes the nodes that have the fewest, and is led by the one of them that leads the fewest; of
/// equals the first.
///
/// # Panics
/// If there are fewer nodes than a group has replicas.
pub fn spread(nodes: &[NodeId], groups: usize, replicas: usize) -> Vec<Vec<NodeId>> {
    assert!(replicas <= nodes.len(), "{replicas} replicas on {} nodes", nodes.len());
    let mut has = vec![0usize; nodes.len()];
    let mut leads = vec![0usize; nodes.len()];
    let place = |_| {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|&node| (has[node], leads[node]));
        order.truncate(replicas);
        order.sort_by_key(|&node| (leads[node], has[node]));
        leads[order[0]] += 1;
        order.iter().for_each(|&node| has[node] += 1);
        order.into_iter().map(|node| nodes[node]).collect()
    };
    (0..groups).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_and_leaders_are_spread_evenly() {
        for count in 1..=12u8 {
            let nodes: Vec<_> = (0..count).map(|node| NodeId(3 * node + 1)).collect();
            for replicas in 1..=nodes.len().min(9) {
                for groups in 1..=64 {
                    let placed = spread(&nodes, groups, replicas);
                    let tally = |wanted: &dyn Fn(&[NodeId], NodeId) -> bool| {
                        let of = |node| placed.iter().filter(|group| wanted(group, node)).count();
                        let counts: Vec<_> = nodes.iter().map(|&node| of(node)).collect();
                        counts.iter().max().expect("a node") - counts.iter().min().expect("a node")
                    };
                    let what = format!("{groups} groups of {replicas} on {count} nodes: {placed:?}");
                    assert!(tally(&|group, node| group.contains(&node)) <= 1, "{what}");
                    assert!(tally(&|group, node| group[0] == node) <= 1, "{what}");
                    for group in &placed {
                        let mut once = group.clone();
                        once.sort_unstable();
                        once.dedup();
                        assert_eq!(once.len(), replicas, "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn three_groups_on_three_nodes_are_led_by_one_each() {
        let nodes = [1, 2, 3].map(NodeId);
        let placed = spread(&nodes, 3, 3);
        assert_eq!(placed.iter().map(|group| group[0]).collect::<Vec<_>>(), nodes);
    }
}
