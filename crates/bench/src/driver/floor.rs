//! The floor: a map in the client's own process, with the same operations on the same items. What a store
//! takes beyond this it takes for being one: another process, other clients, replicas, and proofs that bytes
//! are whole.
//!
//! Keys stand in the nodes of the map, and values one behind the other, as in a store with an index.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{ScanRef, ServerInfo, Target, TargetError, TargetFactory};
use crate::workload::Key;

/// Items in the order of their keys.
#[derive(Default)]
struct Items {
    places: BTreeMap<Key, Range<usize>>,
    values: Vec<u8>,
}

impl Items {
    fn put(&mut self, key: Key, value: &[u8]) {
        let Items { places, values } = self;
        match places.get(&key).filter(|place| place.len() == value.len()) {
            Some(place) => values[place.clone()].copy_from_slice(value),
            None => {
                let begin = values.len();
                values.extend_from_slice(value);
                places.insert(key, begin..values.len());
            }
        }
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<RwLock<Items>>);

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Items> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Items> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client of the map.
pub struct Floor {
    items: Shared,
}

fn key_of(bytes: &[u8]) -> Result<Key, TargetError> {
    Key::of(bytes).ok_or_else(|| TargetError::Refused("a key that no workload makes".into()))
}

impl Target for Floor {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TargetError> {
        value.clear();
        let items = self.items.read();
        let place = items.places.get(&key_of(key)?);
        value.extend_from_slice(place.map_or(&[][..], |place| &items.values[place.clone()]));
        Ok(place.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TargetError> {
        self.items.write().put(key_of(key)?, value);
        Ok(())
    }

    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        let mut items = self.items.write();
        for key in keys {
            items.places.remove(&key_of(key)?);
        }
        Ok(())
    }

    fn scan(&mut self, wanted: &ScanRef<'_>, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), TargetError> {
        let items = self.items.read();
        for (key, place) in items.places.range(key_of(wanted.from)?..).take(wanted.limit as usize) {
            seen(key.bytes(), if wanted.keys_only { &[] } else { &items.values[place.clone()] });
        }
        Ok(())
    }
}

/// Makes the clients of one map.
pub struct FloorFactory {
    label: String,
    items: Shared,
}

impl FloorFactory {
    /// A map without items.
    pub fn new(label: String) -> FloorFactory {
        FloorFactory { label, items: Shared::default() }
    }
}

impl TargetFactory for FloorFactory {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn connect(&self, _client: usize) -> Result<Box<dyn Target>, TargetError> {
        Ok(Box::new(Floor { items: self.items.clone() }))
    }

    fn scans(&self) -> bool {
        true
    }

    fn describe(&self) -> Result<ServerInfo, TargetError> {
        let version = "a BTreeMap in the client's process".to_string();
        let items = Some(self.items.read().places.len() as u64);
        Ok(ServerInfo { version, items, ..ServerInfo::default() })
    }

    fn clear(&self) -> Result<bool, TargetError> {
        *self.items.write() = Items::default();
        Ok(true)
    }
}
