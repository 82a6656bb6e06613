//! Huge pages for the memory of a tree, taken ahead of the nodes that come to stand there. In small pages a
//! look at a leaf of a large tree costs a page walk beside the lines of the leaf.

use longarm_memory::{HUGE_PAGE, OwnedWords};

/// How far from the next block the nodes may come before it is taken. Its memory is empty then: to take it
/// as a whole costs less than its page faults would. A tree that is smaller than this stands in small pages.
const AHEAD: u64 = HUGE_PAGE / 4;

/// Up to where the memory of a tree was asked to stand in huge pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Populated(u64);

impl Populated {
    /// The nodes of the tree end at `end` now: takes what they come to next. Each block is asked for once.
    pub fn reach(&mut self, memory: &impl OwnedWords, end: u64) {
        while end > self.0.saturating_sub(AHEAD).max(AHEAD) && memory.bytes() - self.0 >= HUGE_PAGE {
            memory.populate(self.0, HUGE_PAGE);
            self.0 += HUGE_PAGE;
        }
    }
}

#[cfg(test)]
mod tests {
    use longarm_memory::{Backing, Region, RegionOptions};

    use super::*;

    #[test]
    fn a_block_is_taken_before_the_nodes_come_to_it_and_never_beyond_the_memory() {
        let bytes = 3 * HUGE_PAGE + 4096;
        let options = RegionOptions { name: "tree".into(), bytes, backing: Backing::Memory };
        let region = Region::create(&options).expect("memory");
        let memory = region.memory();
        let mut populated = Populated::default();
        let mut reach = |end| {
            populated.reach(memory, end);
            populated.0
        };
        assert_eq!([0, AHEAD].map(&mut reach), [0, 0], "a small tree");
        assert_eq!([AHEAD + 1, HUGE_PAGE - AHEAD].map(&mut reach), [HUGE_PAGE; 2]);
        assert_eq!(reach(HUGE_PAGE - AHEAD + 1), 2 * HUGE_PAGE);
        assert_eq!(reach(bytes), 3 * HUGE_PAGE, "the last block is not whole");
    }
}
