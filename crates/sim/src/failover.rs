//! Measures how long a group serves no client when its leader is lost, with many objects and the paper's
//! timing (LoLKV 6.5).
//!
//! A world charges a task no CPU, except for work that grows with the data: a new leader that restores its
//! index spends [`longarm_server::RESTORE_ENTRY`] on each entry. So the measured time is that of the protocol
//! and of the restore.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::Nanos;
use longarm_client::{Client, Error, Options, Write};
use longarm_fabric::sim::{Sim, Weather};
use longarm_server::{ServerOptions, TakeoverStats};

use crate::replicas::{ClusterSize, QUICK, Servers};
use crate::world::{Drift, Stopped, World};

/// The number of writes under way while the client loads the objects.
const DEPTH: usize = 32;
/// How long a crashed leader is down; it comes back without its memory.
const DOWN: Nanos = Nanos::from_millis(100);
/// The time between two looks at whether a condition holds.
const LOOK: Nanos = Nanos::from_millis(20);
/// The bound on each wait.
const PATIENCE: Nanos = Nanos::from_millis(600_000);

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    /// The number of objects that the group holds.
    pub objects: u64,
    /// The number of times that a leader is lost.
    pub times: u32,
    /// The time between two losses, from when all replicas are in sync.
    pub rest: Nanos,
    /// The longest time until the machines that are connected to a lost leader are told. If a process is
    /// killed, as in the paper, its NIC tells them at once. If a machine is gone, the NIC of each tells it
    /// when that NIC gives up.
    pub notice: Nanos,
    /// The seed of the world.
    pub seed: u64,
}

/// What the client has seen so far.
#[derive(Default)]
struct Seen {
    loaded: bool,
    /// When a write was answered last.
    last: Nanos,
    /// The longest time between two answers since the last loss.
    gap: Nanos,
    wrong: Option<Error>,
}

/// A loss of a leader.
#[derive(Clone, Debug)]
pub struct Lost {
    /// How long no write was answered.
    pub gap: Nanos,
    /// What the new leader spent its part of that time on, if it still reports that.
    pub takeover: Option<TakeoverStats>,
}

/// Measures the losses, in order. An error if a condition that it waits for does not come true.
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
        // The lost leader is left out, because its last report says that it leads.
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
        // The load is moderate, so that little is left that no replica has applied ahead.
        longarm_host::sleep(Duration::from_micros(200));
    }
}
