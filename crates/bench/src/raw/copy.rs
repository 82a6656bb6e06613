//! Copies out of random places of a mapping.

use std::hint::black_box;

use longarm_base::limits::LINE;
use longarm_base::random::SplitMix64;
use longarm_memory::Words;
use longarm_workload::random::stream;

/// Copies of one size into one buffer.
pub struct Copies<'a, W: Words> {
    words: &'a W,
    places: u64,
    random: SplitMix64,
    buffer: Vec<u8>,
}

impl<'a, W: Words> Copies<'a, W> {
    /// Copies of `size` bytes that begin on a cache line.
    pub fn new(words: &'a W, size: usize, seed: u64) -> Copies<'a, W> {
        let places = (words.bytes() - size as u64) / LINE + 1;
        Copies { words, places, random: stream(seed, size as u64), buffer: vec![0; size] }
    }

    /// `count` copies, each from another place that the last copied bytes take part in choosing.
    pub fn run(&mut self, count: u64) {
        for _ in 0..count {
            let last = self.buffer[self.buffer.len() - 1] as u64;
            let place = (self.random.below(self.places) + last) % self.places;
            self.words.copy_out(place * LINE, &mut self.buffer);
            black_box(&mut self.buffer);
        }
    }
}
