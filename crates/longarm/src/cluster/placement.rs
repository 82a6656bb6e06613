//! Places the groups of a new cluster on its nodes: spreads replicas evenly, and leaders too.

use super::NodeId;

/// Chooses the nodes of each of `groups` groups; the first node of a group is to lead it first. Every node
/// gets as many replicas as any other node, or one more. The same holds for the groups that a node leads.
///
/// # Panics
/// If there are fewer nodes than a group has replicas.
pub fn spread(nodes: &[NodeId], groups: usize, replicas: usize) -> Vec<Vec<NodeId>> {
    assert!(replicas <= nodes.len(), "{replicas} replicas on {} nodes", nodes.len());
    let (mut has, mut leads) = (vec![0usize; nodes.len()], vec![0usize; nodes.len()]);
    // Each group takes the nodes with the fewest replicas. Of these the node that leads the fewest groups
    // leads it.
    let place = |_| {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|&node| (has[node], leads[node]));
        order.truncate(replicas);
        order.sort_by_key(|&node| (leads[node], has[node]));
        leads[order[0]] += 1;
        order.iter().for_each(|&node| has[node] += 1);
        order
    };
    let mut placed: Vec<Vec<usize>> = (0..groups).map(place).collect();
    while hand_on(&mut placed, &mut leads) {}
    placed.into_iter().map(|group| group.into_iter().map(|node| nodes[node]).collect()).collect()
}

/// Takes a group from a node that leads at least two groups more than another node, which then leads one
/// more. Nodes between the two may each take a group over and hand one on. Such a chain exists as long as
/// leaders are not spread evenly: if the replicas of each group led it in equal shares, no node would lead
/// more than another. Where an even flow of shares exists, an even flow of whole groups exists, too. Returns
/// whether it took a group.
fn hand_on(placed: &mut [Vec<usize>], leads: &mut [usize]) -> bool {
    for from in 0..leads.len() {
        // By node: the group that it takes over. The node before it in the chain leads that group.
        let mut by: Vec<Option<usize>> = vec![None; leads.len()];
        let mut reached = vec![from];
        while let Some(node) = reached.pop() {
            for (group, replicas) in placed.iter().enumerate().filter(|(_, group)| group[0] == node) {
                for &next in replicas[1..].iter().filter(|&&next| next != from) {
                    if by[next].is_none() {
                        by[next] = Some(group);
                        reached.push(next);
                    }
                }
            }
        }
        let fewer = |&to: &usize| by[to].is_some() && leads[from] >= leads[to] + 2;
        let Some(to) = (0..leads.len()).find(fewer) else { continue };
        leads[from] -= 1;
        leads[to] += 1;
        let mut at = to;
        while at != from {
            let group = &mut placed[by[at].expect("it was reached")];
            let before = group[0];
            let place = group.iter().position(|&node| node == at).expect("it has a replica");
            group.swap(0, place);
            at = before;
        }
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_and_leaders_are_spread_evenly() {
        for count in 1..=12u32 {
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
