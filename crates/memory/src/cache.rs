//! The cache before persistent memory: what of its stores a loss of power may take.
//!
//! The rules are those of [`Images`](crate::Images), and chance makes one image of all that there may be.

use std::collections::BTreeMap;

use longarm_base::limits::LINE;
use longarm_base::random::SplitMix64;

/// Stores of a line that the cache keeps at most: the oldest of more is written back.
const KEPT: usize = 8;
/// Words of a page, and its bytes.
const PAGE_WORDS: usize = 512;
const PAGE: u64 = 8 * PAGE_WORDS as u64;

/// Words, most of which are zero, by their places in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(BTreeMap<u64, Box<[u64; PAGE_WORDS]>>);

impl Pages {
    /// These words, one after the other.
    pub fn of(words: &[u64]) -> Pages {
        let mut pages = Pages::default();
        let all = (0..).step_by(8).zip(words);
        all.filter(|(_, word)| **word != 0).for_each(|(at, word)| pages.store(at, *word));
        pages
    }

    /// The word there.
    pub fn load(&self, at: u64) -> u64 {
        self.0.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE / 8) as usize])
    }

    /// Sets the word there.
    pub fn store(&mut self, at: u64, word: u64) {
        let page = self.0.entry(at / PAGE).or_insert_with(|| Box::new([0; PAGE_WORDS]));
        page[(at % PAGE / 8) as usize] = word;
    }

    /// All words that are not zero, with their places.
    pub fn words(&self) -> impl Iterator<Item = (u64, u64)> {
        let places = |page: &u64| (page * PAGE..).step_by(8);
        let all = self.0.iter().flat_map(move |(page, words)| places(page).zip(words.iter().copied()));
        all.filter(|(_, word)| *word != 0)
    }
}

#[derive(Default)]
struct Line {
    /// Stores that are not persistent, the oldest first.
    stores: Vec<(u64, u64)>,
    /// How many of them are on their way back.
    flushed: usize,
}

/// What is persistent of a memory, and the stores since, by their lines.
#[derive(Default)]
pub struct Cache {
    /// What a loss of power leaves for sure.
    persistent: Pages,
    open: BTreeMap<u64, Line>,
    /// Lines of which something is on its way back.
    leaving: Vec<u64>,
}

impl Cache {
    /// An empty cache before memory that holds these words.
    pub fn over(persistent: Pages) -> Cache {
        Cache { persistent, ..Cache::default() }
    }

    /// A word is stored.
    pub fn store(&mut self, at: u64, word: u64) {
        let line = self.open.entry(at / LINE).or_default();
        line.stores.push((at, word));
        if line.stores.len() > KEPT {
            let (at, word) = line.stores.remove(0);
            self.persistent.store(at, word);
            line.flushed = line.flushed.saturating_sub(1);
        }
    }

    /// The lines of a range are on their way back.
    pub fn flush(&mut self, at: u64, len: u64) {
        for (number, line) in self.open.range_mut(at / LINE..(at + len).div_ceil(LINE)) {
            line.flushed = line.stores.len();
            self.leaving.push(*number);
        }
    }

    /// What is on its way back has arrived.
    pub fn fence(&mut self) {
        for number in self.leaving.drain(..) {
            // One that was flushed twice may be gone.
            let Some(line) = self.open.get_mut(&number) else { continue };
            line.stores.drain(..line.flushed).for_each(|(at, word)| self.persistent.store(at, word));
            line.flushed = 0;
            if line.stores.is_empty() {
                self.open.remove(&number);
            }
        }
    }

    /// What a loss of power leaves: of each line all that is sure, and by chance some of the stores since, in
    /// their order.
    pub fn left_by(&self, random: &mut SplitMix64) -> Pages {
        let mut left = self.persistent.clone();
        for line in self.open.values() {
            let kept = random.below(line.stores.len() as u64 + 1) as usize;
            line.stores[..kept].iter().for_each(|&(at, word)| left.store(at, word));
        }
        left
    }
}

#[test]
fn pages_hold_what_was_stored() {
    let mut pages = Pages::of(&[0, 7]);
    pages.store(3 * PAGE + 16, 9);
    assert_eq!([8, 0, PAGE, 3 * PAGE + 16].map(|at| pages.load(at)), [7, 0, 0, 9]);
    assert_eq!(pages.words().collect::<Vec<_>>(), [(8, 7), (3 * PAGE + 16, 9)]);
    pages.store(8, 0);
    assert_eq!(pages.words().count(), 1);
}
