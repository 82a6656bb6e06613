//! Memory behind a cache, which loses what was not written back when the power goes: for long runs, of which
//! a [`Journal`](crate::Journal) would remember too much.
//!
//! When the power goes is set beforehand, by the number of the store; whoever stores then is unwound, and
//! nothing is stored any more.

use std::panic::resume_unwind;
use std::sync::Mutex;

use longarm_base::random::SplitMix64;

use crate::cache::{Cache, Pages};
use crate::words::{OwnedWords, Words};

/// What unwinds the thread that stores when the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerLost;

struct State {
    /// What a load sees.
    words: Vec<u64>,
    cache: Cache,
    /// Stores until the power goes.
    left: Option<u64>,
    is_lost: bool,
}

/// Memory behind a cache.
pub struct Cached {
    state: Mutex<State>,
}

impl Cached {
    /// Memory of these words, all of them persistent.
    pub fn of(words: Vec<u64>) -> Cached {
        let cache = Cache::over(Pages::of(&words));
        Cached { state: Mutex::new(State { words, cache, left: None, is_lost: false }) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The power goes at the store after so many.
    pub fn lose_power_after(&self, stores: u64) {
        self.state().left = Some(stores);
    }

    /// Whether it is gone.
    pub fn is_lost(&self) -> bool {
        self.state().is_lost
    }

    /// What was left, by chance.
    pub fn left_by(&self, random: &mut SplitMix64) -> Vec<u64> {
        let state = self.state();
        let left = state.cache.left_by(random);
        (0..state.words.len() as u64).map(|word| left.load(word * 8)).collect()
    }
}

impl State {
    /// Whether stores count. Unwinds the thread that stores when the power goes.
    fn has_power(&mut self) -> bool {
        if !self.is_lost && self.left == Some(0) {
            self.is_lost = true;
            resume_unwind(Box::new(PowerLost));
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
        }
        !self.is_lost
    }

    fn store(&mut self, at: u64, word: u64) -> u64 {
        let before = self.words[(at / 8) as usize];
        if self.has_power() {
            self.words[(at / 8) as usize] = word;
            self.cache.store(at, word);
        }
        before
    }
}

impl Words for Cached {
    fn bytes(&self) -> u64 {
        self.state().words.len() as u64 * 8
    }

    fn load(&self, at: u64) -> u64 {
        assert!(at.is_multiple_of(8));
        self.state().words[(at / 8) as usize]
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        assert!(at.is_multiple_of(8));
        let state = self.state();
        for (chunk, word) in into.chunks_mut(8).zip(&state.words[(at / 8) as usize..]) {
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    }
}

impl OwnedWords for Cached {
    fn store(&self, at: u64, word: u64) {
        assert!(at.is_multiple_of(8));
        self.state().store(at, word);
    }

    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64> {
        let mut state = self.state();
        let found = state.words[(at / 8) as usize];
        if found != expected {
            return Err(found);
        }
        state.store(at, new);
        Ok(())
    }

    fn fetch_add(&self, at: u64, more: u64) -> u64 {
        let mut state = self.state();
        let found = state.words[(at / 8) as usize];
        state.store(at, found.wrapping_add(more))
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(8));
        let mut state = self.state();
        for (at, chunk) in (at..).step_by(8).zip(bytes.chunks(8)) {
            let mut word = state.words[(at / 8) as usize].to_le_bytes();
            word[..chunk.len()].copy_from_slice(chunk);
            state.store(at, u64::from_le_bytes(word));
        }
    }

    fn discard(&self, at: u64, len: u64) {
        let mut state = self.state();
        (at..at + len).step_by(8).for_each(|at| _ = state.store(at, 0));
    }

    fn flush(&self, at: u64, len: u64) {
        self.state().cache.flush(at, len);
    }

    fn fence(&self) {
        let state = &mut *self.state();
        if !state.is_lost {
            state.cache.fence();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// What a loss of power may leave, of these words.
    fn seen(memory: &Cached, at: &[usize]) -> BTreeSet<Vec<u64>> {
        let mut random = SplitMix64::new(3);
        let word = |words: &Vec<u64>| at.iter().map(|at| words[*at]).collect();
        (0..200).map(|_| word(&memory.left_by(&mut random))).collect()
    }

    #[test]
    fn it_leaves_what_a_journal_says_it_may() {
        let memory = Cached::of(vec![0; 32]);
        memory.store(0, 1);
        memory.store(8, 2);
        memory.store(64, 3);
        let all: BTreeSet<_> = [[0, 0], [1, 0], [1, 2]]
            .iter()
            .flat_map(|line| [0, 3].map(|other| vec![line[0], line[1], other]))
            .collect();
        assert_eq!(seen(&memory, &[0, 1, 8]), all);
        memory.flush(0, 8);
        memory.store(0, 4);
        memory.fence();
        assert_eq!(seen(&memory, &[0, 1]), BTreeSet::from([vec![1, 2], vec![4, 2]]));
        assert_eq!(seen(&memory, &[8]).len(), 2, "not flushed");
    }

    #[test]
    fn nothing_is_stored_once_the_power_is_gone() {
        let memory = Cached::of(vec![0; 32]);
        memory.lose_power_after(1);
        memory.store(0, 1);
        let lost = catch_unwind(AssertUnwindSafe(|| memory.store(8, 2))).expect_err("unwound");
        assert!(lost.is::<PowerLost>() && memory.is_lost());
        memory.store(16, 3);
        memory.flush(0, 64);
        memory.fence();
        assert_eq!(seen(&memory, &[0, 1, 2]), BTreeSet::from([vec![0, 0, 0], vec![1, 0, 0]]));
    }
}
