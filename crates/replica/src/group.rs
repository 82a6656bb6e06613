//! The configured set of a group. Quorums are over this set, and never over a set that shrinks (L20; the
//! active set of LoLKV 3.5 does).

use longarm_base::ReplicaId;
use longarm_wire::Members;

/// The most replicas of a group.
pub const REPLICAS_MAX: usize = longarm_wire::MEMBERS_MAX;

/// A set of replicas.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ReplicaSet(u128);

impl ReplicaSet {
    /// The empty set.
    pub const NONE: ReplicaSet = ReplicaSet(0);

    /// The set of only this replica.
    pub const fn only(replica: ReplicaId) -> ReplicaSet {
        ReplicaSet(1 << replica.0)
    }

    /// Adds a replica; `true` if it is new.
    pub fn add(&mut self, replica: ReplicaId) -> bool {
        let before = self.0;
        self.0 |= 1 << replica.0;
        self.0 != before
    }

    /// Removes a replica.
    pub fn remove(&mut self, replica: ReplicaId) {
        self.0 &= !(1 << replica.0);
    }

    /// Whether the replica is in the set.
    pub const fn has(self, replica: ReplicaId) -> bool {
        self.0 & 1 << replica.0 != 0
    }

    /// The number of replicas.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// All replicas, in order.
    pub fn iter(self) -> impl Iterator<Item = ReplicaId> {
        (0..=ReplicaId::MAX.0).map(ReplicaId).filter(move |&replica| self.has(replica))
    }
}

impl FromIterator<ReplicaId> for ReplicaSet {
    fn from_iter<I: IntoIterator<Item = ReplicaId>>(replicas: I) -> ReplicaSet {
        replicas.into_iter().fold(ReplicaSet::NONE, |mut set, replica| {
            set.add(replica);
            set
        })
    }
}

impl std::fmt::Debug for ReplicaSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|replica| replica.0)).finish()
    }
}

/// Why a group is impossible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// It has no replica, or more than are possible.
    Size(usize),
    /// A replica is named twice.
    Twice(ReplicaId),
    /// This replica is not one of its replicas.
    Stranger(ReplicaId),
}

impl std::fmt::Display for GroupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GroupError::Size(size) => {
                write!(f, "a group of {size} replicas: 1 to {REPLICAS_MAX} are possible")
            }
            GroupError::Twice(replica) => write!(f, "replica {replica} is named twice"),
            GroupError::Stranger(replica) => {
                write!(f, "replica {replica} is not one of the group's replicas")
            }
        }
    }
}

impl std::error::Error for GroupError {}

/// The replicas of a group, as one of them sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    me: ReplicaId,
    members: ReplicaSet,
}

impl Group {
    /// The group of `members`, as its replica `me` sees it.
    pub fn new(me: ReplicaId, members: &[ReplicaId]) -> Result<Group, GroupError> {
        if members.is_empty() || members.len() > REPLICAS_MAX {
            return Err(GroupError::Size(members.len()));
        }
        let mut set = ReplicaSet::NONE;
        for &replica in members {
            if !set.add(replica) {
                return Err(GroupError::Twice(replica));
            }
        }
        if !set.has(me) {
            return Err(GroupError::Stranger(me));
        }
        Ok(Group { me, members: set })
    }

    /// The group of these replicas, as `me` sees it; `me` need not be one of them, if it was removed or is to
    /// be added.
    pub fn of(me: ReplicaId, members: &Members) -> Group {
        Group { me, members: members.list.iter().map(|member| member.replica).collect() }
    }

    /// This replica.
    pub fn me(&self) -> ReplicaId {
        self.me
    }

    /// All replicas.
    pub fn members(&self) -> ReplicaSet {
        self.members
    }

    /// All replicas but this one.
    pub fn others(&self) -> impl Iterator<Item = ReplicaId> {
        let me = self.me;
        self.members.iter().filter(move |&replica| replica != me)
    }

    /// How many replicas make a majority.
    pub fn majority(&self) -> usize {
        self.members.count() / 2 + 1
    }

    /// Whether these members are a majority.
    pub fn is_majority(&self, replicas: ReplicaSet) -> bool {
        replicas.iter().filter(|&replica| self.members.has(replica)).count() >= self.majority()
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
        let group = Group::new(ReplicaId(2), &[1, 2, 3].map(ReplicaId)).expect("a group");
        assert_eq!((group.majority(), group.others().count()), (2, 2));
        let replicas = |replicas: &[u8]| replicas.iter().map(|&n| ReplicaId(n)).collect::<ReplicaSet>();
        assert!(group.is_majority(replicas(&[1, 3])) && !group.is_majority(replicas(&[2])));
        assert!(!group.is_majority(replicas(&[2, 4, 5])), "strangers do not count");
        assert_eq!(group.reached(9, [4, 7].into_iter()), 7);
        assert_eq!(group.reached(1, [4, 7].into_iter()), 4);
        assert_eq!(group.reached(9, std::iter::empty()), 0);
        let five = Group::new(ReplicaId(0), &[0, 1, 2, 3, 4].map(ReplicaId)).expect("a group");
        assert_eq!(five.reached(10, [9, 8, 1, 2].into_iter()), 8);
        assert_eq!(
            Group::new(ReplicaId(5), &[ReplicaId(5)]).expect("alone").reached(3, std::iter::empty()),
            3
        );
    }

    #[test]
    fn a_group_that_makes_no_sense_is_refused() {
        assert_eq!(Group::new(ReplicaId(1), &[]), Err(GroupError::Size(0)));
        assert_eq!(
            Group::new(ReplicaId(1), &[ReplicaId(1), ReplicaId(1)]),
            Err(GroupError::Twice(ReplicaId(1)))
        );
        assert_eq!(Group::new(ReplicaId(1), &[ReplicaId(2)]), Err(GroupError::Stranger(ReplicaId(1))));
        assert!(Group::new(ReplicaId(0), &std::array::from_fn::<_, 10, _>(|i| ReplicaId(i as u8))).is_err());
    }
}
