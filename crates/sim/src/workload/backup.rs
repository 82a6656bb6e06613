//! Backups: a client copies all that a leader holds at one version, while others write. What the backup has
//! of each key is noted as one page of all keys.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use longarm_backup::{CopyError, Copying, Frame, Leader};
use longarm_base::{Csn, Nanos};
use longarm_client::{Client, Error};
use longarm_fabric::sim::Sim;
use longarm_history::{Direction, Item, Page, Value};

use super::{AtWork, time, values};

/// The longest time that a client lets pass between two segments.
const PACE: u64 = 3_000;

impl AtWork {
    /// Makes a backup. Panics if it has what no client can have written.
    pub(super) fn back_up(&mut self) {
        self.begun += 1;
        let pace = Duration::from_micros(self.worker.chance.below(PACE));
        let call = time();
        let made = self.client.group(0).map_err(CopyError::Source).and_then(|leader| copy(leader, pace));
        match made {
            Ok((end, frames)) => {
                let items = self.items(&frames);
                let (client, scan, limit) = (self.worker.number, self.scans, usize::MAX);
                let (low, high, direction) = (Bound::Unbounded, Bound::Unbounded, Direction::Ascending);
                let page = Page { client, scan, low, high, direction, limit, more: false, items, call, end };
                let noted = &mut *self.worker.noted.borrow_mut();
                noted.backups += 1;
                noted.plain.push_page(page);
            }
            // The hold is over, or somebody else makes a backup.
            Err(CopyError::Source(Error::BackupOver(_) | Error::NoBackup(_))) => {}
            Err(CopyError::Source(error)) => self.forgive(error),
            Err(CopyError::Corrupt(what) | CopyError::Unrelated(what)) => {
                panic!("client {}: a backup: {what}", self.worker.number)
            }
        }
        self.scans += 1;
    }

    /// Of each key the newest entry, unless that is a delete.
    fn items(&self, frames: &[Frame]) -> Vec<Item> {
        let mut newest = BTreeMap::<u32, (Csn, Option<Value>)>::new();
        for entry in frames.iter().flat_map(Frame::iter) {
            let name = String::from_utf8_lossy(entry.key);
            let key = self.worker.load.key(entry.key);
            let key = key.unwrap_or_else(|| panic!("torn: a backup has the key {name}"));
            let value = entry.kind.is_value().then(|| values::read(key, entry.value));
            let known = newest.entry(key).or_insert((entry.csn, value));
            if known.0 < entry.csn {
                *known = (entry.csn, value);
            }
        }
        let item = |(key, (csn, value)): (u32, (Csn, Option<Value>))| {
            value.map(|value| Item { key, value: Some(value), version: Some(csn) })
        };
        newest.into_iter().filter_map(item).collect()
    }
}

/// Copies what the leader holds. When its version had surely been taken, and what is in the segments.
fn copy(leader: &mut Client<Sim>, pace: Duration) -> Result<(Nanos, Vec<Frame>), CopyError<Error>> {
    let mut copying = Copying::begin(Leader::of(leader)?, None)?;
    let (taken, mut frames) = (time(), Vec::new());
    loop {
        match copying.step() {
            Ok(Some(step)) => frames.extend(step.frame),
            Ok(None) => break,
            Err(error) => {
                // What is READ once the hold is over may be anything.
                copying.tell()?;
                return Err(error);
            }
        }
        if !copying.is_waited_for() {
            longarm_host::sleep(pace);
            copying.tell()?;
        }
    }
    copying.end()?;
    Ok((taken, frames))
}
