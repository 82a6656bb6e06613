//! Loads of cache lines whose addresses depend on earlier loads.

use std::cell::Cell;
use std::hint::black_box;

use longarm_base::limits::LINE;
use longarm_memory::{SumKey, Words};

/// Odd multipliers that spread a word over its high bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const SPREAD_TOO: u64 = 0xD6E8_FEB8_6659_FD93;

/// Walks over the lines of a mapping.
pub struct Walk<'a, W: Words> {
    words: &'a W,
    lines: u64,
    pairs: u64,
    pair_lines: u64,
    /// What the last load gave: the next walk goes on from there, so that no walk repeats (and finds cached)
    /// the lines of the one before.
    word: Cell<u64>,
    /// Steps taken so far; each counts into its address. Without it two walks that meet once would go on
    /// alike, and soon all of them in a circle of lines that the caches hold.
    step: Cell<u64>,
}

/// Index below `n` from the high bits of a word: no division in a lookup.
#[inline(always)]
fn below(word: u64, n: u64) -> u64 {
    ((word as u128 * n as u128) >> 64) as u64
}

impl<'a, W: Words> Walk<'a, W> {
    /// Walks over `words`, taken as pairs of `pair_lines` lines.
    pub fn new(words: &'a W, pair_lines: u64, seed: u64) -> Walk<'a, W> {
        let lines = words.bytes() / LINE;
        Walk {
            words,
            lines,
            pairs: lines / pair_lines,
            pair_lines,
            word: Cell::new(seed),
            step: Cell::new(0),
        }
    }

    /// Numbers of the next `count` steps, never the same twice.
    fn steps(&self, count: u64) -> std::ops::Range<u64> {
        let first = self.step.get();
        self.step.set(first + count);
        first..first + count
    }

    /// Offset of the header of a pair that nobody can guess before `word` is known.
    #[inline(always)]
    fn header(&self, word: u64) -> u64 {
        below(word.wrapping_mul(SPREAD), self.pairs) * self.pair_lines * LINE
    }

    /// Offset of a line of the pair at `header`, not the header itself, which `word` determines.
    #[inline(always)]
    fn slot(&self, header: u64, word: u64) -> u64 {
        header + (1 + below(word.wrapping_mul(SPREAD_TOO), self.pair_lines - 1)) * LINE
    }

    /// `count` single loads, each at an address that the one before it determines.
    pub fn chase(&self, count: u64) {
        let mut word = self.word.get();
        for i in self.steps(count) {
            let at = below((word ^ i).wrapping_mul(SPREAD), self.lines) * LINE;
            word = self.words.load(at);
        }
        self.word.set(black_box(word));
    }

    /// `count` lookups of two lines of one pair; each begins when the one before it ended.
    pub fn pair(&self, count: u64) {
        let mut word = self.word.get();
        for i in self.steps(count) {
            let header = self.header(word ^ i);
            let first = self.words.load(header);
            word = self.words.load(self.slot(header, first ^ i));
        }
        self.word.set(black_box(word));
    }

    /// `count` lookups of two lines anywhere.
    pub fn far(&self, count: u64) {
        let mut word = self.word.get();
        for i in self.steps(count) {
            let first = self.words.load(self.header(word ^ i));
            word = self.words.load(below((first ^ i).wrapping_mul(SPREAD_TOO), self.lines) * LINE);
        }
        self.word.set(black_box(word));
    }

    /// As [`pair`](Self::pair); the second line is copied out and its checksum computed and compared.
    pub fn pair_sum(&self, count: u64, sum: &SumKey) {
        let mut word = self.word.get();
        let mut good = 0u64;
        for i in self.steps(count) {
            let header = self.header(word ^ i);
            let first = self.words.load(header);
            let (found, next) = self.verify(self.slot(header, first ^ i), sum);
            good += found as u64;
            word = next;
        }
        self.word.set(black_box((word, good)).0);
    }

    /// `count` batches of `slots.len()` independent lookups: all headers are prefetched, then all slots, then
    /// all are verified. The next batch depends on nothing either, as a client's keys do not.
    pub fn batch(&self, count: u64, sum: &SumKey, slots: &mut [u64]) {
        let mut state = self.word.get();
        let mut good = 0u64;
        for _ in 0..count {
            for slot in slots.iter_mut() {
                state = state.wrapping_add(SPREAD);
                // Mixed once more: consecutive multiples alone would walk through memory in a pattern.
                *slot = self.header((state ^ (state >> 29)).wrapping_mul(SPREAD_TOO));
                self.words.prefetch(*slot);
            }
            for slot in slots.iter_mut() {
                *slot = self.slot(*slot, self.words.load(*slot) ^ state);
                self.words.prefetch(*slot);
            }
            for &slot in slots.iter() {
                good += self.verify(slot, sum).0 as u64;
            }
        }
        black_box(good);
        self.word.set(state);
    }

    /// Copies a line out and compares its checksum with its first word, as a reader of a slot does; also
    /// returns something that is known only then.
    #[inline(always)]
    fn verify(&self, at: u64, sum: &SumKey) -> (bool, u64) {
        let mut line = [0; LINE as usize];
        self.words.copy_out(at, &mut line);
        let (claimed, rest) = line.split_at(8);
        let claimed = u64::from_le_bytes(claimed.try_into().expect("eight bytes"));
        let found = sum.sum(at, rest);
        (claimed == found, claimed ^ found)
    }
}
