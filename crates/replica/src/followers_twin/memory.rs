//! The memory of a follower in the twin, and the WRITEs to it.

use super::{CELLS, SEGMENTS};

/// Stream, position and key.
pub(super) type Entry = (usize, u64, u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Line {
    #[default]
    Free,
    Claimed(u64),
    Freed(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Write {
    Line(usize, Line),
    Cells(usize, usize, Vec<Option<Entry>>),
    Floors(Vec<u64>),
}

/// What the completion of a WRITE tells the leader.
#[derive(Clone, Debug)]
pub(super) enum Tells {
    Nothing,
    Claim(usize),
    Acked(usize, u64),
    /// It has completed already: that told so much, and it has yet to land.
    Landed(usize, u64),
    Floors(Vec<u64>),
}

/// A follower's memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub lines: [Line; SEGMENTS],
    pub cells: [[Option<Entry>; CELLS]; SEGMENTS],
    pub floors: Vec<u64>,
}

impl Memory {
    /// A WRITE lands.
    pub fn land(&mut self, write: &Write) {
        match write {
            Write::Line(segment, line) => self.lines[*segment] = *line,
            Write::Cells(segment, first, cells) => {
                self.cells[*segment][*first..*first + cells.len()].copy_from_slice(cells);
            }
            Write::Floors(floors) => self.floors.clone_from(floors),
        }
    }
}
