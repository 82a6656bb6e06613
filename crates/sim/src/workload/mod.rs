//! What a client does, and what it notes of it.

mod backup;
mod load;
mod noted;
mod scan;
mod values;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::random::SplitMix64;
use longarm_base::{Csn, Nanos};
use longarm_client::side::Side;
use longarm_client::{ClusterClient, Error, Options, Reply, RequestId, Topology, Write};
use longarm_fabric::sim::Sim;
use longarm_history::NEVER;
use longarm_history::counters::Count;
use longarm_history::{Invocation, Operation, OperationOutcome, Value};
use longarm_host::world::entered;

pub use load::{FILLED, Kind, Load};
pub use noted::{Calendars, Life, Noted};
pub use scan::{inspect_all, scan_all};

/// The bound on one operation, which is short, so that faults leave some operations in doubt.
const TIMEOUT: Duration = Duration::from_millis(200);
/// The same where a server evicts: longer than a write may wait for memory.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The bound on one operation of the last look, when all is healed: a group may have to elect a leader first.
const PATIENCE: Nanos = Nanos::from_millis(2_000);
/// The number of places that a client remembers. It is greater than most numbers of keys, so that clients
/// forget few, and small enough that a client costs no time to make.
const REMEMBERED: usize = 1 << 10;
/// The number of keys that are hot at one time, and for how many operations they are hot.
const HOT: u64 = 4;
const SPELL: u32 = 40;
/// The number of keys that a client asks for at once in the last look.
const AT_ONCE: usize = 64;
/// The longest time to live, in milliseconds.
const LIFE: u64 = 400;

/// A client.
pub struct Worker {
    /// The number of the client.
    pub number: u32,
    /// How many clients there are.
    pub clients: u32,
    /// The number of keys that it touches.
    pub keys: u32,
    /// The number of its operations.
    pub operations: u32,
    /// The kinds of its operations.
    pub load: Load,
    /// Its own random generator.
    pub chance: SplitMix64,
    /// The notes of all clients.
    pub noted: Rc<RefCell<Noted>>,
    /// The number of clients that are done.
    pub done: Rc<RefCell<u32>>,
}

/// A client at work.
struct AtWork {
    worker: Worker,
    client: ClusterClient<Sim>,
    /// What the client saw last of each key, and before that: conditions are about these values.
    seen: Vec<[Option<(Value, Csn)>; 2]>,
    /// The number of operations it has begun.
    begun: u32,
    /// The number of scans it has begun.
    scans: u32,
}

/// A write on its way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    key: u32,
    deed: Deed,
    call: Nanos,
}

/// What a client does to a key.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// A write of a value, perhaps with a time to live.
    Write(Invocation, Option<Nanos>),
    /// An increment of a counter.
    Add,
    /// A new time to live for the item that is there; `None`: for ever.
    Touch(Option<Nanos>),
}

fn time() -> Nanos {
    entered().expect("a client runs in a world").time()
}

impl Worker {
    /// Works until all operations are done. Panics if a GET finds bytes that no client can have written.
    pub fn run(self, sim: &Sim, topology: Topology) {
        let several = topology.groups().len() > 1;
        let timeout = if self.load.evicts { PATIENT_TIMEOUT } else { TIMEOUT };
        let mut client = client_of(sim, topology, scan_side(self.number), timeout);
        // A group that no replica leads must not hold up the others.
        if !several {
            open_all(&mut client);
        }
        let seen = vec![[None; 2]; self.keys as usize];
        let mut work = AtWork { worker: self, client, seen, begun: 0, scans: 0 };
        if work.worker.load.fills {
            work.fill();
        }
        let end = work.begun + work.worker.operations;
        while work.begun < end {
            work.go_on(end);
        }
        work.worker.noted.borrow_mut().walks += work.client.counters().walks;
        *work.worker.done.borrow_mut() += 1;
    }
}

impl AtWork {
    /// Writes the client's share of all keys, each with a value that stays and is not of the longest.
    fn fill(&mut self) {
        let Worker { number, clients, keys, load, .. } = &self.worker;
        let most = load.open.max(8) as usize;
        let share: Vec<u32> = (0..*keys).filter(|key| key % clients == number % clients).collect();
        for keys in share.chunks(most) {
            self.write_all(keys, AtWork::first_deed);
        }
    }

    fn go_on(&mut self, end: u32) {
        let Worker { load, operations, .. } = &self.worker;
        let (idles, open, operations) = (load.idles, load.open, *operations);
        let (scans, backs_up) = (load.names.is_some(), load.backs_up && self.scans.is_multiple_of(4));
        match self.worker.chance.below(if scans { 15 } else { 12 }) {
            12.. if backs_up => self.back_up(),
            12.. => self.scan(),
            0 | 1 => {
                let most = 1 + self.worker.chance.below(12);
                let keys: Vec<u32> = (0..most).map(|_| self.any_key()).collect();
                self.look_at(&keys);
            }
            2 => {
                let key = self.any_key();
                self.ask_for(key);
            }
            3..7 => {
                let key = self.any_key();
                self.get(key);
            }
            _ => {
                let most = (1 + self.worker.chance.below(u64::from(open))).min(u64::from(end - self.begun));
                let keys: Vec<u32> = (0..most).map(|_| self.any_key()).collect();
                self.write_all(&keys, AtWork::deed);
            }
        }
        let chance = &mut self.worker.chance;
        if idles && chance.once_in(u64::from(operations)) {
            longarm_host::sleep(TIMEOUT + Duration::from_nanos(chance.below(TIMEOUT.as_nanos() as u64)));
        } else if chance.once_in(8) {
            longarm_host::sleep(Duration::from_nanos(chance.below(2_000_000)));
        }
    }

    /// Any key, or a hot one.
    fn any_key(&mut self) -> u32 {
        let (chance, keys) = (&mut self.worker.chance, u64::from(self.worker.keys));
        let key = match self.worker.load.moves_on && !chance.once_in(8) {
            true => u64::from(self.begun / SPELL) * HOT + chance.below(HOT),
            false => chance.below(keys),
        };
        self.begun += 1;
        (key % keys) as u32
    }

    /// The deed that puts a key there that no client has written yet.
    fn first_deed(&mut self, key: u32) -> Deed {
        match self.worker.load.kind(key) {
            Kind::Counter => Deed::Add,
            _ => Deed::Write(Invocation::Put(self.new_value(load::SHORT)), None),
        }
    }

    /// A value that no client has written. It takes an operation number of its own, so that each write has
    /// one.
    fn new_value(&mut self, longest: u64) -> Value {
        let new = match self.worker.load.evicts {
            true => values::large(self.worker.number, self.begun, &mut self.worker.chance),
            false => values::new(self.worker.number, self.begun, longest, &mut self.worker.chance),
        };
        self.begun += 1;
        new
    }

    /// Draws what to do to a key.
    fn deed(&mut self, key: u32) -> Deed {
        let kind = self.worker.load.kind(key);
        if kind == Kind::Counter {
            return Deed::Add;
        }
        let new = self.new_value(self.worker.load.longest);
        let Worker { load, chance, .. } = &mut self.worker;
        let ttl = |chance: &mut SplitMix64| Nanos::from_millis(1 + chance.below(LIFE));
        let expires = kind == Kind::Expiring;
        let ttl = (expires && !chance.once_in(3)).then(|| ttl(chance));
        if expires && chance.once_in(5) {
            return Deed::Touch(ttl);
        }
        let seen = self.seen[key as usize][usize::from(load.outdated)];
        let action = match (chance.below(6), seen) {
            (0..3, _) => Invocation::Put(new),
            (3, _) => Invocation::Delete,
            (4, Some((expected, _))) if kind == Kind::Plain => Invocation::Replace { expected, new },
            _ => Invocation::PutIfAbsent(new),
        };
        Deed::Write(action, ttl)
    }

    /// Submits a write of each key, then waits for all answers.
    fn write_all(&mut self, keys: &[u32], deed: fn(&mut AtWork, u32) -> Deed) {
        let mut open = Vec::new();
        for &key in keys {
            let deed = deed(self, key);
            let asked = Asked { key, deed, call: time() };
            match self.submit(asked) {
                Ok(ticket) => open.push((asked, ticket)),
                Err(error) => self.note(asked, Err(error)),
            }
        }
        // Some gets go out while writes are under way.
        if open.len() > 1 && self.worker.chance.once_in(2) {
            let key = self.any_key();
            self.get(key);
        }
        for (asked, ticket) in open {
            let answer = self.client.wait(ticket);
            self.note(asked, answer);
        }
    }

    fn submit(&mut self, Asked { key, deed, .. }: Asked) -> Result<RequestId, Error> {
        let name = self.worker.load.name(key);
        let value = match deed {
            Deed::Write(action, _) => action.writes(),
            _ => None,
        };
        let value = value.map(|new| values::bytes(key, new)).unwrap_or_default();
        let write = match deed {
            Deed::Add => Write::increment(&name, 1),
            Deed::Touch(_) => Write::touch(&name),
            Deed::Write(Invocation::Delete, _) => Write::delete(&name),
            Deed::Write(Invocation::PutIfAbsent(_), _) => Write::put(&name, &value).if_absent(),
            Deed::Write(Invocation::Replace { expected, .. }, _) => {
                let seen = self.seen[key as usize].into_iter().flatten();
                let version = seen.filter(|seen| seen.0 == expected).map(|seen| seen.1).next();
                Write::put(&name, &value).if_version(version.expect("replaced is what was seen"))
            }
            Deed::Write(..) => Write::put(&name, &value),
        };
        self.client.submit(&match deed {
            Deed::Touch(Some(ttl)) | Deed::Write(_, Some(ttl)) => write.ttl(Duration::from_nanos(ttl.0)),
            _ => write,
        })
    }

    /// Notes the outcome of a write, unless it certainly had no effect.
    fn note(&mut self, asked: Asked, answer: Result<Reply, Error>) {
        let Asked { key, deed, call } = asked;
        let scans = self.worker.load.names.is_some();
        let (outcome, version) = match answer {
            Ok(Reply::Done(version)) => (OperationOutcome::Done, Some(version)),
            Ok(Reply::Number(_, version)) => (OperationOutcome::Done, Some(version)),
            Ok(Reply::NotFound) => (OperationOutcome::Absent, None),
            // What was found instead is told apart by its version, where pages are judged with it.
            Ok(Reply::Mismatch(found)) => (OperationOutcome::Refused, found.filter(|_| scans)),
            Ok(other) => panic!("client {}: {deed:?} is answered {other:?}", self.worker.number),
            Err(Error::InDoubt(_)) => (OperationOutcome::InDoubt, None),
            Err(error) => return self.forgive(error),
        };
        let end = if outcome == OperationOutcome::InDoubt { NEVER } else { time() };
        let client = self.worker.number;
        let mut noted = self.worker.noted.borrow_mut();
        match deed {
            Deed::Add => {
                let told = match answer {
                    Ok(Reply::Number(sum, _)) => Some(sum as u64),
                    _ => None,
                };
                noted.counts.push(Count { client, key, adds: true, told, call, end });
            }
            Deed::Touch(ttl) => {
                if outcome != OperationOutcome::Absent {
                    noted.lives.push(Life { key, value: None, ttl, call, end });
                }
                let (action, version) = (Invocation::Get, None);
                if outcome == OperationOutcome::Absent {
                    noted.expiring.push(Operation { client, key, action, outcome, call, end, version });
                }
            }
            Deed::Write(action, ttl) => {
                // A replace of a key that is not there counts as refused, or as a look that found nothing.
                let (action, outcome) = match (action, outcome) {
                    (Invocation::Replace { .. }, OperationOutcome::Absent) if scans => {
                        (Invocation::Get, outcome)
                    }
                    (Invocation::Replace { .. }, OperationOutcome::Absent) => {
                        (action, OperationOutcome::Refused)
                    }
                    _ => (action, outcome),
                };
                // The version of a removal is that of no item. It orders the removal among the key's writes.
                let version = version.filter(|_| scans || action != Invocation::Delete);
                let operation = Operation { client, key, action, outcome, call, end, version };
                if self.worker.load.kind(key) == Kind::Plain {
                    remember(&mut self.seen[key as usize], &operation);
                    return noted.plain.push(operation);
                }
                if let Some(value) = operation.wrote() {
                    noted.lives.push(Life { key, value: Some(value), ttl, call, end });
                }
                noted.expiring.push(Operation { version: None, ..operation });
            }
        }
    }

    /// Accepts the errors that faults may cause if the operation had no effect; panics on any other.
    fn forgive(&self, error: Error) {
        match error {
            Error::Lost { .. }
            | Error::Unresponsive { .. }
            | Error::Connect(_)
            | Error::Contended(_)
            | Error::NoPage(_)
            | Error::SnapshotGone(_)
            | Error::Full => {}
            Error::OutOfMemory if !self.worker.load.takes_all => {}
            Error::Crowded if self.worker.load.hostile => {}
            // The only replica that keeps an index may be down.
            Error::NotOrdered if self.worker.load.lone => {}
            error => panic!("client {}: {error}", self.worker.number),
        }
    }

    fn get(&mut self, key: u32) {
        let (name, call) = (self.worker.load.name(key), time());
        match self.client.get_versioned(&name) {
            Ok(found) => {
                let found = found.as_ref().map(|(value, version)| (&value[..], *version));
                let seen = Seen { client: self.worker.number, key, call };
                let operation = seen.note(found, &self.worker.load, &mut self.worker.noted.borrow_mut());
                if let Some(operation) = operation {
                    remember(&mut self.seen[key as usize], &operation);
                }
            }
            Err(error) => self.forgive(error),
        }
    }

    /// Asks whether a key is there. If so, the history has a refused put-if-absent of a value that no client
    /// writes; else it has a get that found nothing.
    fn ask_for(&mut self, key: u32) {
        let (name, call) = (self.worker.load.name(key), time());
        let there = match self.client.exists(&name) {
            Ok(there) => there,
            Err(error) => return self.forgive(error),
        };
        let Worker { number: client, ref load, .. } = self.worker;
        let (action, outcome) = match there {
            true => (Invocation::PutIfAbsent(Value(u64::MAX)), OperationOutcome::Refused),
            false => (Invocation::Get, OperationOutcome::Absent),
        };
        let operation = Operation { client, key, action, outcome, call, end: time(), version: None };
        let mut noted = self.worker.noted.borrow_mut();
        match load.kind(key) {
            Kind::Plain => noted.plain.push(operation),
            Kind::Expiring | Kind::Evicted => noted.expiring.push(operation),
            Kind::Counter if !there => {
                noted.counts.push(Count {
                    client,
                    key,
                    adds: false,
                    told: Some(0),
                    call,
                    end: operation.end,
                });
            }
            Kind::Counter => {}
        }
    }

    /// Gets several keys at once. Each was looked up at some time between call and answer.
    fn look_at(&mut self, keys: &[u32]) {
        let load = &self.worker.load;
        let names: Vec<_> = keys.iter().map(|&key| load.name(key)).collect();
        let (client, call, noted) = (self.worker.number, time(), &self.worker.noted);
        // What one group shows counts, even if another group has no leader.
        let looked = self.client.multi_get(&names, |i, found| {
            Seen { client, key: keys[i], call }.note(found, load, &mut noted.borrow_mut());
        });
        if let Err(error) = looked {
            self.forgive(error);
        }
    }
}

/// The look of a client at a key, and when it began.
struct Seen {
    client: u32,
    key: u32,
    call: Nanos,
}

impl Seen {
    /// Notes what the client found; returns it if the key keeps its values.
    fn note(self, found: Option<(&[u8], Csn)>, load: &Load, noted: &mut Noted) -> Option<Operation> {
        let Seen { client, key, call } = self;
        let end = time();
        if load.kind(key) == Kind::Counter {
            let told = Some(found.map_or(0, |(number, _)| counted(number)));
            noted.counts.push(Count { client, key, adds: false, told, call, end });
            return None;
        }
        let outcome = found
            .map_or(OperationOutcome::Absent, |(bytes, _)| OperationOutcome::Found(values::read(key, bytes)));
        let version = found.map(|found| found.1);
        let operation = Operation { client, key, action: Invocation::Get, outcome, call, end, version };
        if load.kind(key) != Kind::Plain {
            noted.expiring.push(Operation { version: None, ..operation });
            return None;
        }
        noted.plain.push(operation.clone());
        Some(operation)
    }
}

fn remember(seen: &mut [Option<(Value, Csn)>; 2], operation: &Operation) {
    let newest = operation.named();
    if newest.is_some() && newest != seen[0] {
        *seen = [newest, seen[0]];
    } else if newest.is_none() {
        seen[0] = None;
    }
}

/// The value of a counter; panics if the bytes are none.
fn counted(found: &[u8]) -> u64 {
    let number = std::str::from_utf8(found).ok().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("torn: a counter of {} bytes: {found:?}", found.len()))
}

/// Who makes the pages of scans: of three clients the replicas, the client, and whoever it chooses.
fn scan_side(number: u32) -> Option<Side> {
    [None, Some(Side::Server), Some(Side::Client)][number as usize % 3]
}

fn client_of(
    sim: &Sim,
    topology: Topology,
    scan_side: Option<Side>,
    timeout: Duration,
) -> ClusterClient<Sim> {
    let options = Options {
        scan_side,
        timeout,
        connect_timeout: TIMEOUT,
        spin: Duration::ZERO,
        cache: Some(REMEMBERED),
        ..Options::default()
    };
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

/// What a last look saw of keys that keep their values.
pub type Looks = Vec<Operation>;

/// Gets every key once more, after all is healed: each acknowledged write must be there.
pub fn look_at_all(
    sim: &Sim,
    topology: Topology,
    keys: u32,
    load: &Load,
    noted: &RefCell<Noted>,
) -> Result<Looks, Error> {
    let mut client = client_of(sim, topology, None, TIMEOUT);
    open_all(&mut client);
    let (mut looks, all) = (Vec::new(), (0..keys).collect::<Vec<u32>>());
    for keys in all.chunks(AT_ONCE) {
        let names: Vec<_> = keys.iter().map(|&key| load.name(key)).collect();
        let (before, begun) = (looks.len(), time());
        loop {
            let call = time();
            let got = client.multi_get(&names, |i, found| {
                let seen = Seen { client: u32::MAX, key: keys[i], call };
                looks.extend(seen.note(found, load, &mut noted.borrow_mut()));
            });
            match got {
                Ok(()) => break,
                Err(error) if time().since(begun) >= PATIENCE => return Err(error),
                Err(_) => looks.truncate(before),
            }
        }
    }
    Ok(looks)
}
