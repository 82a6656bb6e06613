//! How a thread waits for one queue pair: polling is faster, sleep spares the CPU (NoSQL landscape 2.4).

use std::time::Duration;

use longarm_base::Nanos;
use longarm_host::{AdaptiveSpin, now};

use crate::QueuePair;

/// Waits until there is something to poll, or the time is over: looks for as long as that pays, and sleeps
/// then. What is waited for takes the peer about as long as `work`. What was posted must have been started
/// before ([`QueuePair::ring`]).
pub fn spin_and_wait(qp: &mut impl QueuePair, spin: &mut AdaptiveSpin, work: Nanos, timeout: Duration) {
    let begun = now();
    let until = begun + Nanos(timeout.as_nanos() as u64);
    if !spin.look(begun, work, || qp.ready()) {
        qp.wait(Duration::from_nanos(until.since(now()).0));
    }
}
