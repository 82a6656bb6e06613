//! What keys are called. They are of a round, so that the history of each is short enough to be searched;
//! each group has one of its own in every round, for its probes.

use longarm_client::Topology;

use crate::commands::demo::data::Numbers;

/// Keys of one round: some that everybody wants, and others.
const HOT: u32 = 4;
const COLD: u32 = 200;
/// Counters of one round.
pub const COUNTERS: u32 = 2;

/// Numbers of keys, and the names of these.
#[derive(Clone)]
pub struct Names {
    topology: Topology,
}

impl Names {
    /// Of keys that these groups have.
    pub fn new(topology: Topology) -> Names {
        Names { topology }
    }

    /// The groups.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How many keys a round has. Those of the probes come last.
    pub fn a_round(&self) -> u32 {
        HOT + COLD + self.topology.groups().len() as u32
    }

    /// A key of a round, for everybody.
    pub fn draw(&self, round: u32, chance: &mut Numbers) -> u32 {
        let of_round = match chance.below(2) {
            0 => chance.below(HOT.into()),
            _ => u64::from(HOT) + chance.below(COLD.into()),
        };
        round * self.a_round() + of_round as u32
    }

    /// The key of a round that is for the probes of a group.
    pub fn of_probes(&self, round: u32, group: usize) -> u32 {
        round * self.a_round() + HOT + COLD + group as u32
    }

    /// The name of a key: one of a group's probes has a name that the group has.
    pub fn key(&self, number: u32) -> Vec<u8> {
        let name = format!("torture/{number}");
        let Some(group) = (number % self.a_round()).checked_sub(HOT + COLD) else { return name.into_bytes() };
        let names = (0u32..).map(|more| format!("{name}/{more}").into_bytes());
        let mut fit = names.filter(|name| self.topology.group_of(name) == group as usize);
        fit.next().expect("each group has its share of names")
    }

    /// The name of a counter.
    pub fn counter(&self, number: u32) -> Vec<u8> {
        format!("torture/counter/{number}").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use longarm_client::GroupAt;

    use super::*;

    #[test]
    fn every_group_has_a_key_for_its_probes_and_all_keys_differ() {
        let addresses = vec!["tcp://h:1".parse().expect("an address")];
        let group = |id| GroupAt { id, addresses: addresses.clone() };
        for groups in [1, 2, 5, 64] {
            let names = Names::new(Topology::new(7, (1..=groups).map(group).collect()));
            for round in 0..3 {
                for group in 0..groups as usize {
                    let key = names.key(names.of_probes(round, group));
                    assert_eq!(names.topology().group_of(&key), group);
                }
            }
            let all: BTreeSet<_> = (0..3 * names.a_round()).map(|number| names.key(number)).collect();
            assert_eq!(all.len(), 3 * names.a_round() as usize);
            let mut chance = Numbers(1);
            let drawn: BTreeSet<_> = (0..10_000).map(|_| names.draw(2, &mut chance)).collect();
            let probes = names.of_probes(2, 0);
            assert!(drawn.iter().all(|number| (2 * names.a_round()..probes).contains(number)));
            assert_eq!(drawn.len() as u32, HOT + COLD);
        }
    }
}
