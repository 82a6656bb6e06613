//! A store in a map, for the tests of everything that needs one; it can be told to misbehave.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::driver::{ScanRef, ServerInfo, Target, TargetError, TargetFactory};

/// How a test store misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Not at all.
    None,
    /// Answers every get with the value of some key.
    WrongValue,
    /// Answers every get with one byte too little.
    Short,
    /// Refuses to store after so many items.
    Full(usize),
    /// Drops what it stored after so many items.
    Forgets(usize),
    /// Breaks off at the first get.
    Dies,
    /// Refuses connections.
    Deaf,
    /// Sleeps at every get.
    Slow(Duration),
    /// Scans leave out the second item.
    Gap,
    /// Scans end after the first item.
    Stops,
    /// Scans begin behind the key that was asked for.
    Behind,
    /// Scans show items from the last to the first.
    Reversed,
}

pub type Map = Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>;

pub struct Memory {
    pub map: Map,
    pub label: String,
    pub fault: Fault,
}

impl Memory {
    pub fn boxed(label: &str, fault: Fault) -> (Box<dyn TargetFactory>, Map) {
        let map = Map::default();
        (Box::new(Memory { map: map.clone(), label: label.into(), fault }), map)
    }
}

struct Connection {
    map: Map,
    fault: Fault,
}

impl Target for Connection {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TargetError> {
        value.clear();
        let map = self.map.lock().unwrap();
        let found = map.get(key);
        match self.fault {
            Fault::Dies => return Err(TargetError::Lost("the test server died".into())),
            Fault::Slow(time) => crate::pause::pause(time),
            _ => {}
        }
        let Some(found) = found else { return Ok(false) };
        value.extend_from_slice(match self.fault {
            Fault::WrongValue => map.values().next().unwrap(),
            Fault::Short => &found[1..],
            _ => found,
        });
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TargetError> {
        let mut map = self.map.lock().unwrap();
        match self.fault {
            Fault::Full(limit) if map.len() >= limit && !map.contains_key(key) => {
                return Err(TargetError::Refused("out of memory".into()));
            }
            Fault::Forgets(limit) if map.len() >= limit => return Ok(()),
            _ => {}
        }
        map.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn scan(&mut self, wanted: &ScanRef<'_>, seen: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), TargetError> {
        let map = self.map.lock().unwrap();
        let behind = usize::from(self.fault == Fault::Behind);
        let limit = if self.fault == Fault::Stops { 1 } else { wanted.limit as usize };
        let items = map.range(wanted.from.to_vec()..).skip(behind).take(limit);
        let mut items: Vec<_> = items.collect();
        match self.fault {
            Fault::Gap if items.len() > 2 => drop(items.remove(1)),
            Fault::Reversed => items.reverse(),
            _ => {}
        }
        for (key, value) in items {
            let short = usize::from(self.fault == Fault::Short);
            seen(key, if wanted.keys_only { &[] } else { &value[short..] });
        }
        Ok(())
    }

    fn remove(&mut self, keys: &[&[u8]]) -> Result<(), TargetError> {
        let mut map = self.map.lock().unwrap();
        keys.iter().for_each(|key| drop(map.remove(*key)));
        Ok(())
    }
}

impl TargetFactory for Memory {
    fn label(&self) -> String {
        self.label.clone()
    }
    fn connect(&self, client: usize) -> Result<Box<dyn Target>, TargetError> {
        if self.fault == Fault::Deaf && client == 1 {
            return Err(TargetError::Lost("nobody listens".into()));
        }
        Ok(Box::new(Connection { map: self.map.clone(), fault: self.fault }))
    }
    fn scans(&self) -> bool {
        true
    }
    fn describe(&self) -> Result<ServerInfo, TargetError> {
        let items = self.map.lock().unwrap().len() as u64;
        let version = "a map 1.0".to_string();
        Ok(ServerInfo {
            version,
            pids: vec![std::process::id()],
            items: Some(items),
            ..ServerInfo::default()
        })
    }
}
