//! Reads everything back one-sidedly and compares every byte with the source.

use std::collections::BTreeMap;

use longarm_client::ClusterClient;

use crate::config::Config;
use crate::connect;
use crate::human;
use crate::items::difference::difference;
use crate::items::item::{Item, Next, Source};
use crate::output::Failure;
use crate::progress::Bar;

/// The most keys of one batch of GETs.
const BATCH: usize = 64;
/// The most bytes of the values of one batch, save for the last value.
const BATCH_BYTES: usize = 4 << 20;
/// The most differing keys that are remembered; with more the comparison ends.
const WRONG_MAX: usize = 10_000;

/// The outcome of the comparison.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Items read back.
    pub items: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Items with a time to live that are gone.
    pub expired: u64,
    /// Keys that differ, and how. Of several records of one key the last counts.
    pub wrong: BTreeMap<Vec<u8>, String>,
}

/// Compares all items of the source; `ttl` says whether items without a time of their own expire.
pub fn verify(source: &mut dyn Source, config: &Config, ttl: bool, bar: &Bar) -> Result<Verified, Failure> {
    let mut client = connect::connect(config, "longarm load --verify")?;
    let mut verified = Verified::default();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut read = 0;
    loop {
        let next = source.next()?;
        let end = next.is_none();
        if let Some(Next::Item(item)) = next {
            bytes += item.value.len();
            read += item.bytes;
            batch.push(item);
        }
        if batch.len() >= BATCH || bytes >= BATCH_BYTES || end {
            compare(&mut client, &batch, ttl, &mut verified)
                .map_err(|error| connect::failure(&error, config))?;
            batch.clear();
            bytes = 0;
            bar.at(verified.items, read);
        }
        if end || verified.wrong.len() >= WRONG_MAX {
            return Ok(verified);
        }
    }
}

fn compare(
    client: &mut ClusterClient,
    batch: &[Item],
    ttl: bool,
    verified: &mut Verified,
) -> Result<(), longarm_client::Error> {
    let keys: Vec<&[u8]> = batch.iter().map(|item| &item.key[..]).collect();
    // Outcomes have the order of the source: answers come in any order, and the last record of a key counts.
    let mut outcomes: Vec<Option<String>> = vec![None; batch.len()];
    let mut expired = vec![false; batch.len()];
    client.multi_get(&keys, |i, found| {
        let item = &batch[i];
        outcomes[i] = match found {
            None if ttl || item.ttl.is_some() => {
                expired[i] = true;
                None
            }
            None => Some(format!("{}: the key is missing", item.place)),
            Some((value, _)) => difference(&item.value, value).map(|how| format!("{}: {how}", item.place)),
        };
    })?;
    for (i, outcome) in outcomes.into_iter().enumerate() {
        verified.items += 1;
        verified.bytes += batch[i].value.len() as u64;
        verified.expired += u64::from(expired[i]);
        match outcome {
            Some(how) => verified.wrong.insert(batch[i].key.clone(), how),
            None => verified.wrong.remove(&batch[i].key),
        };
    }
    Ok(())
}

impl Verified {
    /// Says the outcome in words.
    pub fn text(&self) -> String {
        let read = format!("{} items, {}", human::count(self.items), human::bytes(self.bytes));
        let expired = match self.expired {
            0 => String::new(),
            n => format!("; {} of them have expired", human::count(n)),
        };
        match self.wrong.len() {
            0 => format!("verified: {read} read back, every byte equal{expired}"),
            n => format!("verification FAILED: {} of {read} differ{expired}", human::count(n as u64)),
        }
    }
}
