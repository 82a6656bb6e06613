//! The number of what has two copies that are written in turn.

/// The number that was written last, and the one that counts whatever happens. A number says which copy is
/// written: the even, or the odd one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sequence {
    /// Of what was written last.
    pub written: u64,
    /// Of what is surely there.
    synced: u64,
}

impl Sequence {
    /// What was found counts.
    pub fn of(number: u64) -> Sequence {
        Sequence { written: number, synced: number }
    }

    /// The number of the next write. Until there is a sync, all writes go to the copy that does not count: a
    /// loss of power would spoil both copies, were they both on their way.
    pub fn write(&mut self) -> u64 {
        self.written += if self.written == self.synced { 1 } else { 2 };
        self.written
    }

    /// The number of what is surely there.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// What was written is there.
    pub fn sync(&mut self) {
        self.synced = self.written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_not_written_over() {
        let mut sequence = Sequence::of(4);
        assert_eq!([sequence.write(), sequence.write()], [5, 7]);
        sequence.sync();
        assert_eq!([sequence.write(), sequence.write(), sequence.write()], [8, 10, 12]);
    }
}
