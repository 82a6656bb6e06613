//! What a replica says of its ordered index.

use longarm_fabric::{Address, Transport};
use longarm_wire::{Bad, OrderedStats, ScanAnswer, ScanRequest};

use super::link::ScanLink;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::link::Trouble;
use crate::options::Options;

/// Asks the replica at an address how its ordered index stands, over a connection of its own. Refused with
/// [`longarm_wire::RefusalCode::NotOrdered`] by one that keeps none ([`crate::refusal`]).
pub fn ordered_stats<T: Transport>(
    transport: &T,
    address: &Address,
    options: &Options,
) -> Result<OrderedStats, Error> {
    let deadline = Deadline::within(options.timeout);
    let limit = options.connect_timeout;
    let mut link = ScanLink::connect(transport, address, options, limit).map_err(Error::Connect)?;
    let failed = |why: String| Error::NoPage(format!("{address} does not say how its index stands: {why}"));
    link.send(1, &ScanRequest::stats(1).encode(), 0).map_err(|error| failed(error.to_string()))?;
    let arrived = loop {
        match link.wait(1, &deadline) {
            Ok(arrived) => break arrived,
            // A replica that makes a tree of what it has read hears nobody meanwhile.
            Err(Trouble::Unresponsive) => {}
            Err(Trouble::Broken(why) | Trouble::Lost(why)) => return Err(failed(why)),
            Err(_) => return Err(failed("it did not answer in time".into())),
        }
    };
    let stats = ScanAnswer::decode(&arrived.bytes).and_then(|answer| answer.stats.ok_or(NO_STATS));
    stats.map_err(|bad| failed(bad.to_string()))
}

/// The answer of a replica that takes the request for another one.
const NO_STATS: Bad = Bad("an answer without statistics");
