//! How long nobody is served when a leader is lost, with many objects and the paper's timing (LoLKV 6.5).
//!
//! A world charges no CPU for what tasks do, but for what grows with the data: who restores spends
//! [`longarm_server::RESTORE_ENTRY`] on each entry. So what is measured is the protocol's time and that.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_client::{Client, Error, Options, Write};
use longarm_fabric::sim::{Sim, Weather};
use longarm_server::{ServerOptions, TakeoverStats};

use crate::replicas::{ClusterSize, QUICK, Servers};
use crate::world::{Drift, Stopped, World};

/// Writes under way while objects are put in.
const DEPTH: usize = 32;
/// How long a leader is gone; it comes back without its memory.
const DOWN: Nanos = Nanos::from_millis(100);
/// The loop that looks whether something is reached.
const LOOK: Nanos = Nanos::from_millis(20);
/// Bound on anything that is waited for.
const PATIENCE: Nanos = Nanos::from_millis(600_000);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    /// Objects that the group holds.
    pub objects: u64,
    /// How often a leader is lost.
    pub times: u32,
    /// Between two of these, once all are in sync.
    pub rest: Nanos,
    /// How long it is at most until who is connected to it is told. Of a process that is killed, as in the
    /// paper, a NIC says so at once; of a machine that is gone, the other side's NIC when it gives up.
    pub notice: Nanos,
    /// What the world is drawn from.
    pub seed: u64,
}

/// What the client saw.
#[derive(Default)]
struct Seen {
    loaded: bool,
    /// When a write was answered last, and the longest time between two since somebody looked.
    last: Nanos,
    gap: Nanos,
    wrong: Option<Error>,
}

/// One loss of a leader.
#[derive(Clone, Debug)]
pub struct Lost {
    /// How long no write was answered.
    pub gap: Nanos,
    /// What the new leader's part of it went into, if it still says so.
    pub takeover: Option<TakeoverStats>,
}

/// What each loss was like, in order. An error if something did not come to be.
pub fn measure(failover: Failover) -> Result<Vec<Lost>, String> {
    let (world, sim) =
        (World::new(failover.seed), Sim::new(Weather { give_up: failover.notice, ..Weather::FINE }));
    let memory = (failover.objects * 512).max(64 << 20);
    let options = ServerOptions {
        spin: Duration::ZERO,
        memory,
        expected_items: 1000,
        log: longarm_server::Log::silent(),
        ..ServerOptions::default()
    };
    let size = ClusterSize { servers: 3, founders: 3, groups: 1 };
    let servers = Servers::new(size, options, QUICK, Duration::from_micros(200));
    for node in 0..3 {
        world.add_machine(Drift::default());
        world.start(node, "server", servers.body(&sim, node));
    }
    let client = world.add_machine(Drift::default());
    let seen = Rc::new(RefCell::new(Seen::default()));
    let (net, addresses, objects, tell) =
        (sim.clone(), servers.addresses.clone(), failover.objects, seen.clone());
    world.start(client, "client", move || {
        if let Err(error) = load_and_write(net, &addresses, objects, &tell) {
            tell.borrow_mut().wrong = Some(error);
        }
    });
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let begun = world.time();
        while !is_so() {
            if let Some(error) = &seen.borrow().wrong {
                return Err(format!("{what}: {error}"));
            }
            if world.time().since(begun) > PATIENCE || world.run(world.time() + LOOK) != Stopped::Time {
                return Err(format!("{what}: not within {} s", PATIENCE.0 / 1_000_000_000));
            }
        }
        Ok(())
    };
    until("objects are put in", &|| seen.borrow().loaded)?;
    let mut lost = Vec::new();
    for _ in 0..failover.times {
        let in_sync = |node| servers.told(node).followers.iter().filter(|it| it.synced).count();
        let leader = || (0..3).find(|&node| servers.told(node).role == "leader" && in_sync(node) == 2);
        until("all are in sync", &|| leader().is_some())?;
        world.run(world.time() + failover.rest);
        let Some(leader) = leader() else { continue };
        seen.borrow_mut().gap = Nanos(0);
        world.enter(|| sim.machine_down(leader));
        world.crash(leader);
        world.run(world.time() + DOWN);
        until("somebody is served", &|| world.time().since(seen.borrow().last) < LOOK)?;
        // What the lost one told last is that it leads.
        let others = (0..3).filter(|&node| node != leader);
        let heir = others.map(|node| servers.told(node)).find(|told| told.role == "leader");
        lost.push(Lost { gap: seen.borrow().gap, takeover: heir.and_then(|told| told.takeover) });
        world.restart(leader);
        world.enter(|| sim.machine_up(leader));
        world.start(leader, "server", servers.body(&sim, leader));
    }
    Ok(lost)
}

fn load_and_write(
    net: Sim,
    addresses: &[longarm_fabric::Address],
    objects: u64,
    seen: &RefCell<Seen>,
) -> Result<(), Error> {
    let options = Options { spin: Duration::ZERO, timeout: Duration::from_secs(30), ..Options::default() };
    let mut client = Client::connect_group_over(net, addresses, options)?;
    let mut tickets = std::collections::VecDeque::new();
    for object in 0..objects {
        if tickets.len() == DEPTH {
            client.wait(tickets.pop_front().expect("one is under way"))?;
        }
        let key = format!("object-{object}");
        tickets.push_back(client.submit(&Write::put(key.as_bytes(), &object.to_le_bytes()))?);
    }
    for ticket in tickets {
        client.wait(ticket)?;
    }
    let mut number = 0u64;
    *seen.borrow_mut() = Seen { loaded: true, last: longarm_host::now(), ..Seen::default() };
    loop {
        number += 1;
        client.put(format!("object-{}", number * 7919 % objects.max(1)).as_bytes(), &number.to_le_bytes())?;
        let mut seen = seen.borrow_mut();
        let now = longarm_host::now();
        seen.gap = seen.gap.max(now.since(seen.last));
        seen.last = now;
        drop(seen);
        // A service with some load: what nobody has applied ahead is little.
        longarm_host::sleep(Duration::from_micros(200));
    }
}
