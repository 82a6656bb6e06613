//! The names of keys, and how warm they are. A key belongs to a round, so that its history is short enough to
//! be searched. In every round each group has a key of its own, for its probes. Clients read a key that was
//! hot in a round again long after it. Keys with bulky values belong to an age, which is many rounds.

use std::ops::Range;

use longarm_base::random::SplitMix64;
use longarm_client::Topology;

/// The keys of one round: some that all clients want, and others.
const HOT: u32 = 4;
const COLD: u32 = 200;
/// The keys of one age, whose values are bulky.
const BULK: u32 = 96;
/// The rounds of an age.
const AGE: u32 = 32;
/// Keys older than so many rounds are deleted, so that the stored data does not grow for ever.
pub const KEPT: u32 = 150;
/// Counters of one round.
pub const COUNTERS: u32 = 2;

/// How warm a key is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warmth {
    /// A key of this round, on which clients do every operation.
    Now,
    /// A key of this age, which clients overwrite again and again.
    Bulk,
    /// A key of an earlier round or age: it was hot for a moment, and clients read it.
    Past,
}

/// The numbers of keys, and their names.
#[derive(Clone)]
pub struct Names {
    topology: Topology,
}

impl Names {
    /// The names of keys that these groups have.
    pub fn new(topology: Topology) -> Names {
        Names { topology }
    }

    /// How many keys a round has. Those of the probes come last.
    pub fn a_round(&self) -> u32 {
        HOT + COLD + BULK + self.topology.groups().len() as u32
    }

    /// Draws a key for any client, in a round.
    pub fn draw(&self, round: u32, chance: &mut SplitMix64) -> (u32, Warmth) {
        match chance.modulo(24) {
            0..2 => (self.bulk(round, chance), Warmth::Bulk),
            2..4 if round > 0 => {
                let back = 1 + chance.modulo(round.min(KEPT - 1).into()) as u32;
                match chance.modulo(4) {
                    // The key is of this age, if that is not over.
                    0 => (self.bulk(round - back, chance), Warmth::Past),
                    _ => (self.of_round(round - back, chance), Warmth::Past),
                }
            }
            _ => (self.of_round(round, chance), Warmth::Now),
        }
    }

    fn of_round(&self, round: u32, chance: &mut SplitMix64) -> u32 {
        let of_round = match chance.modulo(2) {
            0 => chance.modulo(HOT.into()),
            _ => u64::from(HOT) + chance.modulo(COLD.into()),
        };
        round * self.a_round() + of_round as u32
    }

    fn bulk(&self, round: u32, chance: &mut SplitMix64) -> u32 {
        round / AGE * AGE * self.a_round() + HOT + COLD + chance.modulo(BULK.into()) as u32
    }

    /// The key of a round that is for the probes of a group.
    pub fn of_probes(&self, round: u32, group: usize) -> u32 {
        round * self.a_round() + HOT + COLD + BULK + group as u32
    }

    /// The rounds up to one whose keys clients may have written last: those of its age, and of the age
    /// before.
    pub fn recent(&self, round: u32) -> Range<u32> {
        (round / AGE * AGE).saturating_sub(AGE)..round + 1
    }

    /// The group that has a key.
    pub fn group_of(&self, number: u32) -> usize {
        self.topology.group_of(&self.key(number))
    }

    /// The group that has a counter.
    pub fn group_of_counter(&self, number: u32) -> usize {
        self.topology.group_of(&self.counter(number))
    }

    /// All keys of a round, and of the age that begins with it.
    pub fn of(&self, round: u32) -> impl Iterator<Item = u32> {
        let first = round * self.a_round();
        let bulk = HOT + COLD..HOT + COLD + BULK;
        let used = move |key: &u32| round.is_multiple_of(AGE) || !bulk.contains(key);
        (0..self.a_round()).filter(used).map(move |key| first + key)
    }

    /// The numbers of the keys of a round, one behind the other.
    pub fn numbers(&self, round: u32) -> Range<u32> {
        round * self.a_round()..(round + 1) * self.a_round()
    }

    /// The bytes with which the name of a key begins. They are in the order of numbers.
    pub fn numbered(&self, number: u32) -> String {
        format!("torture/{number:010}")
    }

    /// The number of the key that has this name; `None` if no key has it.
    pub fn number(&self, name: &[u8]) -> Option<u32> {
        let digits = name.strip_prefix(b"torture/")?.get(..10)?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        (self.key(number) == name).then_some(number)
    }

    /// The name of a key. The key of a group's probes has a name that is placed in that group.
    pub fn key(&self, number: u32) -> Vec<u8> {
        let name = self.numbered(number);
        let Some(group) = (number % self.a_round()).checked_sub(HOT + COLD + BULK) else {
            return name.into_bytes();
        };
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

    fn names(groups: u64) -> Names {
        let addresses = vec!["tcp://h:1".parse().expect("an address")];
        let group = |id| GroupAt { id, addresses: addresses.clone() };
        Names::new(Topology::new(7, (1..=groups).map(group).collect()))
    }

    #[test]
    fn every_group_has_a_key_for_its_probes_and_all_keys_differ() {
        for groups in [1, 2, 5, 64] {
            let names = names(groups);
            for round in 0..3 {
                for group in 0..groups as usize {
                    let key = names.key(names.of_probes(round, group));
                    assert_eq!(names.topology.group_of(&key), group);
                    assert_eq!(names.group_of(names.of_probes(round, group)), group);
                }
            }
            let all: BTreeSet<_> = (0..3 * names.a_round()).map(|number| names.key(number)).collect();
            assert_eq!(all.len(), 3 * names.a_round() as usize);
            let numbers: Vec<u32> = all.iter().filter_map(|name| names.number(name)).collect();
            assert!(numbers.into_iter().eq(0..3 * names.a_round()), "names are in the order of numbers");
            assert!(
                [&b"torture/0000000001/9"[..], b"torture/counter/1", b"torture/1", b"x"]
                    .iter()
                    .all(|name| names.number(name).is_none())
            );
        }
    }

    #[test]
    fn what_is_drawn_is_as_warm_as_it_says() {
        let (names, mut chance) = (names(2), SplitMix64::new(1));
        let probes =
            |round| (0..2).map(move |group| round * (HOT + COLD + BULK + 2) + HOT + COLD + BULK + group);
        for round in [0, 1, AGE - 1, AGE, 3 * AGE + 5, KEPT, 2 * KEPT] {
            let all: BTreeSet<u32> = (0..=round).flat_map(|round| names.of(round)).collect();
            let this: BTreeSet<u32> = names.of(round).collect();
            let (mut drawn, mut rounds) = ([0; 3], BTreeSet::new());
            for _ in 0..20_000 {
                let (key, warmth) = names.draw(round, &mut chance);
                assert!(all.contains(&key) && !probes(key / names.a_round()).any(|probe| probe == key));
                drawn[warmth as usize] += 1;
                let of = key / names.a_round();
                match warmth {
                    Warmth::Now => assert!(this.contains(&key)),
                    Warmth::Bulk => assert_eq!(of, round / AGE * AGE),
                    Warmth::Past => {
                        assert!(of + KEPT + AGE > round, "it is not deleted yet, or its age was not");
                        rounds.insert(of);
                    }
                }
            }
            assert!(drawn[0] > 10_000 && drawn[1] > 1_000, "{drawn:?}");
            assert_eq!(drawn[2] > 1_000, round > 0, "{drawn:?}");
            assert!(rounds.len() as u32 >= round.min(KEPT - 1), "also what was hot long ago is read");
        }
    }

    #[test]
    fn keys_of_bulk_are_of_the_first_round_of_an_age() {
        let names = names(1);
        assert_eq!(names.of(0).count() as u32, names.a_round());
        assert_eq!(names.of(1).count() as u32, names.a_round() - BULK);
        assert_eq!(names.of(AGE).count() as u32, names.a_round());
    }
}
