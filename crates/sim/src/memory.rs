//! The persistent memory of a server that serves from it: it outlives the machine's power, but for what was
//! not written back.

use std::cell::RefCell;
use std::sync::Arc;

use longarm_base::random::SplitMix64;
use longarm_host::observe::{ReplicaStep, reach};
use longarm_memory::{Backing, Dimm, Pages, Region, RegionOptions};
use longarm_server::{Keys, PersistentData};

/// Where each of a server's regions begins in its module.
const APART: u64 = 1 << 40;

/// The memory of one server.
pub struct PersistentMemory(RefCell<State>);

struct State {
    /// What the last life left.
    left: Pages,
    /// The memory of the life that goes on, if one does.
    dimm: Option<Arc<Dimm>>,
    keys: Keys,
    chance: SplitMix64,
}

impl PersistentMemory {
    /// Memory that was never used, of a server with these keys.
    pub fn new(seed: u64, keys: Keys) -> PersistentMemory {
        let (left, chance) = (Pages::default(), SplitMix64::new(seed));
        PersistentMemory(RefCell::new(State { left, dimm: None, keys, chance }))
    }

    /// The memory for the next life of a server with so many bytes.
    pub fn open(&self, memory: u64) -> PersistentData {
        let mut state = self.0.borrow_mut();
        // A root begins with its mark, which it has last: without it the files are made anew.
        if state.left.load(0) == 0 {
            state.left = Pages::default();
        }
        let dimm = Dimm::new(state.left.clone(), || reach(ReplicaStep::WrittenBack));
        let mut from = 0;
        let regions = PersistentData::bytes(memory).map(|bytes| {
            let options = RegionOptions { name: "persistent".into(), bytes, backing: Backing::Memory };
            let region = Region::create(&options).expect("memory for a region");
            region.of_dimm(&dimm, from, &state.left);
            from += APART;
            region
        });
        state.dimm = Some(dimm);
        PersistentData::over(regions, state.keys)
    }

    /// The power is lost, before the tasks of the machine end.
    pub fn lose_power(&self) {
        let State { left, dimm, chance, .. } = &mut *self.0.borrow_mut();
        if let Some(dimm) = dimm.take() {
            *left = dimm.left_by(chance);
        }
    }
}
