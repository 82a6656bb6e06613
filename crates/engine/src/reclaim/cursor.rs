//! A walk over all pairs of the index, a little at a time.

use longarm_index::hash::Geometry;

/// A place in the walk over all pairs of all tables; the tables may change between steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    table: usize,
    pair: u64,
}

impl Cursor {
    /// Returns the pair to look at, and moves on to the next.
    pub fn step(&mut self, geometry: &Geometry) -> (usize, u64) {
        let live = geometry.live().count();
        if self.table >= live {
            *self = Cursor::default();
        }
        let here = (self.table, self.pair);
        self.pair += 1;
        if geometry.tables[self.table].is_none_or(|table| self.pair >= table.pairs) {
            *self = Cursor { table: self.table + 1, pair: 0 };
        }
        here
    }
}
