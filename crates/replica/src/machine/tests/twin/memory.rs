//! The content of a replica's memory, as in `ViewChange.tla`: the positions of each stream of each term.

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::Term;

/// Streams of every term.
pub const STREAMS: usize = 2;

/// The length of each stream of each term; a missing stream has length zero.
pub type Lens = BTreeMap<(Term, usize), u64>;

#[derive(Clone, Default)]
struct Stream {
    len: u64,
    /// Positions that landed beyond a hole.
    beyond: BTreeSet<u64>,
}

/// The memory of one replica.
#[derive(Clone, Default)]
pub struct Memory(BTreeMap<(Term, usize), Stream>);

impl Memory {
    pub fn put(&mut self, term: Term, stream: usize, position: u64) {
        let held = self.0.entry((term, stream)).or_default();
        if position >= held.len {
            held.beyond.insert(position);
        }
        while held.beyond.remove(&held.len) {
            held.len += 1;
        }
    }

    /// The positions without a hole before them.
    pub fn len(&self, term: Term, stream: usize) -> u64 {
        self.0.get(&(term, stream)).map_or(0, |held| held.len)
    }

    /// Voids the positions beyond `len`.
    pub fn cut(&mut self, term: Term, stream: usize, len: u64) {
        if let Some(held) = self.0.get_mut(&(term, stream)) {
            held.len = held.len.min(len);
            held.beyond.retain(|&position| position < len);
        }
    }

    /// Voids one position, which may leave a hole.
    pub fn void(&mut self, term: Term, stream: usize, position: u64) {
        let Some(held) = self.0.get_mut(&(term, stream)) else { return };
        held.beyond.remove(&position);
        if position < held.len {
            held.beyond.extend(position + 1..held.len);
            held.len = position;
        }
    }

    /// Whether the position is there, behind a hole or not.
    pub fn has(&self, term: Term, stream: usize, position: u64) -> bool {
        self.0.get(&(term, stream)).is_some_and(|held| position < held.len || held.beyond.contains(&position))
    }

    /// All positions of the terms before `term`.
    pub fn all_before(&self, term: Term) -> impl Iterator<Item = (Term, usize, u64)> {
        let places = |(&(of, stream), held): (&(Term, usize), &Stream)| {
            let all = (0..held.len).chain(held.beyond.iter().copied()).collect::<Vec<_>>();
            all.into_iter().map(move |position| (of, stream, position))
        };
        self.0.range(..(term, 0)).flat_map(places)
    }

    /// Voids the positions behind a hole.
    pub fn close(&mut self) {
        self.0.values_mut().for_each(|held| held.beyond.clear());
    }

    /// Whether a position of the terms before `term` is behind a hole.
    pub fn has_holes_before(&self, term: Term) -> bool {
        self.0.range(..(term, 0)).any(|(_, held)| !held.beyond.is_empty())
    }

    /// Voids all terms younger than `term`.
    pub fn forget_after(&mut self, term: Term) {
        self.0.retain(|&(of, _), _| of <= term);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The lengths of the terms before `term`.
    pub fn before(&self, term: Term) -> Lens {
        let held = self.0.range(..(term, 0)).filter(|(_, held)| held.len > 0);
        held.map(|(&at, held)| (at, held.len)).collect()
    }
}
