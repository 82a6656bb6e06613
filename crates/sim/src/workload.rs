//! What a client does, and what it notes of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::{Csn, Nanos};
use longarm_client::{ClusterClient, Error, Options, Put, Topology};
use longarm_fabric::sim::Sim;
use longarm_history::{Action, History, Operation, Outcome, Value};
use longarm_host::world::entered;

use crate::world::Chance;

/// Bound on one operation: short, so that faults leave some in doubt.
const TIMEOUT: Duration = Duration::from_millis(200);
/// The same for the last look, when all is well again: a leader may have to be elected.
const PATIENT: Duration = Duration::from_secs(2);
/// Longest value: three of four are short enough for a slot.
const LONG: u64 = 3000;

/// One client.
pub struct Worker {
    /// Its number.
    pub number: u32,
    /// Keys it touches.
    pub keys: u32,
    /// How much it does.
    pub operations: u32,
    /// Its own chance.
    pub chance: Chance,
    /// Where everybody notes what they did.
    pub history: Rc<RefCell<History>>,
    /// Clients that are done.
    pub done: Rc<RefCell<u32>>,
}

/// The name of a key.
pub fn key(number: u32) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn time() -> Nanos {
    entered().expect("a client runs in a world").time()
}

impl Worker {
    /// Works until it is done. Panics if it finds bytes that nobody can have written.
    pub fn run(mut self, sim: &Sim, topology: Topology) {
        let several = topology.groups().len() > 1;
        let mut client = client_of(sim, topology, TIMEOUT);
        // Of several groups one that nobody leads must not hold up the others.
        if !several {
            open_all(&mut client);
        }
        // What it saw last of each key: conditions are about that.
        let mut seen: Vec<Option<(Value, Csn)>> = vec![None; self.keys as usize];
        for i in 0..self.operations {
            if several && self.chance.once_in(6) {
                self.look_at_some(&mut client);
                continue;
            }
            let number = self.chance.below(u64::from(self.keys)) as u32;
            let new = Value(u64::from(self.number) << 32 | u64::from(i));
            let action = match (self.chance.below(10), seen[number as usize]) {
                (0..4, _) => Action::Get,
                (4..7, _) => Action::Put(new),
                (7, _) => Action::Delete,
                (8, Some((expected, _))) => Action::Replace { expected, new },
                _ => Action::PutIfAbsent(new),
            };
            let call = time();
            let answer = self.act(&mut client, number, action, seen[number as usize]);
            let (client, end) = (self.number, time());
            let operation = answer.map(|(outcome, version)| Operation {
                client,
                key: number,
                action,
                outcome,
                call,
                end,
                version,
            });
            seen[number as usize] = operation.as_ref().and_then(Operation::named);
            // Without an effect and without an answer there is nothing to note.
            if let Some(operation) = operation {
                self.history.borrow_mut().push(operation);
            }
            if self.chance.once_in(8) {
                longarm_host::sleep(Duration::from_nanos(self.chance.below(2_000_000)));
            }
        }
        *self.done.borrow_mut() += 1;
    }

    /// A multi-GET over groups: each of its keys was looked up some time between call and answer.
    fn look_at_some(&mut self, client: &mut ClusterClient<Sim>) {
        let (most, keys) = (1 + self.chance.below(12), u64::from(self.keys));
        let numbers: Vec<_> = (0..most).map(|_| self.chance.below(keys) as u32).collect();
        let names: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
        let (client_number, call) = (self.number, time());
        let mut seen = Vec::new();
        // What is shown counts, also where another group has no leader.
        let looked = client.multi_get(&names, |i, got| {
            let (outcome, version) = found(got.map(|(value, version)| (value.to_vec(), version)));
            let (client, key, action) = (client_number, numbers[i], Action::Get);
            seen.push(Operation { client, key, action, outcome, call, end: time(), version });
        });
        seen.into_iter().for_each(|operation| self.history.borrow_mut().push(operation));
        if let Err(Error::Protocol(why)) = looked {
            panic!("client {client_number}: {why}");
        }
    }

    /// `None` if it certainly did nothing.
    fn act(
        &self,
        client: &mut ClusterClient<Sim>,
        number: u32,
        action: Action,
        seen: Option<(Value, Csn)>,
    ) -> Option<Answer> {
        let key = key(number);
        let result = match action {
            Action::Get => client.get_versioned(&key).map(found),
            Action::Put(value) => {
                client.put(&key, &bytes(value)).map(|version| (Outcome::Done, Some(version)))
            }
            Action::PutIfAbsent(value) => client.put_if_absent(&key, &bytes(value)).map(conditional),
            Action::Replace { new, .. } => {
                let (_, version) = seen.expect("replaced is what was seen");
                client.compare_and_set(&key, version, &bytes(new)).map(conditional)
            }
            Action::Delete => {
                client.delete(&key).map(|was| (if was { Outcome::Done } else { Outcome::Absent }, None))
            }
        };
        match result {
            Ok(answer) => Some(answer),
            Err(Error::InDoubt(_)) => Some((Outcome::InDoubt, None)),
            Err(
                Error::Lost { .. }
                | Error::Unresponsive { .. }
                | Error::Connect(_)
                | Error::Contended(_)
                | Error::OutOfMemory,
            ) => None,
            Err(error) => panic!("client {}: {action:?}: {error}", self.number),
        }
    }
}

/// What a client was told, and of which version.
type Answer = (Outcome, Option<Csn>);

/// A value as bytes: its number again and again, of a length that it decides.
fn bytes(value: Value) -> Vec<u8> {
    let mut chance = Chance::new(value.0);
    let words = 1 + if chance.once_in(4) { chance.below(LONG / 8) } else { chance.below(3) };
    (0..words).flat_map(|_| value.0.to_le_bytes()).collect()
}

/// Which value these bytes are; every byte counts.
fn read(found: &[u8]) -> Value {
    let word = found.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    assert!(found == bytes(Value(word)), "torn: {} bytes that begin as value {word:#x}", found.len());
    Value(word)
}

fn found(got: Option<(Vec<u8>, Csn)>) -> Answer {
    match got {
        Some((bytes, version)) => (Outcome::Found(read(&bytes)), Some(version)),
        None => (Outcome::Absent, None),
    }
}

fn conditional(put: Put) -> Answer {
    match put {
        Put::Stored(version) => (Outcome::Done, Some(version)),
        Put::Mismatch(_) => (Outcome::Refused, None),
    }
}

fn client_of(sim: &Sim, topology: Topology, timeout: Duration) -> ClusterClient<Sim> {
    let options = Options { timeout, connect_timeout: TIMEOUT, spin: Duration::ZERO, ..Options::default() };
    ClusterClient::over(sim.clone(), topology, options)
}

/// Connects to all groups, however long it takes.
fn open_all(client: &mut ClusterClient<Sim>) {
    for group in 0..client.topology().groups().len() {
        while client.group(group).is_err() {
            longarm_host::sleep(Duration::from_millis(5));
        }
    }
}

/// Gets every key once more, when all is well again: what was acknowledged must be there.
pub fn look_at_all(sim: &Sim, topology: Topology, keys: u32) -> Result<Vec<Operation>, Error> {
    let mut client = client_of(sim, topology, PATIENT);
    open_all(&mut client);
    let look = |number| {
        let call = time();
        let (outcome, version) = found(client.get_versioned(&key(number))?);
        let (client, action, end) = (u32::MAX, Action::Get, time());
        Ok(Operation { client, key: number, action, outcome, call, end, version })
    };
    (0..keys).map(look).collect()
}
