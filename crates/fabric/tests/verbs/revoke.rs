//! Rule 8, tried hard: after `revoke` returned, no byte of that peer's changes.
//!
//! Putting a queue pair into ERR is not enough: on Soft-RoCE of Linux 6.1 the call returned before the last
//! WRITE had landed in 6 of 1,000 tries. So the peer here has as much under way as it may, short and long
//! WRITEs and atomics, and the memory is watched whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use longarm_fabric::conformance::harness::*;
use longarm_fabric::{Broken, Channel, Completions, Op, PostError, QueuePair, Ticket};
use longarm_memory::{Mapped, Words};

use crate::suite::OverVerbs;

const ROUNDS: u64 = 150;
const LONG: usize = 32 << 10;

fn image(memory: &Mapped) -> Vec<u8> {
    let mut bytes = vec![0; BYTES as usize];
    memory.copy_out(0, &mut bytes);
    bytes
}

/// Keeps the queue full until it breaks.
fn hammer(qp: &mut Qp<OverVerbs>, seed: u64, posted: &AtomicU64) {
    let mut completions = Completions::new(256);
    let long = pattern(seed, LONG);
    for i in seed.. {
        let word = i.to_le_bytes();
        let op = match (seed + i) % 4 {
            0 => Op::FetchAdd { region: ALL, offset: i % 64 * 8, add: 1 },
            1 => Op::Write { region: ALL, offset: LONG as u64 + i % 8 * LONG as u64, bytes: &long },
            _ => Op::Write { region: ALL, offset: 4096 + i % 512 * 8, bytes: &word },
        };
        let result = qp.post(op, Ticket::SILENT);
        qp.ring();
        qp.poll(&mut completions);
        completions.clear();
        if result == Err(PostError::Broken) || qp.state().is_err() {
            return;
        }
        // Relaxed: says only that the thread is at work.
        posted.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn no_byte_changes_after_revoke_under_load() {
    let mut server = Server::<OverVerbs>::new();
    let all = server.memory.all.memory().clone();
    let nobody = Channel::new().expect("channel");
    for round in 0..ROUNDS {
        let (mut ours, mut theirs, _) = server.connection();
        let posted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| hammer(&mut theirs, round, &posted));
            let until = Instant::now() + SOON;
            // Relaxed: pairs with the addition above.
            while posted.load(Ordering::Relaxed) < 60 + round {
                assert!(Instant::now() < until, "the peer is not at work");
                std::thread::yield_now();
            }
            ours.revoke().expect("revoke");
            let before = image(&all);
            // What is late comes within a few milliseconds; the first look is at once.
            for wait in [0, 1, 10] {
                nobody.wait(Duration::from_millis(wait));
                assert!(image(&all) == before, "round {round}: changed after revoke returned");
            }
            assert_eq!(ours.state(), Err(Broken::Revoked));
        });
        assert!(
            matches!(theirs.state(), Err(Broken::PeerLost(_) | Broken::Protocol(_))),
            "{:?}",
            theirs.state()
        );
    }
}

#[test]
fn a_revoked_peer_may_be_let_in_again() {
    let mut server = Server::<OverVerbs>::new();
    for i in 0..5 {
        let (mut ours, mut theirs, _) = server.connection();
        assert_eq!(run(&mut theirs, Op::FetchAdd { region: ALL, offset: 0, add: 1 }), Ok(i));
        ours.revoke().expect("revoke");
        until_broken(&mut theirs, longarm_fabric::PEER_DEATH);
    }
}
