//! Multi-GET over groups: READs to all of them are under way at the same time.

use longarm_base::Csn;
use longarm_fabric::{QueuePair, Transport};

use super::ClusterClient;
use crate::batch::Batch;
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::get::check_key;
use crate::link::Trouble;

/// The remaining keys of a group.
#[derive(Default)]
struct GroupKeys {
    /// The numbers of the keys.
    numbers: Vec<usize>,
    /// How many of them are looked up or under way.
    begun: usize,
    batch: Batch,
    /// The keys that one look does not settle, or whose group is in trouble. They are got when all others are
    /// done, as a multi-GET of that group alone.
    left: Vec<usize>,
}

impl GroupKeys {
    /// Takes the next numbers; returns whether there were any.
    fn load(&mut self, most: usize) -> bool {
        let mut next = self.numbers[self.begun..].iter().copied();
        let some = self.batch.load(&mut next, most);
        self.begun += self.batch.rest.len();
        self.batch.open = 0;
        some
    }

    /// Notes the outcome of one look; after a failed look nothing more is begun.
    fn looked(&mut self, outcome: Result<(), Trouble>) {
        if outcome.is_err() {
            // The trouble shows again when the keys are tried alone, and is dealt with then.
            self.left.extend(self.numbers.drain(self.begun..));
        }
        self.left.append(&mut self.batch.rest);
        self.left.append(&mut self.batch.large);
        self.batch.open = 0;
    }
}

impl<T: Transport + Clone> ClusterClient<T> {
    /// Looks up all keys and shows each value (or `None`) with its key's number, in any order. READs to all
    /// groups are under way together. An error of one group does not keep values of another from being shown.
    /// For keys that were not shown, see [`Client::multi_get`].
    pub fn multi_get(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        mut show: impl FnMut(usize, Option<(&[u8], Csn)>),
    ) -> Result<(), Error> {
        if self.clients.len() == 1 {
            return self.group(0)?.multi_get(keys, show);
        }
        let mut parts: Vec<GroupKeys> = self.clients.iter().map(|_| GroupKeys::default()).collect();
        for (number, key) in keys.iter().enumerate() {
            check_key(key.as_ref())?;
            parts[self.topology.group_of(key.as_ref())].numbers.push(number);
        }
        let mut outcome = Ok(());
        for (group, part) in parts.iter_mut().enumerate().filter(|(_, part)| !part.numbers.is_empty()) {
            if let Err(error) = self.group(group) {
                part.numbers.clear();
                outcome = outcome.and(Err(error));
            }
        }
        let deadline = &Deadline::within(self.options.timeout);
        while look_once(&mut self.clients, &mut parts, keys, deadline, &mut show) {}
        for (client, part) in self.clients.iter_mut().zip(parts) {
            let Some(client) = client.as_mut().filter(|_| !part.left.is_empty()) else { continue };
            outcome = outcome.and(client.get_all(keys, part.left.into_iter(), &mut show));
        }
        outcome
    }
}

/// Takes one look at some keys of each group, all at the same time. Returns whether there was any key to look
/// up.
fn look_once<T: Transport>(
    clients: &mut [Option<Client<T>>],
    parts: &mut [GroupKeys],
    keys: &[impl AsRef<[u8]>],
    deadline: &Deadline,
    show: &mut impl FnMut(usize, Option<(&[u8], Csn)>),
) -> bool {
    let mut looking: Vec<(&mut Client<T>, &mut GroupKeys)> = Vec::with_capacity(parts.len());
    for (client, part) in clients.iter_mut().zip(parts) {
        let Some(client) = client.as_mut().filter(|client| part.load(client.batch_limit.keys())) else {
            continue;
        };
        match client.begin_batch(keys, &mut part.batch, deadline) {
            Ok(()) => {
                if let Some(link) = &mut client.link {
                    link.qp.ring();
                }
                looking.push((client, part));
            }
            Err(trouble) => part.looked(Err(trouble)),
        }
    }
    let any = !looking.is_empty();
    // A group that has all it wanted is shown at once, since its lease is running.
    while !looking.is_empty() {
        looking.retain_mut(|(client, part)| {
            let turned = match part.batch.open {
                0 => Ok(false),
                _ => client.turn_batch(keys, &mut part.batch, deadline).map(|()| part.batch.open > 0),
            };
            let outcome = match turned {
                Ok(true) => {
                    if let Some(link) = &mut client.link {
                        link.qp.ring();
                    }
                    return true;
                }
                Ok(false) => client.end_batch(&mut part.batch, deadline, show).map(|_| ()),
                Err(trouble) => Err(trouble),
            };
            part.looked(outcome);
            false
        });
    }
    any
}
