//! Sleeping: no wake-up is lost, and no sleep is longer than allowed.

use std::time::{Duration, Instant};

use super::Setup;
use super::harness::*;
use crate::{Completion, Completions, Op, PEER_DEATH, QueuePair, Ticket};

const ROUNDS: u32 = 5000;

fn announce<Q: QueuePair>(qp: &mut Q, region: longarm_base::RegionId, imm: u32) {
    post(qp, Op::WriteImm { region, offset: 0, bytes: &[0; 8], imm }, Ticket::SILENT).expect("post");
    qp.ring();
}

pub fn waiting_ends_by_news_or_by_time<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    let time = Duration::from_millis(30);
    for qp in [&mut ours, &mut theirs] {
        let started = Instant::now();
        qp.wait(time);
        assert!(started.elapsed() >= time && started.elapsed() < SOON, "{:?}", started.elapsed());
    }
    woken_by(&mut ours, &mut theirs, ALL);
    woken_by(&mut theirs, &mut ours, BACK);
}

fn woken_by<Q: QueuePair>(sleeper: &mut Q, waker: &mut Q, region: longarm_base::RegionId) {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let started = Instant::now();
            sleeper.wait(SOON);
            started.elapsed()
        });
        waker.wait(Duration::from_millis(20));
        announce(waker, region, 1);
        assert!(waiting.join().expect("the waiting thread") < SOON);
    });
    assert_eq!(take(sleeper, 1), [Completion::Arrived { imm: 1, len: 8 }]);
}

/// Waits for the next arrival by sleeping as long as it takes; a lost wake-up is found by its length.
fn sleep_for<Q: QueuePair>(qp: &mut Q, sleep: impl Fn(&mut Q)) -> u32 {
    let mut completions = Completions::new(1);
    let started = Instant::now();
    loop {
        if qp.poll(&mut completions) == 1 {
            match completions.as_slice()[0] {
                Completion::Arrived { imm, .. } => return imm,
                other => panic!("{other:?}"),
            }
        }
        assert!(qp.state().is_ok(), "{:?}", qp.state());
        assert!(started.elapsed() < SOON, "slept through an arrival");
        sleep(qp);
    }
}

fn spin(rounds: u32) {
    (0..rounds * 37 % 400).for_each(|_| std::hint::spin_loop());
}

fn ping_pong<S: Setup>(server: &mut TestServer<S>, sleep: impl Fn(&mut Qp<S>)) {
    let (mut ours, mut theirs, _) = server.connection();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..ROUNDS {
                announce(&mut theirs, ALL, i);
                spin(i);
                assert_eq!(sleep_for(&mut theirs, |qp| qp.wait(SOON)), i);
            }
        });
        for i in 0..ROUNDS {
            assert_eq!(sleep_for(&mut ours, &sleep), i);
            spin(i.wrapping_mul(7));
            announce(&mut ours, BACK, i);
        }
    });
}

pub fn no_wake_up_is_lost_by_wait<S: Setup>() {
    ping_pong(&mut TestServer::<S>::new(), |qp| qp.wait(SOON));
}

pub fn no_wake_up_is_lost_by_the_channel<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let channel = server.channel.clone();
    ping_pong(&mut server, |qp| {
        if !qp.arm() {
            channel.wait(SOON);
        }
    });
}

pub fn the_channel_tells_of_a_peer_that_left<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let channel = server.channel.clone();
    let mut qps: Vec<_> =
        (0..3).map(|_| server.connection()).map(|(ours, theirs, _)| (ours, Some(theirs))).collect();
    for leaving in 0..3 {
        drop(qps[leaving].1.take());
        let started = Instant::now();
        let mut completions = Completions::new(8);
        while qps[leaving].0.state().is_ok() {
            assert!(started.elapsed() < PEER_DEATH, "nobody told us");
            let news = qps.iter_mut().fold(false, |news, (ours, _)| ours.arm() | news);
            if !news {
                channel.wait(PEER_DEATH);
            }
            qps.iter_mut().for_each(|(ours, _)| {
                ours.poll(&mut completions);
            });
        }
        assert!(qps.iter().skip(leaving + 1).all(|(ours, _)| ours.state().is_ok()), "the others stand");
    }
}

pub fn arming_with_news_asks_nothing<S: Setup>() {
    let mut server = TestServer::<S>::new();
    let (mut ours, mut theirs, _) = server.connection();
    assert!(!ours.arm(), "nothing yet");
    announce(&mut theirs, ALL, 3);
    assert!(server.channel.wait(SOON), "notified");
    let until = Instant::now() + SOON;
    while !ours.arm() {
        assert!(Instant::now() < until, "there is something to poll");
    }
    assert_eq!(take(&mut ours, 1), [Completion::Arrived { imm: 3, len: 8 }]);
    theirs.post(Op::FetchAdd { region: ALL, offset: 0, add: 1 }, Ticket(1)).expect("post");
    theirs.ring();
    let until = Instant::now() + SOON;
    while !theirs.arm() {
        assert!(Instant::now() < until, "our own completions are news too");
        theirs.wait(Duration::from_millis(1));
    }
    assert_eq!(take(&mut theirs, 1), [Completion::Done(Ticket(1), Ok(0))]);
}
