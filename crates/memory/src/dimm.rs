//! A module of persistent memory in a simulated world: its regions lose, with their machine's power, what was
//! not written back.
//!
//! Whoever runs the world takes the image before the machine's tasks end: what these store while they are
//! unwound was never stored.

use std::sync::{Arc, Mutex};

use longarm_base::random::SplitMix64;

use crate::cache::{Cache, Pages};

/// The cache before all regions of a module: one fence is of all.
pub struct Dimm {
    cache: Mutex<Cache>,
    at_fence: Box<dyn Fn() + Send + Sync>,
}

impl Dimm {
    /// A module that holds these words. `at_fence` is called at each fence, before what is on its way back
    /// has arrived.
    pub fn new(words: Pages, at_fence: impl Fn() + Send + Sync + 'static) -> Arc<Dimm> {
        Arc::new(Dimm { cache: Mutex::new(Cache::over(words)), at_fence: Box::new(at_fence) })
    }

    /// What a loss of power leaves, by chance.
    pub fn left_by(&self, random: &mut SplitMix64) -> Pages {
        self.cache().left_by(random)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().expect("nothing panics with it")
    }

    pub(crate) fn store(&self, at: u64, word: u64) {
        self.cache().store(at, word);
    }

    pub(crate) fn flush(&self, at: u64, len: u64) {
        self.cache().flush(at, len);
    }

    pub(crate) fn fence(&self) {
        (self.at_fence)();
        self.cache().fence();
    }
}
