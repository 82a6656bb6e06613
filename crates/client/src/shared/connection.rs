//! A connection that threads share: a batch of what they want, executed together.
//!
//! Writes are submitted first, so that they are under way while the keys of GETs are looked up as one
//! multi-GET. All operations of a batch were called before it began, and none of them ends before it was
//! executed. So they overlap, and any order among them is right: a GET may see a write of its own batch or
//! not.

use longarm_fabric::Transport;

use super::combine::{Batch, Combined};
use crate::client::add;
use crate::cluster::ClusterClient;
use crate::error::{Error, same_of_another};
use crate::flight::{Reply, RequestId};
use crate::link::ClientCounters;
use crate::write::{OwnedWrite, Write};
use crate::{Csn, Options, Topology};

/// What a thread wants that found the connection taken.
pub(super) enum Operation {
    Get {
        key: Vec<u8>,
        /// Whether the value is wanted, and not only whether there is one.
        value: bool,
    },
    Write(OwnedWrite),
}

/// What became of it.
pub(super) enum Outcome {
    Got(Result<Option<(Vec<u8>, Csn)>, Error>),
    Wrote(Result<Reply, Error>),
}

/// A client that threads use one after the other.
pub(super) struct Connection<T: Transport + Clone> {
    transport: T,
    options: Options,
    pub(super) client: ClusterClient<T>,
    /// The counters of clients before this one.
    past: ClientCounters,
}

impl<T: Transport + Clone> Connection<T> {
    pub(super) fn new(transport: T, topology: Topology, options: Options) -> Connection<T> {
        let client = ClusterClient::over(transport.clone(), topology, options.clone());
        Connection { transport, options, client, past: ClientCounters::default() }
    }

    pub(super) fn counters(&self) -> ClientCounters {
        add(self.past, self.client.counters())
    }
}

impl<T: Transport + Clone> Combined for Connection<T> {
    type Operation = Operation;
    type Outcome = Outcome;

    fn execute(&mut self, batch: &Batch<Operation, Outcome>) {
        let mut round = Round::new(&mut self.client, batch);
        round.submit();
        round.get();
        round.settle(0);
    }

    /// The panic may have come in the middle of a step, so all connections are made anew.
    fn renew(&mut self) {
        let Connection { transport, options, client, past } = self;
        *past = add(*past, client.counters());
        *client = ClusterClient::over(transport.clone(), client.topology().clone(), options.clone());
    }
}

/// A batch while it is executed.
struct Round<'a, T: Transport + Clone> {
    client: &'a mut ClusterClient<T>,
    batch: &'a Batch<Operation, Outcome>,
    /// Writes under way, in the order in which they were submitted, by their numbers in the batch.
    open: Vec<(RequestId, usize)>,
    /// How many of these have their outcomes.
    settled: usize,
    /// The groups that could not be reached, and why: the other operations on their keys do not wait for the
    /// same again.
    lost: Vec<(usize, Error)>,
}

impl<'a, T: Transport + Clone> Round<'a, T> {
    fn new(client: &'a mut ClusterClient<T>, batch: &'a Batch<Operation, Outcome>) -> Round<'a, T> {
        Round { client, batch, open: Vec::new(), settled: 0, lost: Vec::new() }
    }

    /// Why the group of a key cannot be reached, if that is known.
    fn lost(&self, key: &[u8]) -> Option<Error> {
        if self.lost.is_empty() {
            return None;
        }
        let group = self.client.topology().group_of(key);
        self.lost.iter().find(|(lost, _)| *lost == group).map(|(_, why)| same_of_another(why))
    }

    fn submit(&mut self) {
        for (number, operation) in self.batch.operations().enumerate() {
            let Operation::Write(write) = operation else { continue };
            let write = write.write();
            match self.lost(write.key).map_or_else(|| self.submit_one(&write), Err) {
                Ok(Some(ticket)) => self.open.push((ticket, number)),
                // It was waited for.
                Ok(None) => self.batch.end(number, Outcome::Wrote(self.client.write(&write))),
                Err(error) => self.failed(&write, number, error),
            }
        }
    }

    /// Submits a write; `None` if requests that others gave up leave no room.
    fn submit_one(&mut self, write: &Write<'_>) -> Result<Option<RequestId>, Error> {
        loop {
            match self.client.submit(write) {
                Ok(ticket) => return Ok(Some(ticket)),
                Err(Error::Full) if self.settled < self.open.len() => {
                    self.settle(self.open.len() - self.settled - 1);
                }
                Err(Error::Full) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// A write was not sent.
    fn failed(&mut self, write: &Write<'_>, number: usize, error: Error) {
        let unreachable =
            matches!(error, Error::Lost { .. } | Error::Unresponsive { .. } | Error::Connect(_));
        if unreachable {
            self.lost.push((self.client.topology().group_of(write.key), same_of_another(&error)));
        }
        self.batch.end(number, Outcome::Wrote(Err(error)));
    }

    /// Looks up the keys of all GETs.
    fn get(&mut self) {
        let (mut numbers, mut keys) = (Vec::new(), Vec::new());
        for (number, operation) in self.batch.operations().enumerate() {
            let Operation::Get { key, value } = operation else { continue };
            match self.lost(key) {
                Some(error) => self.batch.end(number, Outcome::Got(Err(error))),
                None => {
                    numbers.push((number, *value));
                    keys.push(&key[..]);
                }
            }
        }
        if keys.is_empty() {
            return;
        }
        if !self.open.is_empty() {
            self.client.ring();
        }
        let mut left = vec![true; keys.len()];
        let batch = self.batch;
        let mut show = |at: usize, found: Option<(&[u8], Csn)>| {
            let (number, wanted): (usize, bool) = numbers[at];
            let found = found.map(|(value, csn)| (if wanted { value.to_vec() } else { Vec::new() }, csn));
            left[at] = false;
            batch.end(number, Outcome::Got(Ok(found)));
        };
        let looked = match keys[..] {
            [key] => match self.client.get_with(key, |value, csn| show(0, Some((value, csn)))) {
                Ok(None) => {
                    show(0, None);
                    Ok(())
                }
                found => found.map(drop),
            },
            _ => self.client.multi_get(&keys, &mut show),
        };
        let Err(error) = looked else { return };
        for (number, _) in numbers.into_iter().zip(left).filter(|(_, left)| *left).map(|(number, _)| number) {
            batch.end(number, Outcome::Got(Err(same_of_another(&error))));
        }
    }

    /// Waits until at most `most` writes are under way.
    fn settle(&mut self, most: usize) {
        while self.open.len() - self.settled > most {
            let (ticket, number) = self.open[self.settled];
            self.settled += 1;
            self.batch.end(number, Outcome::Wrote(self.client.wait(ticket)));
        }
    }
}
