//! Who listens where, and which connections there are.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use longarm_host::Mutex;

use super::door::SimAcceptor;
use super::pair::SimConnection;

/// The doors and the connections of a network.
#[derive(Debug, Default)]
pub(super) struct Registry {
    state: Mutex<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    doors: BTreeMap<String, Weak<SimAcceptor>>,
    pairs: Vec<Weak<SimConnection>>,
}

impl Registry {
    pub fn add_pair(&self, pair: &Arc<SimConnection>) {
        let mut state = self.state.lock();
        if state.pairs.len().is_power_of_two() {
            state.pairs.retain(|pair| pair.strong_count() > 0);
        }
        state.pairs.push(Arc::downgrade(pair));
    }

    /// All connections.
    pub fn pairs(&self) -> Vec<Arc<SimConnection>> {
        let mut state = self.state.lock();
        state.pairs.retain(|pair| pair.strong_count() > 0);
        state.pairs.iter().filter_map(Weak::upgrade).collect()
    }

    /// Who listens there.
    pub fn door(&self, name: &str) -> Option<Arc<SimAcceptor>> {
        self.state.lock().doors.get(name)?.upgrade()
    }

    /// `false` if somebody listens there already.
    pub fn open(&self, name: &str, door: &Arc<SimAcceptor>) -> bool {
        let mut state = self.state.lock();
        let taken = state.doors.get(name).is_some_and(|door| door.strong_count() > 0);
        if !taken {
            state.doors.insert(name.into(), Arc::downgrade(door));
        }
        !taken
    }
}
