//! How a thread waits for one queue pair: polling is faster, sleep spares the CPU (NoSQL landscape 2.4).

use std::time::Duration;

use longarm_base::Nanos;
use longarm_host::{AdaptiveSpin, now};

use crate::QueuePair;

/// Waits until there is something to poll: looks for as long as that pays, and sleeps then, for as long as
/// `most` says of the moment at which it begins to. What is waited for takes the peer about as long as
/// `work`. What was posted must have been started before ([`QueuePair::ring`]).
pub fn spin_and_wait(
    qp: &mut impl QueuePair,
    spin: &mut AdaptiveSpin,
    work: Nanos,
    most: impl FnOnce(Nanos) -> Duration,
) {
    let offers = qp.offers_core();
    if !spin.look(now(), work, offers, || qp.ready()) {
        qp.wait(most(now()));
    }
}
