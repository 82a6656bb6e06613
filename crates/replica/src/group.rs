//! The configured set of a group. Quorums are over this set, and never over a set that shrinks (L20; the
//! active set of LoLKV 3.5 does).

use longarm_base::NodeId;
use longarm_wire::Members;

/// The most replicas of a group.
pub const REPLICAS_MAX: usize = longarm_wire::MEMBERS_MAX;

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Nodes(u128);

impl Nodes {
    /// The empty set.
    pub const NONE: Nodes = Nodes(0);

    /// The set of only this node.
    pub const fn only(node: NodeId) -> Nodes {
        Nodes(1 << node.0)
    }

    /// Adds a node; `true` if it is new.
    pub fn add(&mut self, node: NodeId) -> bool {
        let before = self.0;
        self.0 |= 1 << node.0;
        self.0 != before
    }

    /// Removes a node.
    pub fn remove(&mut self, node: NodeId) {
        self.0 &= !(1 << node.0);
    }

    /// Whether the node is in the set.
    pub const fn has(self, node: NodeId) -> bool {
        self.0 & 1 << node.0 != 0
    }

    /// The number of nodes.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// All nodes, in order.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..=NodeId::MAX.0).map(NodeId).filter(move |&node| self.has(node))
    }
}

impl FromIterator<NodeId> for Nodes {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Nodes {
        nodes.into_iter().fold(Nodes::NONE, |mut set, node| {
            set.add(node);
            set
        })
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|node| node.0)).finish()
    }
}

/// Why a group is impossible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// It has no replica, or more than are possible.
    Size(usize),
    /// A node is named twice.
    Twice(NodeId),
    /// This node is not one of its replicas.
    Stranger(NodeId),
}

impl std::fmt::Display for GroupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GroupError::Size(size) => {
                write!(f, "a group of {size} replicas: 1 to {REPLICAS_MAX} are possible")
            }
            GroupError::Twice(node) => write!(f, "node {node} is named twice"),
            GroupError::Stranger(node) => write!(f, "node {node} is not one of the group's replicas"),
        }
    }
}

impl std::error::Error for GroupError {}

/// The replicas of a group, as one of them sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    me: NodeId,
    members: Nodes,
}

impl Group {
    /// The group of `members`, as its replica `me` sees it.
    pub fn new(me: NodeId, members: &[NodeId]) -> Result<Group, GroupError> {
        if members.is_empty() || members.len() > REPLICAS_MAX {
            return Err(GroupError::Size(members.len()));
        }
        let mut set = Nodes::NONE;
        for &node in members {
            if !set.add(node) {
                return Err(GroupError::Twice(node));
            }
        }
        if !set.has(me) {
            return Err(GroupError::Stranger(me));
        }
        Ok(Group { me, members: set })
    }

    /// The group of these replicas, as `me` sees it; `me` need not be one of them, if it was removed or is to
    /// be added.
    pub fn of(me: NodeId, members: &Members) -> Group {
        Group { me, members: members.list.iter().map(|member| member.node).collect() }
    }

    /// This node.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// All replicas.
    pub fn members(&self) -> Nodes {
        self.members
    }

    /// All replicas but this one.
    pub fn others(&self) -> impl Iterator<Item = NodeId> {
        let me = self.me;
        self.members.iter().filter(move |&node| node != me)
    }

    /// How many replicas make a majority.
    pub fn majority(&self) -> usize {
        self.members.count() / 2 + 1
    }

    /// Whether these members are a majority.
    pub fn is_majority(&self, nodes: Nodes) -> bool {
        nodes.iter().filter(|&node| self.members.has(node)).count() >= self.majority()
    }

    /// The greatest value that a majority has reached, if this replica has reached `own` and each of the
    /// others a value of `theirs` (any number of them; a replica without a value has reached nothing).
    pub fn reached<T: Ord + Copy + Default>(&self, own: T, theirs: impl Iterator<Item = T>) -> T {
        let mut values = [T::default(); REPLICAS_MAX];
        values[0] = own;
        let mut used = 1;
        for value in theirs.take(REPLICAS_MAX - 1) {
            values[used] = value;
            used += 1;
        }
        values[..used].sort_unstable_by(|a, b| b.cmp(a));
        if used < self.majority() { T::default() } else { values[self.majority() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_of_the_configured_set() {
        let group = Group::new(NodeId(2), &[1, 2, 3].map(NodeId)).expect("a group");
        assert_eq!((group.majority(), group.others().count()), (2, 2));
        let nodes = |nodes: &[u8]| nodes.iter().map(|&n| NodeId(n)).collect::<Nodes>();
        assert!(group.is_majority(nodes(&[1, 3])) && !group.is_majority(nodes(&[2])));
        assert!(!group.is_majority(nodes(&[2, 4, 5])), "strangers do not count");
        assert_eq!(group.reached(9, [4, 7].into_iter()), 7);
        assert_eq!(group.reached(1, [4, 7].into_iter()), 4);
        assert_eq!(group.reached(9, std::iter::empty()), 0);
        let five = Group::new(NodeId(0), &[0, 1, 2, 3, 4].map(NodeId)).expect("a group");
        assert_eq!(five.reached(10, [9, 8, 1, 2].into_iter()), 8);
        assert_eq!(Group::new(NodeId(5), &[NodeId(5)]).expect("alone").reached(3, std::iter::empty()), 3);
    }

    #[test]
    fn a_group_that_makes_no_sense_is_refused() {
        assert_eq!(Group::new(NodeId(1), &[]), Err(GroupError::Size(0)));
        assert_eq!(Group::new(NodeId(1), &[NodeId(1), NodeId(1)]), Err(GroupError::Twice(NodeId(1))));
        assert_eq!(Group::new(NodeId(1), &[NodeId(2)]), Err(GroupError::Stranger(NodeId(1))));
        assert!(Group::new(NodeId(0), &std::array::from_fn::<_, 10, _>(|i| NodeId(i as u8))).is_err());
    }
}
