//! Rule 8: nothing of a revoked peer takes effect any more, however busy it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use longarm_memory::{Mapped, Words};

use super::Setup;
use super::child::Process;
use super::harness::*;
use crate::{
    Broken, Channel, Completions, Grant, Incoming, Listener, Op, PEER_DEATH, PostError, QueuePair, Rights,
    Ticket,
};

fn image(memory: &Mapped) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    memory.copy_out(0, &mut bytes);
    bytes
}

/// Lets time pass without sleeping: nobody notifies this channel.
fn pass(time: Duration) {
    Channel::new().expect("channel").wait(time);
}

pub fn nothing_takes_effect_after_revoke<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let all = server.memory.all.memory().clone();
    for _ in 0..10 {
        let (mut ours, mut theirs, _) = server.connection();
        let writes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut completions = Completions::new(64);
                for i in 1u64.. {
                    let word = i.to_le_bytes();
                    let offset = i % 64 * 8;
                    let op = match i % 3 {
                        0 => Op::FetchAdd { region: ALL, offset, add: 1 },
                        1 => Op::Write { region: ALL, offset, bytes: &word },
                        _ => Op::WriteImm { region: ALL, offset, bytes: &word, imm: 1 },
                    };
                    let result = theirs.post(op, Ticket::SILENT);
                    theirs.ring();
                    theirs.poll(&mut completions);
                    completions.clear();
                    if result == Err(PostError::Broken) || theirs.state().is_err() {
                        break;
                    }
                    // Relaxed: says only that the thread is at work.
                    writes.store(i, Ordering::Relaxed);
                }
            });
            let mut completions = Completions::new(64);
            let until = Instant::now() + SOON;
            // Relaxed: pairs with the store above.
            while writes.load(Ordering::Relaxed) < 200 {
                ours.poll(&mut completions);
                completions.clear();
                assert!(Instant::now() < until, "the peer is not at work");
            }
            ours.revoke().expect("revoke");
            let before = image(&all);
            pass(Duration::from_millis(20));
            assert!(image(&all) == before, "changed after revoke returned");
            assert_eq!(ours.state(), Err(Broken::Revoked));
            assert_eq!(ours.poll(&mut completions), 0, "nothing arrives any more");
            ours.revoke().expect("once more is no error");
        });
    }
}

pub fn nothing_of_another_process_takes_effect_after_revoke<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let all = server.memory.all.memory().clone();
    let starting = server.address.clone();
    let (mut ours, _process) = std::thread::scope(|scope| {
        let process = scope.spawn(|| Process::start::<S>("client", &starting).0);
        (server.accept(), process.join().expect("the child's thread"))
    });
    let until = Instant::now() + SOON;
    let first = image(&all);
    while image(&all) == first {
        assert!(Instant::now() < until, "the peer is not at work");
    }
    ours.revoke().expect("revoke");
    let before = image(&all);
    pass(Duration::from_millis(100));
    assert!(image(&all) == before, "changed after revoke returned");
    assert_eq!(ours.state(), Err(Broken::Revoked));
}

pub fn a_peer_that_heeds_is_fenced_and_lives<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let all = server.memory.all.memory().clone();
    let starting = server.address.clone();
    let (mut ours, mut process) = std::thread::scope(|scope| {
        let process = scope.spawn(|| Process::start::<S>("heeding client", &starting).0);
        (server.accept(), process.join().expect("the child's thread"))
    });
    let until = Instant::now() + SOON;
    let first = image(&all);
    while image(&all) == first {
        assert!(Instant::now() < until, "the peer is not at work");
    }
    ours.fence().expect("fence");
    let before = image(&all);
    pass(Duration::from_millis(100));
    assert!(image(&all) == before, "changed after fence returned");
    assert_eq!(ours.state(), Err(Broken::Revoked));
    assert!(process.ends(), "it was told, not killed");
}

pub fn a_revoked_reader_is_cut_off<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let address = server.address.clone();
    let (mut ours, mut theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| connect::<S>(&address, Vec::new()).expect("connect").qp);
        let incoming = server.listener.accept(SOON).expect("accept").expect("a peer");
        let look = Grant { id: LOOK, region: server.memory.look.clone(), rights: Rights::READ };
        let ours = incoming.accept(b"", vec![look], 0, &server.channel).expect("let in");
        (ours, theirs.join().expect("the client's thread"))
    });
    assert_eq!(read(&mut theirs, LOOK, 0, 8), [0; 8]);
    ours.revoke().expect("revoke");
    let (_, broken) = until_broken(&mut theirs, PEER_DEATH);
    assert!(matches!(broken, Broken::PeerLost(_) | Broken::Revoked | Broken::Closed), "{broken:?}");
    let again = Op::Read { from: longarm_base::Place::new(LOOK, 0, 8), into: 0 };
    assert_eq!(theirs.post(again, Ticket(1)), Err(PostError::Broken));
}
