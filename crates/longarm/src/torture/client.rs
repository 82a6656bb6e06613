//! A client that notes what it did and saw.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_client::{Any, Client, ClusterClient, Csn, Error, Options, Put};
use longarm_history::counters::Count;
use longarm_history::{Action, History, Operation, Outcome, Value};
use longarm_host::{now, sleep};

use super::names::{COUNTERS, Names};
use super::stage::{Probe, Stage};
use crate::commands::demo::data::{Numbers, fill, judge};

/// Longest pause of a client between two operations: many clients share few cores, and the history is to fit
/// into memory.
const PAUSE_MAX: Duration = Duration::from_millis(4);
/// Pause of a probe, which is how exactly it sees gaps.
const PROBE_PAUSE: Duration = Duration::from_micros(500);
/// Pause before another try to connect.
const RETRY: Duration = Duration::from_millis(5);
/// One operation in so many is the last of its client: another session takes its place.
const NEW_SESSION: u64 = 1_000;

/// How clients reach the groups.
#[derive(Clone)]
pub struct Way {
    /// Settings of the transports.
    pub transport: Any,
    /// Names of keys, and where the groups that have them are for clients.
    pub names: Names,
    /// Bounds and login.
    pub options: Options,
}

impl Way {
    /// A client that connects when it must.
    fn client(&self) -> ClusterClient {
        ClusterClient::over(self.transport.clone(), self.names.topology().clone(), self.options.clone())
    }
}

/// What a client noted.
#[derive(Default)]
pub struct Notes {
    /// Operations on values.
    pub history: History,
    /// Operations on counters.
    pub counts: Vec<Count>,
    /// Operations without an effect and without an answer.
    pub refused: u64,
}

/// A client and what it is for.
pub struct Worker {
    /// Its number, from 1 on.
    pub number: u32,
    /// What it does all the time, and in which group, or `None` for everything.
    pub probe: Option<(Probe, usize)>,
    /// How it reaches the groups.
    pub way: Way,
    /// What it shares with others.
    pub stage: Arc<Stage>,
    /// Its own chance.
    pub chance: Numbers,
}

/// What a client was told, and of which version.
type Answer = (Outcome, Option<Csn>);

impl Worker {
    /// Works until everybody is to end.
    pub fn run(mut self) -> Notes {
        let mut notes = Notes::default();
        let (mut client, mut written) = (self.way.client(), 0);
        // What it saw last of each key of the round: conditions are about that.
        let (mut seen, mut round) = (HashMap::new(), 0);
        while !self.stage.is_over() {
            if round != self.stage.round() {
                round = self.stage.round();
                seen.clear();
            }
            if self.probe.is_none() && self.chance.below(8) == 0 {
                self.count(&mut client, round, &mut notes);
            } else {
                written += 1;
                let value = Value(u64::from(self.number) << 40 | written);
                self.operate(&mut client, (round, value), &mut seen, &mut notes);
            }
            if self.probe.is_none() && self.chance.below(NEW_SESSION) == 0 {
                client = self.way.client();
            }
            sleep(self.pause());
        }
        notes
    }

    fn pause(&mut self) -> Duration {
        match self.probe {
            Some(_) => PROBE_PAUSE,
            None => Duration::from_nanos(self.chance.below(PAUSE_MAX.as_nanos() as u64)),
        }
    }

    /// The client of the group that has a key; `None` if it is not connected, and could not be. Nothing was
    /// asked then.
    fn reach<'a>(&self, client: &'a mut ClusterClient, key: &[u8]) -> Option<&'a mut Client> {
        let reached = client.group_of(key);
        if reached.is_err() {
            sleep(RETRY);
        }
        reached.ok()
    }

    fn operate(
        &mut self,
        client: &mut ClusterClient,
        (round, new): (u32, Value),
        seen: &mut HashMap<u32, (Value, Csn)>,
        notes: &mut Notes,
    ) {
        let key = match self.probe {
            Some((_, group)) => self.way.names.of_probes(round, group),
            None => self.way.names.draw(round, &mut self.chance),
        };
        let name = self.way.names.key(key);
        let Some(client) = self.reach(client, &name) else { return };
        let before = seen.get(&key).copied();
        let action = match (self.probe.map(|(probe, _)| probe), self.chance.below(10), before) {
            (Some(Probe::Put), ..) => Action::Put(new),
            (Some(Probe::Get), ..) | (None, 0..4, _) => Action::Get,
            (None, 4..7, _) => Action::Put(new),
            (None, 7, _) => Action::Delete,
            (None, 8, Some((expected, _))) => Action::Replace { expected, new },
            _ => Action::PutIfAbsent(new),
        };
        let call = now();
        let answer = self.act(client, (key, &name), action, before);
        let end = now();
        let Some((outcome, version)) = answer else {
            notes.refused += 1;
            seen.remove(&key);
            return;
        };
        if let (Some(probe), false) = (self.probe, outcome == Outcome::InDoubt) {
            self.stage.answered(probe, (call, end));
        }
        let operation = Operation { client: self.number, key, action, outcome, call, end, version };
        match operation.named() {
            Some(named) => seen.insert(key, named),
            None => seen.remove(&key),
        };
        notes.history.push(operation);
    }

    /// `None` if it certainly did nothing.
    fn act(
        &self,
        client: &mut Client,
        (number, key): (u32, &[u8]),
        action: Action,
        seen: Option<(Value, Csn)>,
    ) -> Option<Answer> {
        let result = match action {
            Action::Get => client.get_versioned(key).map(|got| self.found(number, got)),
            Action::Put(value) => {
                client.put(key, &bytes(number, value)).map(|version| (Outcome::Done, Some(version)))
            }
            Action::PutIfAbsent(value) => client.put_if_absent(key, &bytes(number, value)).map(conditional),
            Action::Replace { new, .. } => {
                let (_, version) = seen.expect("replaced is what was seen");
                client.compare_and_set(key, version, &bytes(number, new)).map(conditional)
            }
            Action::Delete => {
                client.delete(key).map(|was| (if was { Outcome::Done } else { Outcome::Absent }, None))
            }
        };
        result.or_else(|error| self.unanswered(&error).then_some((Outcome::InDoubt, None)).ok_or(())).ok()
    }

    /// Whether the operation is in doubt; an error that a client must never see is a failure of the run.
    fn unanswered(&self, error: &Error) -> bool {
        match error {
            Error::InDoubt(_) => return true,
            Error::Lost { .. }
            | Error::Unresponsive { .. }
            | Error::Connect(_)
            | Error::Contended(_)
            | Error::OutOfMemory => {}
            error => self.stage.fail(format!("client {} was told: {error}", self.number)),
        }
        false
    }

    fn found(&self, number: u32, got: Option<(Vec<u8>, Csn)>) -> Answer {
        let Some((bytes, version)) = got else { return (Outcome::Absent, None) };
        match judge(number.into(), &bytes, len_of, &mut Vec::new()) {
            Ok(value) => (Outcome::Found(Value(value)), Some(version)),
            Err(why) => {
                let name = String::from_utf8_lossy(&self.way.names.key(number)).into_owned();
                self.stage.fail(format!("client {}: the value of {name} {why}", self.number));
                // A value that nobody wrote: the judges see it, too.
                (Outcome::Found(Value(u64::MAX)), Some(version))
            }
        }
    }

    fn count(&mut self, client: &mut ClusterClient, round: u32, notes: &mut Notes) {
        let number = round * COUNTERS + self.chance.below(COUNTERS.into()) as u32;
        let adds = self.chance.below(4) != 0;
        let key = self.way.names.counter(number);
        let Some(client) = self.reach(client, &key) else { return };
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
                notes.refused += 1;
                return;
            }
        };
        notes.counts.push(Count { client: self.number, key: number, adds, told, call, end });
    }

    fn parse(&self, digits: &[u8]) -> u64 {
        let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| {
            self.stage.fail(format!("client {}: a counter holds {digits:?}", self.number));
            u64::MAX
        })
    }
}

/// Most values fit a slot, some are long, few go in pieces.
fn len_of(value: u64) -> usize {
    let mut chance = Numbers(value);
    16 + match chance.below(256) {
        0 => chance.below(100_000) as usize,
        1..64 => chance.below(3_000) as usize,
        _ => chance.below(24) as usize,
    }
}

fn bytes(number: u32, value: Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    fill(number.into(), value.0, len_of(value.0), &mut bytes);
    bytes
}

fn conditional(put: Put) -> Answer {
    match put {
        Put::Stored(version) => (Outcome::Done, Some(version)),
        Put::Mismatch(_) => (Outcome::Refused, None),
    }
}

/// Gets every key and counter of all rounds once more, when all is well again: what was acknowledged must be
/// there.
pub fn look_at_all(way: &Way, stage: &Arc<Stage>) -> Result<(Vec<Operation>, Vec<Count>), Error> {
    let (mut client, names) = (way.client(), &way.names);
    let (number, rounds) = (u32::MAX, stage.round() + 1);
    let (way, chance) = (way.clone(), Numbers(0));
    let looker = Worker { number, probe: None, way, stage: stage.clone(), chance };
    let (mut left, mut counts) = (Vec::new(), Vec::new());
    for key in 0..rounds * names.a_round() {
        let call = now();
        let (outcome, version) = looker.found(key, client.get_versioned(&names.key(key))?);
        let (client, action, end) = (number, Action::Get, now());
        left.push(Operation { client, key, action, outcome, call, end, version });
    }
    for key in 0..rounds * COUNTERS {
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
    fn values_describe_themselves_and_are_of_all_lengths() {
        let value = |n: u64| Value(7 << 40 | n);
        for n in 0..600 {
            let bytes = bytes(3, value(n));
            assert_eq!(judge(3, &bytes, len_of, &mut Vec::new()), Ok(value(n).0));
            assert!(judge(4, &bytes, len_of, &mut Vec::new()).is_err(), "of another key");
        }
        let lens: Vec<usize> = (0..600).map(|n| len_of(value(n).0)).collect();
        assert!(lens.iter().any(|&len| len > 10_000) && lens.iter().filter(|&&len| len < 48).count() > 300);
    }
}
