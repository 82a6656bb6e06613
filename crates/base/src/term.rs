//! The term of a leader, and whose it is.

/// Names a replica within its group. Another group may have a replica of the same id; which node of the
/// cluster has a replica is for the cluster's file to say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct ReplicaId(pub u8);

impl ReplicaId {
    /// Bits of a replica's id in a [`Term`].
    pub const BITS: u32 = 7;
    /// The highest id.
    pub const MAX: ReplicaId = ReplicaId((1 << ReplicaId::BITS) - 1);
}

impl std::fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A term: a counter and the one replica that may lead in it, so that two leaders never share a term
/// (L2). Terms are ordered by counter, then replica. Zero is before the first.
///
/// Packed as `counter u32 << 7 | replica`, 39 bits, which fit the mark of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Term(u64);

impl Term {
    /// Bits of a packed term.
    pub const BITS: u32 = 32 + ReplicaId::BITS;
    /// Before the first term: nobody leads in it, and every replica of a new group holds its (empty) start
    /// set.
    pub const ZERO: Term = Term(0);

    /// The term of `leader` with this counter.
    ///
    /// # Panics
    /// If the leader's id is beyond [`ReplicaId::MAX`].
    pub const fn new(counter: u32, leader: ReplicaId) -> Term {
        assert!(leader.0 <= ReplicaId::MAX.0, "a replica's id has seven bits");
        Term((counter as u64) << ReplicaId::BITS | leader.0 as u64)
    }

    /// The term of `leader` with the next counter; `None` after four thousand million terms.
    pub const fn next_of(self, leader: ReplicaId) -> Option<Term> {
        match self.counter().checked_add(1) {
            Some(counter) => Some(Term::new(counter, leader)),
            None => None,
        }
    }

    /// How many terms there may have been.
    pub const fn counter(self) -> u32 {
        (self.0 >> ReplicaId::BITS) as u32
    }

    /// Who leads in it.
    pub const fn leader(self) -> ReplicaId {
        ReplicaId(self.0 as u8 & ReplicaId::MAX.0)
    }

    /// The term as bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The term of these bits, if they can be one.
    pub const fn from_bits(bits: u64) -> Option<Term> {
        if bits >> Term::BITS == 0 { Some(Term(bits)) } else { None }
    }
}

impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.counter(), self.leader())
    }
}

impl std::fmt::Debug for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Term({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_ordered_by_counter_and_then_node() {
        let term = |counter, node| Term::new(counter, ReplicaId(node));
        assert!(Term::ZERO < term(0, 1) && term(0, 127) < term(1, 0) && term(1, 1) < term(1, 2));
        assert_eq!(term(7, 3).next_of(ReplicaId(1)), Some(term(8, 1)));
        assert_eq!(term(u32::MAX, 3).next_of(ReplicaId(1)), None);
        let last = term(u32::MAX, 127);
        assert_eq!((last.counter(), last.leader()), (u32::MAX, ReplicaId::MAX));
        assert_eq!(Term::from_bits(last.bits()), Some(last));
        assert_eq!(Term::from_bits(last.bits() + 1), None);
        assert_eq!(last.to_string(), "4294967295.127");
    }
}
