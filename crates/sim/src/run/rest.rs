//! The end of a run: all is healed, clients come to an end (I20), and what they find then is what replicas
//! hold, whichever of them leads, and what followers show in order (I3, I16).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::{Nanos, ReplicaId};
use longarm_client::OrderedInspection;
use longarm_fabric::sim::Weather;
use longarm_history::{Item, Operation, OperationOutcome};
use longarm_server::{OrderError, Stay};

use super::{LOOK, Run};
use crate::notes::Note;
use crate::ordered::Ordered;
use crate::replicas::Servers;
use crate::workload::{Looks, inspect_all, look_at_all, scan_all};

/// The time within which every client is done once all is healed.
const LIVENESS: Nanos = Nanos::from_millis(60_000);
/// The time within which replicas hold the same once no client writes. It is less than a leader waits for an
/// answer, so that no leader waits for one that cannot come.
const CONVERGENCE: Nanos = Nanos::from_millis(3_000);
/// The same time where an answer comes soon.
const GLANCE: Nanos = Nanos::from_micros(500);
/// Two passes over a file take less, where files are looked over all the time; also if the disk of a follower
/// first waits in vain for what came over its connection.
const SCRUBBED: Nanos = Nanos::from_millis(15_000);
/// The bounds on a last look at all keys, and on an order to lead.
const LAST_LOOK: Nanos = Nanos::from_millis(4_000);
const LAST_ORDER: Duration = Duration::from_secs(1);

impl Run {
    /// Checks that the replicas are those that the operator was told.
    fn are_as_told(&self) -> Result<(), String> {
        let (orders, sets) = (self.orders.borrow(), self.servers.possible());
        match &orders.told {
            Some(told) if orders.unsure.is_none() && sets.last() != Some(told) => {
                Err(format!("M14: the operator was told that the replicas are {told:?}, and {sets:?} may be"))
            }
            _ => Ok(()),
        }
    }

    /// Waits until a condition on the servers holds, once all is healed: for example that replicas hold the
    /// same. A replica may still stand still for a while, and another may lead in the meantime.
    fn converge<T>(&mut self, on: impl Fn(&Servers) -> Result<T, String>) -> Result<T, String> {
        let begun = self.world.time();
        loop {
            match on(&self.servers) {
                Ok(one) => return Ok(one),
                Err(apart) if self.world.time().since(begun) > CONVERGENCE => return Err(apart),
                Err(_) => self.go_on(self.world.time() + LOOK)?,
            }
        }
    }

    /// Heals all that is broken, waits until every client is done, and looks at every key once more.
    pub(super) fn liveness(&mut self) -> Result<(), String> {
        self.notes.add(self.world.time(), || Note::Healed);
        self.traps.borrow_mut().clear();
        self.world.preempt(None);
        self.sim.set_weather(Weather::FINE);
        self.turn_off(Nanos(u64::MAX));
        self.restart(Nanos(u64::MAX));
        let begun = self.world.time();
        while !self.all_done() {
            let now = self.world.time() + LOOK;
            if now.since(begun) > LIVENESS {
                let done = *self.done.borrow();
                return Err(format!(
                    "healed, and yet {done} of {} clients are done (I20)",
                    self.plan.running()
                ));
            }
            self.go_on(now)?;
        }
        if self.plan.persistent {
            // What clients see now, they see in the next life.
            self.look_at_all()?;
            self.lose_all(Nanos(0), None);
            self.restart(Nanos(u64::MAX));
        }
        if self.plan.servers == 1 {
            let looks = self.look_at_all()?;
            return if self.plan.ordered.any() { self.orders(0, 0, &looks) } else { Ok(()) };
        }
        self.converge(Servers::agree)?;
        if self.plan.rots {
            // What had rotted is there again, or a replica does not start.
            self.go_on(self.world.time() + SCRUBBED)?;
            self.lose_all(Nanos(0), None);
            self.restart(Nanos(u64::MAX));
            self.converge(Servers::agree)?;
        }
        self.are_as_told()?;
        (0..self.plan.groups).try_for_each(|group| self.each_leads(group))
    }

    /// Looks at every key once more.
    fn look_at_all(&mut self) -> Result<Looks, String> {
        let (sim, topology, plan) = (self.sim.clone(), self.servers.topology(), &self.plan);
        let (keys, load, noted) = (plan.keys, plan.load.clone(), self.noted.clone());
        let looks = self.ask(LAST_LOOK, move || look_at_all(&sim, topology, keys, &load, &noted))?;
        let looks = looks.map_err(|error| format!("healed, and yet a get fails (I20): {error}"))?;
        self.noted.borrow_mut().left.extend(looks.iter().cloned());
        Ok(looks)
    }

    /// Has a client do something once all is healed, and waits for its result.
    fn ask<T: 'static>(&mut self, most: Nanos, act: impl FnOnce() -> T + 'static) -> Result<T, String> {
        let answer = Rc::new(RefCell::new(None));
        let answered = answer.clone();
        self.world.start(self.plan.servers, "last look", move || {
            let told = act();
            answered.replace(Some(told));
        });
        let begun = self.world.time();
        while answer.borrow().is_none() {
            if self.world.time().since(begun) > most {
                let seconds = most.0 / 1_000_000_000;
                return Err(format!("healed, and yet something takes longer than {seconds} s (I20)"));
            }
            self.go_on(self.world.time() + GLANCE)?;
        }
        Ok(answer.take().expect("looked at above"))
    }

    /// Has each replica of a group lead once, and checks what clients find there, and that the replica shows
    /// what its arena holds.
    fn each_leads(&mut self, group: u32) -> Result<(), String> {
        // The operator gives one order at a time.
        while self.orders.borrow().is_open() {
            self.go_on(self.world.time() + LOOK)?;
        }
        'replicas: for node in self.converge(|servers| servers.members_of(group as usize))? {
            let begun = self.world.time();
            while let Some(stays) = self.lead(group, node)? {
                // A change whose outcome is unknown may come true at any change of leader.
                let members = self.converge(|servers| servers.members_of(group as usize))?;
                if !members.contains(&node) {
                    continue 'replicas;
                }
                if self.world.time().since(begun) > LIVENESS {
                    return Err(format!("healed, and yet node {node} cannot lead (I20): {stays}"));
                }
                self.go_on(self.world.time() + LOOK)?;
            }
            let looks = self.look_and_compare(group, node)?;
            if self.plan.ordered.any() {
                self.each_orders(group, node, &looks)?;
            }
        }
        Ok(())
    }

    /// Looks at every key, and checks that a leader shows what its arena holds. A write in doubt may take
    /// effect between the two: then it looks again.
    fn look_and_compare(&mut self, group: u32, node: u32) -> Result<Looks, String> {
        let begun = self.world.time();
        loop {
            let looks = self.look_at_all()?;
            let names = |look: &Operation| (self.plan.load.name(look.key), look.version);
            match self.servers.shows(group as usize, node, looks.iter().map(names)) {
                Ok(()) => return Ok(looks),
                Err(apart) if self.world.time().since(begun) > CONVERGENCE => return Err(apart),
                Err(_) => self.go_on(self.world.time() + LOOK)?,
            }
        }
    }

    /// Has a replica lead; returns why it does not, if it does not.
    fn lead(&mut self, group: u32, node: u32) -> Result<Option<String>, String> {
        let tools = self.servers.tools(&self.sim, group);
        let moved = self.ask(LIVENESS, move || tools.move_leader(ReplicaId(node as u8), LAST_ORDER))?;
        Ok(match moved {
            Ok(moved) if u32::from(moved.leader.0) == node => None,
            Err(OrderError::Stays(_, Stay::Leads)) => None,
            other => Some(format!("{other:?}")),
        })
    }

    /// Has each replica with an index, except for a leader with others that have one, show all keys in order.
    /// What such a leader shows of a tree is sound, if it shows any.
    fn each_orders(&mut self, group: u32, leader: u32, looks: &Looks) -> Result<(), String> {
        let members = self.converge(|servers| servers.members_of(group as usize))?;
        let ordered = self.plan.ordered;
        members.into_iter().filter(|&node| ordered.has(node)).try_for_each(|node| {
            match node == leader && ordered != Ordered::Only(leader) {
                true => self.is_sound(node),
                false => self.orders(node, leader, looks),
            }
        })
    }

    /// Has a replica show all keys in order, compares that with what the leader shows (I16), and walks over
    /// its index.
    fn orders(&mut self, node: u32, leader: u32, looks: &Looks) -> Result<(), String> {
        let mut there: Vec<Item> = looks.iter().filter_map(item).collect();
        there.sort_by_key(|item| item.key);
        let mut ways = vec![node, leader];
        ways.dedup();
        let ways: Vec<_> =
            ways.into_iter().map(|node| self.servers.addresses[node as usize].clone()).collect();
        let (sim, load, noted) = (self.sim.clone(), self.plan.load.clone(), self.noted.clone());
        let number = self.noted.borrow().plain.pages().len() as u32;
        let shown = self.ask(LAST_LOOK, move || scan_all(&sim, &ways, number, &load, &noted))?;
        let shown = shown
            .map_err(|error| format!("healed, and yet node {node} shows no keys in order (I20): {error}"))?;
        if shown != there {
            let differs = shown.iter().chain(&there).find(|&item| {
                let is_in = |items: &[Item]| items.contains(item);
                !is_in(&shown) || !is_in(&there)
            });
            return Err(format!(
                "node {node} shows {} keys in order, leader {leader} {} (I16): {differs:?}",
                shown.len(),
                there.len()
            ));
        }
        self.is_sound(node)
    }

    /// Walks over the ordered index of a replica (I24), and over the entries of its items (I16). One that has
    /// come to lead, or builds its index, has none for the moment.
    fn is_sound(&mut self, node: u32) -> Result<(), String> {
        let begun = self.world.time();
        let tree = loop {
            let (sim, address) = (self.sim.clone(), self.servers.addresses[node as usize].clone());
            match self.ask(LAST_LOOK, move || inspect_all(&sim, &address))? {
                Ok(OrderedInspection::Report(report)) => break report.tree,
                Ok(OrderedInspection::NoTree) if self.servers.told(node).role == "leader" => return Ok(()),
                Ok(_) if self.world.time().since(begun) <= CONVERGENCE => {
                    self.go_on(self.world.time() + LOOK)?;
                }
                Ok(none) => {
                    return Err(format!("healed, and yet node {node} has no tree at rest: {none:?}"));
                }
                Err(error) => {
                    return Err(format!("healed, and yet the tree of node {node} cannot be READ: {error}"));
                }
            }
        };
        match tree.problem_count {
            0 => Ok(()),
            count => {
                Err(format!("node {node} has {count} problems in its tree (I24, I16): {:?}", tree.problems))
            }
        }
    }
}

/// The item that a look found.
fn item(look: &Operation) -> Option<Item> {
    let OperationOutcome::Found(value) = look.outcome else { return None };
    Some(Item { key: look.key, value: Some(value), version: look.version })
}
