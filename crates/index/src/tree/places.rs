//! Which units of the region nodes have: blocks of the largest class, halved as smaller nodes want it, and
//! put together again where both halves are free. Private to the owner.

use std::collections::BTreeSet;

use super::layout::{BLOCK_UNITS, CLASSES, GENERATION_BITS, Pointer, Unit};

/// A run of units of one class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Run {
    unit: u64,
    class: u8,
}

/// What of the region is handed out.
pub(super) struct Places {
    first: u64,
    /// First unit of the next block that was never handed out.
    top: u64,
    /// First unit that does not belong to us.
    end: u64,
    /// Last generation of a node that began at each unit from `first` on, or of what it left.
    generations: Vec<u32>,
    /// Free runs of each class, by their first unit.
    free: [BTreeSet<u64>; CLASSES as usize],
    /// Given back in this step: used again from the next step on.
    given_back: Vec<Run>,
    in_use: u64,
    nodes: u64,
}

impl Places {
    /// Places in the first `bytes` bytes of a region.
    pub fn new(unit: Unit, bytes: u64) -> Places {
        let first = unit.first();
        let blocks = (bytes / unit.bytes()).saturating_sub(first) / BLOCK_UNITS;
        Places {
            first,
            top: first,
            end: first + blocks * BLOCK_UNITS,
            generations: Vec::new(),
            free: Default::default(),
            given_back: Vec::new(),
            in_use: 0,
            nodes: 0,
        }
    }

    /// Units that nodes have.
    pub fn units(&self) -> u64 {
        self.in_use
    }

    /// Nodes.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// First unit that was never handed out.
    pub fn top(&self) -> u64 {
        self.top
    }

    /// Whether so many nodes can be had, whatever their class.
    pub fn has(&self, nodes: u64) -> bool {
        let whole = self.free[usize::from(CLASSES - 1)].len() as u64;
        whole + (self.end - self.top) / BLOCK_UNITS >= nodes
    }

    /// Never zero: what was never written has that.
    fn next_generation(&mut self, unit: u64) -> u32 {
        let generation = &mut self.generations[(unit - self.first) as usize];
        *generation = *generation % ((1 << GENERATION_BITS) - 1) + 1;
        *generation
    }

    /// A place for a node.
    pub fn take(&mut self, class: u8, level: u8) -> Option<Pointer> {
        let from = (class..CLASSES).find(|class| !self.free[usize::from(*class)].is_empty());
        let (unit, from) = match from {
            Some(from) => (self.free[usize::from(from)].pop_first().expect("it is not empty"), from),
            None if self.top < self.end => {
                self.top += BLOCK_UNITS;
                self.generations.resize((self.top - self.first) as usize, 0);
                (self.top - BLOCK_UNITS, CLASSES - 1)
            }
            None => return None,
        };
        for half in class..from {
            self.free[usize::from(half)].insert(unit + (1 << half));
        }
        self.in_use += 1 << class;
        self.nodes += 1;
        let generation = self.next_generation(unit);
        Some(Pointer { unit, class, level, generation })
    }

    /// Takes a node's place back; the generation that its mark gets, which no pointer ever has.
    pub fn give_back(&mut self, node: Pointer) -> u32 {
        self.given_back.push(Run { unit: node.unit, class: node.class });
        self.in_use -= node.units();
        self.nodes -= 1;
        self.next_generation(node.unit)
    }

    /// A step is over: what it gave back is free.
    pub fn step_over(&mut self) {
        for Run { mut unit, mut class } in std::mem::take(&mut self.given_back) {
            while class + 1 < CLASSES && self.free[usize::from(class)].remove(&(unit ^ (1 << class))) {
                unit &= !(1 << class);
                class += 1;
            }
            self.free[usize::from(class)].insert(unit);
        }
    }

    /// All nodes are gone. Generations stay, as old pointers may.
    pub fn clear(&mut self) {
        self.free = Default::default();
        self.given_back.clear();
        (self.in_use, self.nodes) = (0, 0);
        let blocks = (self.first..self.top).step_by(BLOCK_UNITS as usize);
        self.free[usize::from(CLASSES - 1)].extend(blocks);
    }

    /// Units that are free, those given back in this step included, each once; for checks.
    pub fn free_units(&self) -> u64 {
        let free = self.free.iter().enumerate().map(|(class, runs)| (runs.len() as u64) << class);
        free.sum::<u64>() + self.given_back.iter().map(|run| 1 << run.class).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_come_together_again_and_generations_grow() {
        let mut places = Places::new(Unit::Kib, (32 << 10) + 2 * 8192 + 1000);
        let small: Vec<_> = (0..8).map(|_| places.take(0, 0).expect("room")).collect();
        let units: BTreeSet<_> = small.iter().map(|node| node.unit).collect();
        assert_eq!((units.len(), places.top(), places.nodes()), (8, 40, 8));
        let large = places.take(3, 1).expect("room");
        assert!(!units.contains(&large.unit) && places.take(0, 0).is_none() && !places.has(1));
        small.iter().for_each(|node| assert_eq!(places.give_back(*node), node.generation + 1));
        assert!(places.take(0, 0).is_none(), "not in the same step");
        places.step_over();
        assert!(places.has(1));
        let again = places.take(3, 0).expect("all halves are together");
        assert_eq!((again.unit, again.generation), (32, small[0].generation + 2));
        assert_eq!(places.units() + places.free_units(), places.top() - 32);
    }
}
