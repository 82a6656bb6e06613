//! Clients that write numbers until their server is gone, each to keys of its own, and what must be there
//! then.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Keys of a lane: one client writes the numbers from 1 on to them, one key after the other.
const LANE: u64 = 10;

/// How long before a kill a write was acknowledged that must be there in `async` mode: the window, and what
/// the server may be late by on a machine that is busy.
const SETTLED: Duration = Duration::from_millis(1_500);

/// What a client knows of its lane.
#[derive(Clone, Copy, Default)]
pub struct Lane {
    /// The last number that was acknowledged.
    pub acknowledged: u64,
    /// The last number that was sent.
    pub sent: u64,
    /// The last one that was acknowledged some time before the end.
    pub settled: u64,
}

fn key(lane: u64, number: u64) -> Vec<u8> {
    format!("lane {lane} key {}", number % LANE).into_bytes()
}

/// Writes numbers until `put` fails.
pub fn write(lane: u64, from: u64, mut put: impl FnMut(&[u8], &[u8]) -> bool) -> Lane {
    let mut known = Lane { acknowledged: from, sent: from, settled: from };
    let mut acknowledged = VecDeque::new();
    loop {
        known.sent += 1;
        if !put(&key(lane, known.sent), &known.sent.to_le_bytes()) {
            let settled = |(at, _): &&(Instant, u64)| at.elapsed() > SETTLED;
            known.settled = acknowledged.iter().rev().find(settled).map_or(from, |(_, number)| *number);
            return known;
        }
        known.acknowledged = known.sent;
        acknowledged.push_back((Instant::now(), known.sent));
    }
}

/// The last number that is there. What is there is what the lane was at a moment.
pub fn look(lane: u64, mut get: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> u64 {
    let number = |value: Vec<u8>| u64::from_le_bytes(value.try_into().expect("a number"));
    let there: Vec<u64> = (0..LANE).map(|at| get(&key(lane, at)).map_or(0, number)).collect();
    let last = there.iter().copied().max().unwrap_or(0);
    for (at, &number) in (0..).zip(&there) {
        let want = (0..LANE).map(|back| last.saturating_sub(back)).find(|number| number % LANE == at);
        assert_eq!(number, want.unwrap_or(0), "lane {lane}: {there:?} was never there at one moment");
    }
    last
}
