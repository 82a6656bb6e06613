//! Takes the steps of a fault, one after the other, and starts processes again that ended meanwhile.

use std::time::Duration;

use longarm::cluster::NodeId;
use longarm::output::{Exit, Failure};
use longarm_base::Nanos;
use longarm_host::{now, sleep};
use rustix::process::Signal;

use super::orders::{Given, Order};
use super::{LOOK, Torture};
use crate::fault::{Fault, Step};

/// The time within which a process is started again, whatever else the machine does.
const START_MAX: Nanos = Nanos::from_millis(30_000);

fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as u64)
}

impl Torture {
    /// Takes all steps. `group` is the one whose leader may be moved.
    pub(super) fn act(&mut self, group: usize, fault: &Fault) -> Result<(), Failure> {
        let (mut adding, mut added) = (None::<(NodeId, Given)>, None);
        for step in &fault.steps {
            match *step {
                Step::Add => {
                    let (node, given) = self.add()?;
                    added = Some(node);
                    adding = Some((node, given));
                }
                Step::KillAdded => {
                    let node = added.expect("a node was added before");
                    self.kill(node, None);
                }
                Step::AwaitAdded => {
                    let (node, given) = adding.take().expect("a node is being added");
                    self.added(node, given)?;
                }
                Step::Remove(node) => self.remove(node.or(added).expect("one was added, or is named"))?,
                step => self.take(group, fault, step)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, group: usize, fault: &Fault, step: Step) -> Result<(), Failure> {
        match step {
            Step::Kill(node, away) => self.kill(node, away),
            Step::End(node) => self.tell(node, Signal::TERM),
            Step::Stop(node) => self.replicas.signal(node, Signal::STOP),
            Step::Go(node) => self.replicas.signal(node, Signal::CONT),
            Step::Wait(time) => self.pass(nanos(time))?,
            Step::AwaitStart(node) => self.await_start(node)?,
            Step::Cut => fault.cut(&self.cables)?,
            Step::Mend => self.cables.mend()?,
            Step::Move(to) => {
                // The outcome does not matter here: the groups may be on their way to another leader.
                let given = self.order(group, Order::Move(self.replica(group, to)), Nanos(0))?;
                let _ = self.await_order(given)?;
            }
            _ => unreachable!("what changes members is seen to before"),
        }
        Ok(())
    }

    fn kill(&mut self, node: NodeId, away: Option<Duration>) {
        if let Some(away) = away {
            self.away.insert(node, nanos(away));
        }
        self.tell(node, Signal::KILL);
    }

    /// Sends a signal that ends a process, if there is a process.
    fn tell(&mut self, node: NodeId, signal: Signal) {
        if self.replicas.pid(node).is_some() {
            self.told.insert(node);
            self.replicas.signal(node, signal);
        }
    }

    fn await_start(&mut self, node: NodeId) -> Result<(), Failure> {
        let until = now() + START_MAX;
        loop {
            self.pass(Nanos(0))?;
            let ended = !self.told.contains(&node);
            if ended && !self.down.contains_key(&node) && self.replicas.pid(node).is_some() {
                return Ok(());
            }
            if self.is_unwanted() || now() >= until {
                return Err(Failure::new(Exit::System, format!("node {node} was not started again")));
            }
            sleep(LOOK);
        }
    }
}
