//! A client that notes what it did and saw.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_base::random::SplitMix64;
use longarm_client::{Any, Client, ClusterClient, Csn, Error, Options, Put};
use longarm_history::counters::Count;
use longarm_history::{History, Invocation, Operation, OperationOutcome, Value};
use longarm_host::{now, sleep};

use crate::map::Map;
use crate::names::{COUNTERS, KEPT, Names, Warmth};
use crate::stage::{Probe, Stage};
use crate::values::{self, Values};

/// The longest pause of a client between two operations. Many clients share few cores, and the history must
/// fit into memory.
const PAUSE_MAX: Duration = Duration::from_millis(4);
/// The pause of a probe between two operations, which bounds how exactly it sees gaps.
const PROBE_PAUSE: Duration = Duration::from_micros(500);
/// The pause before another try to connect.
const RETRY: Duration = Duration::from_millis(5);
/// The longest that a client rests before it looks whether the run is over.
const REST_LOOK: Duration = Duration::from_millis(50);
/// The number of keys that the last look gets at once.
const AT_ONCE: usize = 64;
/// One operation in so many is the last of its session: another session takes the place of that.
const NEW_SESSION: u64 = 1_000;

/// The task of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Does the same operation all the time, in one group.
    Probe(Probe, usize),
    /// Does every operation. The numbers are which of these clients it is, and how many there are.
    All(u32, u32),
    /// Does a GET or a PUT now and then, after it rested for longer than its timeout.
    Rests,
}

/// How clients reach the groups.
#[derive(Clone)]
pub struct Way {
    /// Settings of the transports.
    pub transport: Any,
    /// Names of keys.
    pub names: Names,
    /// Where the groups are for clients.
    pub map: Arc<Map>,
    /// The values that writes put there.
    pub values: Arc<Values>,
    /// Bounds and login.
    pub options: Options,
    /// Whether clients ask for pages of scans.
    pub scans: bool,
}

impl Way {
    /// A client that connects when it must.
    fn client(&self) -> ClusterClient {
        ClusterClient::over(self.transport.clone(), self.map.topology(), self.options.clone())
    }
}

/// What a client noted.
#[derive(Default)]
pub struct Notes {
    /// Operations on values.
    pub history: History,
    /// Operations on counters.
    pub counts: Vec<Count>,
    /// The number of pages of scans among the operations.
    pub pages: u32,
    /// The number of these that a client made alone.
    pub walks: u32,
    /// The number of operations without an effect and without an answer.
    pub refused: u64,
}

/// A client and its task.
pub struct Worker {
    /// The number of the client, from 1 on.
    pub number: u32,
    /// Its task.
    pub role: Role,
    /// How it reaches the groups.
    pub way: Way,
    /// What it shares with other threads.
    pub stage: Arc<Stage>,
    /// Its own random generator.
    pub chance: SplitMix64,
}

/// An operation that a client asks a group for.
struct Attempt<'a> {
    /// The number of the key.
    number: u32,
    /// The name of the key.
    key: &'a [u8],
    action: Invocation,
    /// The bytes that a write puts there; none for other operations.
    bytes: &'a [u8],
    /// The value and version that the client saw last of the key: conditions are about these.
    seen: Option<(Value, Csn)>,
}

/// The outcome that a client was told, and the version that it is of.
type Answer = (OperationOutcome, Option<Csn>);

/// What a client has while it works.
pub(crate) struct Work {
    pub(crate) client: ClusterClient,
    /// The edition of the map that it knows.
    edition: u32,
    /// The value and version that the client saw last of each key: conditions are about these.
    seen: HashMap<u32, (Value, Csn)>,
    written: u64,
    pub(crate) notes: Notes,
}

impl Worker {
    /// Works until all clients are to end.
    pub fn run(mut self) -> Notes {
        let (client, edition) = (self.way.client(), self.way.map.edition());
        let (seen, notes) = (HashMap::new(), Notes::default());
        let (mut work, mut round) = (Work { client, edition, seen, written: 0, notes }, 0);
        while !self.stage.is_over() {
            if self.stage.is_held() && !matches!(self.role, Role::Probe(..)) {
                sleep(RETRY);
                continue;
            }
            if round != self.stage.round() {
                round = self.stage.round();
                self.turn(round, &mut work);
            }
            let does_all = matches!(self.role, Role::All(..));
            let scans = matches!(self.role, Role::Probe(Probe::Scan, _));
            if scans || does_all && self.way.scans && self.chance.modulo(8) == 0 {
                self.page(round, &mut work);
            } else if does_all && self.chance.modulo(8) == 0 {
                self.count(round, &mut work);
            } else {
                self.operate(round, &mut work);
            }
            if does_all && self.chance.modulo(NEW_SESSION) == 0 {
                self.renew(&mut work);
            }
            self.rest();
        }
        work.notes
    }

    fn rest(&mut self) {
        let timeout = self.way.options.timeout.as_nanos() as u64;
        let mut left = Duration::from_nanos(match self.role {
            Role::Probe(..) => PROBE_PAUSE.as_nanos() as u64,
            Role::All(..) => self.chance.modulo(PAUSE_MAX.as_nanos() as u64),
            Role::Rests => timeout + timeout / 4 + self.chance.modulo(2 * timeout),
        });
        while !left.is_zero() && !self.stage.is_over() {
            let piece = left.min(REST_LOOK);
            sleep(piece);
            left -= piece;
        }
    }

    /// Begins another round. Conditions are about its keys from now on, and one of the clients deletes the
    /// keys of a round long ago.
    fn turn(&mut self, round: u32, work: &mut Work) {
        work.seen.clear();
        let (Role::All(me, of), Some(old)) = (self.role, round.checked_sub(KEPT)) else { return };
        if old % of == me {
            for key in self.way.names.clone().of(old) {
                self.perform(key, Invocation::Delete, None, work);
            }
        }
    }

    /// Begins another session, which reads the map anew.
    fn renew(&self, work: &mut Work) {
        work.edition = self.way.map.edition();
        work.client = self.way.client();
    }

    /// Begins another session if the map has changed. An operation had no answer, and the group may be
    /// elsewhere now.
    pub(crate) fn astray(&self, work: &mut Work) {
        if work.edition != self.way.map.edition() {
            self.renew(work);
        }
    }

    /// The client of the group that has a key. `None` if it cannot connect, and nothing was asked then.
    fn reach<'a>(&self, client: &'a mut ClusterClient, key: &[u8]) -> Option<&'a mut Client> {
        let reached = client.group_of(key);
        if reached.is_err() {
            sleep(RETRY);
        }
        reached.ok()
    }

    /// Does a random operation to a random key, as the client's task has it.
    fn operate(&mut self, round: u32, work: &mut Work) {
        let (key, warmth) = match self.role {
            Role::Probe(_, group) => (self.way.names.of_probes(round, group), Warmth::Now),
            _ => self.way.names.draw(round, &mut self.chance),
        };
        work.written += 1;
        let new = values::number(self.number, work.written, warmth == Warmth::Bulk);
        let before = work.seen.get(&key).copied();
        let action = match (self.role, warmth, self.chance.modulo(16)) {
            (Role::Probe(Probe::Put, _), ..) | (Role::Rests, _, 0..8) => Invocation::Put(new),
            (Role::Probe(Probe::Get, _), ..) | (Role::Rests, ..) => Invocation::Get,
            (_, Warmth::Past, 1..) | (_, Warmth::Bulk, 9..15) | (_, Warmth::Now, 0..6) => Invocation::Get,
            (_, Warmth::Past, _) | (_, Warmth::Bulk, 0..9) | (_, Warmth::Now, 6..11) => Invocation::Put(new),
            (_, Warmth::Bulk, _) | (_, Warmth::Now, 11) => Invocation::Delete,
            (_, Warmth::Now, 12..14) if before.is_some() => {
                Invocation::Replace { expected: before.expect("it is some").0, new }
            }
            _ => Invocation::PutIfAbsent(new),
        };
        self.perform(key, action, before, work);
    }

    fn perform(&mut self, key: u32, action: Invocation, before: Option<(Value, Csn)>, work: &mut Work) {
        let name = self.way.names.key(key);
        let bytes = action.writes().map(|new| self.way.values.make(key, new, &mut self.chance));
        let bytes = bytes.unwrap_or_default();
        let Some(client) = self.reach(&mut work.client, &name) else { return self.astray(work) };
        let call = now();
        let attempt = Attempt { number: key, key: &name, action, bytes: &bytes, seen: before };
        let answer = self.act(client, attempt);
        let end = now();
        let answer = answer.or_else(|error| {
            if self.role == Role::Rests && gave_up_early(&error, end.since(call), self.way.options.timeout) {
                let (number, took) = (self.number, end.since(call).0 / 1_000);
                self.stage.fail(format!("client {number} had rested, and was told after {took} us: {error}"));
            }
            self.unanswered(&error).then_some((OperationOutcome::InDoubt, None)).ok_or(())
        });
        let Ok((outcome, version)) = answer else {
            work.notes.refused += 1;
            work.seen.remove(&key);
            return self.astray(work);
        };
        if let (Role::Probe(probe, group), false) = (self.role, outcome == OperationOutcome::InDoubt) {
            self.stage.answered(probe, group, call, end);
        }
        let operation = Operation { client: self.number, key, action, outcome, call, end, version };
        match operation.named() {
            Some(named) => work.seen.insert(key, named),
            None => work.seen.remove(&key),
        };
        work.notes.history.push(operation);
    }

    fn act(&self, client: &mut Client, attempt: Attempt<'_>) -> Result<Answer, Error> {
        let Attempt { number, key, action, bytes, seen } = attempt;
        match action {
            Invocation::Get => client.get_versioned(key).map(|got| self.found(number, got)),
            Invocation::Put(_) => {
                client.put(key, bytes).map(|version| (OperationOutcome::Done, Some(version)))
            }
            Invocation::PutIfAbsent(_) => client.put_if_absent(key, bytes).map(conditional),
            Invocation::Replace { .. } => {
                let (_, version) = seen.expect("replaced is what was seen");
                client.compare_and_set(key, version, bytes).map(conditional)
            }
            Invocation::Expire(_) => unreachable!("no client asks for it"),
            Invocation::Delete => client
                .delete(key)
                .map(|was| (if was { OperationOutcome::Done } else { OperationOutcome::Absent }, None)),
        }
    }

    /// Whether the operation is in doubt; an error that a client must never see is a failure of the run.
    pub(crate) fn unanswered(&self, error: &Error) -> bool {
        match error {
            Error::InDoubt(_)
            | Error::Lost { .. }
            | Error::Unresponsive { .. }
            | Error::Connect(_)
            | Error::Contended(_)
            | Error::OutOfMemory => {}
            error => self.stage.fail(format!("client {} was told: {error}", self.number)),
        }
        error.is_in_doubt()
    }

    fn found(&self, number: u32, got: Option<(Vec<u8>, Csn)>) -> Answer {
        let Some((bytes, version)) = got else { return (OperationOutcome::Absent, None) };
        match self.way.values.read(number, &bytes) {
            Ok(value) => (OperationOutcome::Found(value), Some(version)),
            Err(why) => {
                let name = String::from_utf8_lossy(&self.way.names.key(number)).into_owned();
                self.stage.fail(format!("client {}: the value of {name} {why}", self.number));
                // The judges are given a value that no client wrote, so that they see it, too.
                (OperationOutcome::Found(Value(u64::MAX)), Some(version))
            }
        }
    }

    fn count(&mut self, round: u32, work: &mut Work) {
        let number = round * COUNTERS + self.chance.modulo(COUNTERS.into()) as u32;
        let adds = self.chance.modulo(4) != 0;
        let key = self.way.names.counter(number);
        let Some(client) = self.reach(&mut work.client, &key) else { return self.astray(work) };
        let call = now();
        let told = if adds {
            client.increment(&key, 1).map(|sum| sum as u64)
        } else {
            client.get(&key).map(|found| found.map_or(0, |digits| self.parse(&digits)))
        };
        let (told, end) = match told {
            Ok(told) => (Some(told), now()),
            Err(error) if self.unanswered(&error) => (None, Nanos(u64::MAX)),
            Err(_) => {
                work.notes.refused += 1;
                return self.astray(work);
            }
        };
        work.notes.counts.push(Count { client: self.number, key: number, adds, told, call, end });
    }

    fn parse(&self, digits: &[u8]) -> u64 {
        let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| {
            self.stage.fail(format!("client {}: a counter holds {digits:?}", self.number));
            u64::MAX
        })
    }
}

/// Whether an operation ended for want of an answer though it had hardly begun. A client must not count the
/// time that it rested as time that it waited.
fn gave_up_early(error: &Error, took: Nanos, timeout: Duration) -> bool {
    let late = matches!(error, Error::Unresponsive { .. } | Error::InDoubt(_));
    late && Duration::from_nanos(took.0) < timeout / 2
}

fn conditional(put: Put) -> Answer {
    match put {
        Put::Stored(version) => (OperationOutcome::Done, Some(version)),
        Put::Mismatch(_) => (OperationOutcome::Refused, None),
    }
}

/// Gets every key and counter of some rounds once more, after all is well again: each acknowledged write must
/// be there. `number` is that of the client that looks.
pub fn look_at_all(
    way: &Way,
    stage: &Arc<Stage>,
    number: u32,
    rounds: Range<u32>,
) -> Result<(Vec<Operation>, Vec<Count>), Error> {
    let (mut client, names) = (way.client(), &way.names);
    let (way, chance) = (way.clone(), SplitMix64::new(0));
    let looker = Worker { number, role: Role::Rests, way, stage: stage.clone(), chance };
    let (mut left, mut counts) = (Vec::new(), Vec::new());
    let keys: Vec<u32> = rounds.clone().flat_map(|round| names.of(round)).collect();
    for keys in keys.chunks(AT_ONCE) {
        let (call, mut found) = (now(), Vec::new());
        let sought: Vec<Vec<u8>> = keys.iter().map(|key| names.key(*key)).collect();
        client.multi_get(&sought, |at, got| {
            let got = got.map(|(bytes, version)| (bytes.to_vec(), version));
            found.push((keys[at], looker.found(keys[at], got)));
        })?;
        let (client, action, end) = (number, Invocation::Get, now());
        let noted = found.into_iter().map(|(key, (outcome, version))| Operation {
            client,
            key,
            action,
            outcome,
            call,
            end,
            version,
        });
        left.extend(noted);
    }
    for key in rounds.start * COUNTERS..rounds.end * COUNTERS {
        let call = now();
        let told = client.get(&names.counter(key))?.map_or(0, |digits| looker.parse(&digits));
        let (client, adds, told, end) = (number, false, Some(told), now());
        counts.push(Count { client, key, adds, told, call, end });
    }
    Ok((left, counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rests_is_not_taken_for_who_waits() {
        let (timeout, soon, late) = (Duration::from_millis(300), Nanos(90_000), Nanos::from_millis(290));
        let unresponsive = Error::Unresponsive { address: "a".into(), waited: timeout };
        let doubt = Error::InDoubt("no answer within 300ms".into());
        for error in [unresponsive, doubt] {
            assert!(gave_up_early(&error, soon, timeout) && !gave_up_early(&error, late, timeout), "{error}");
        }
        assert!(!gave_up_early(&Error::OutOfMemory, soon, timeout), "that needs no wait");
    }
}
