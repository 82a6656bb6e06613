//! The writes of one key in the order of their versions, and between which of them somebody looked.
//!
//! The state of the key after each write is a number: zero before all of them. Who saw the value or the
//! version of a write saw its state. Who saw that nothing was there, or only that something was, saw one of
//! several states: those that were there at a time at which it can have looked.
//!
//! Writes whose version nobody knows are in no chain. They are in doubt, as a rule, and then need not have
//! happened; but they may explain what nothing else does.

use std::collections::BTreeMap;

use longarm_base::{Csn, Nanos};

use crate::violation::Who;
use crate::{NEVER, Operation, Value, Violation};

/// Who saw a value, or a version, of the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Find {
    /// The number of the operation or page.
    pub deed: usize,
    /// The value; `None` where only the version was shown.
    pub value: Option<Value>,
    /// The version, where it was shown.
    pub version: Option<Csn>,
}

/// What somebody saw without a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    /// Nothing was there.
    Nothing,
    /// Something was there.
    Something,
    /// The value of this state was not there; `None` if nobody knows its state.
    Not(Option<usize>),
}

/// The states of which somebody saw one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub first: usize,
    pub last: usize,
    /// Whether it can have been each of them, and writes in doubt do not matter.
    pub whole: bool,
}

/// A write whose version is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub deed: usize,
    pub version: Csn,
    /// What it left there.
    pub value: Option<Value>,
    /// The times between which it took effect, as far as this key tells.
    soonest: Nanos,
    latest: Nanos,
    /// The write or look that says so of the latest.
    bound_by: usize,
}

/// All that is known of one key.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// By version. The state after each is its place and one.
    pub writes: Vec<Write>,
    /// Who saw which state, where that is known, by state.
    pub seen: Vec<Seen>,
    /// Writers of values whose version nobody knows, and who saw those values.
    pub loose: Vec<Loose>,
    /// How many observations and writes have no certain place.
    pub open: usize,
    writers: BTreeMap<Value, usize>,
    states: BTreeMap<Value, usize>,
    /// States in which nothing is there, and those in which something is.
    nothing: Vec<usize>,
    something: Vec<usize>,
    /// Removals and writes without a version.
    removals: Floating,
    puts: Floating,
}

/// Who saw a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub deed: usize,
    pub state: usize,
}

/// Who saw the value of a write without a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loose {
    pub writer: usize,
    pub reader: usize,
}

/// Writes in the order of their calls, each with the latest end of all up to it.
#[derive(Debug, Default)]
struct Floating(Vec<Floats>);

#[derive(Clone, Copy, Debug)]
struct Floats {
    call: Nanos,
    end: Nanos,
}

impl Floating {
    /// In the order of their calls.
    fn push(&mut self, who: Who<'_>) {
        let end = self.0.last().map_or(who.end(), |last| last.end.max(who.end()));
        self.0.push(Floats { call: who.call(), end });
    }

    /// Whether one of them may have taken effect between these times.
    fn within(&self, from: Nanos, to: Nanos) -> bool {
        let called = self.0.partition_point(|floats| floats.call <= to);
        called.checked_sub(1).is_some_and(|last| self.0[last].end >= from)
    }
}

impl Chain {
    /// Of the operations on a key, in the order of their calls, and of those who found something there.
    pub fn of(deeds: &[Who<'_>], operations: &[usize], finds: &[Find]) -> Result<Chain, Violation> {
        let mut chain = Chain::default();
        let mut versions = chain.take_writes(deeds, operations)?;
        chain.take_versions(deeds, finds, &mut versions)?;
        chain.order(deeds, versions)?;
        chain.float(deeds, operations);
        chain.place_finds(deeds, finds)?;
        chain.bound(deeds);
        Ok(chain)
    }

    /// Notes who wrote which value, and under which version, where that was told.
    fn take_writes(
        &mut self,
        deeds: &[Who<'_>],
        operations: &[usize],
    ) -> Result<BTreeMap<usize, Csn>, Violation> {
        let mut versions = BTreeMap::new();
        for &deed in operations {
            let Who::Operation(operation) = deeds[deed] else { continue };
            if let Some(value) = operation.wrote()
                && let Some(other) = self.writers.insert(value, deed)
            {
                let rule = "two writes of one value: the history is not of unique values";
                return Err(Violation::by(rule, [deeds[other], deeds[deed]]));
            }
            if changes(operation) {
                let version = operation.version.filter(|&version| version != Csn::NONE);
                versions.extend(version.map(|version| (deed, version)));
            }
        }
        Ok(versions)
    }

    /// A write has the version under which its value was found.
    fn take_versions(
        &self,
        deeds: &[Who<'_>],
        finds: &[Find],
        versions: &mut BTreeMap<usize, Csn>,
    ) -> Result<(), Violation> {
        let told: BTreeMap<Csn, usize> = versions.iter().map(|(&deed, &version)| (version, deed)).collect();
        for Find { deed, value, version } in finds {
            let Some(value) = value else { continue };
            let Some(&writer) = self.writers.get(value) else {
                return Err(Violation::by("a value that nobody wrote", [deeds[*deed]]));
            };
            let Some(version) = *version else { continue };
            if let Some(&other) = told.get(&version)
                && other != writer
            {
                let rule = "a value under the version of another write";
                return Err(Violation::by(rule, [deeds[other], deeds[*deed]]));
            }
            if *versions.entry(writer).or_insert(version) != version {
                let rule = "one value under two versions: it was written twice";
                return Err(Violation::by(rule, [deeds[writer], deeds[*deed]]));
            }
        }
        Ok(())
    }

    fn order(&mut self, deeds: &[Who<'_>], versions: BTreeMap<usize, Csn>) -> Result<(), Violation> {
        let write = |(deed, version)| {
            let value = match deeds[deed] {
                Who::Operation(operation) => operation.wrote(),
                Who::Page(_) => None,
            };
            Write { deed, version, value, soonest: Nanos(0), latest: NEVER, bound_by: deed }
        };
        self.writes = versions.into_iter().map(write).collect();
        self.writes.sort_by_key(|write| (write.version, write.deed));
        if let Some(pair) = self.writes.windows(2).find(|pair| pair[0].version == pair[1].version) {
            let guilty = [deeds[pair[0].deed], deeds[pair[1].deed]];
            return Err(Violation::by("two writes of a key under one version", guilty));
        }
        self.nothing.push(0);
        for (at, write) in self.writes.iter().enumerate() {
            match write.value {
                Some(value) => {
                    self.states.insert(value, at + 1);
                    self.something.push(at + 1);
                }
                None => self.nothing.push(at + 1),
            }
        }
        Ok(())
    }

    /// Notes the writes that are in no chain. Whoever did write something, at no certain place, leaves open
    /// who else saw what.
    fn float(&mut self, deeds: &[Who<'_>], operations: &[usize]) {
        for &deed in operations {
            let Who::Operation(operation) = deeds[deed] else { continue };
            let known = operation.wrote().is_some_and(|value| self.states.contains_key(&value));
            let placed =
                known || operation.version.is_some_and(|version| self.state_under(version).is_some());
            if !changes(operation) || placed {
                continue;
            }
            match operation.wrote() {
                Some(_) => self.puts.push(deeds[deed]),
                None => self.removals.push(deeds[deed]),
            }
            self.open += usize::from(!operation.in_doubt() || operation.expires().is_some());
        }
    }

    fn place_finds(&mut self, deeds: &[Who<'_>], finds: &[Find]) -> Result<(), Violation> {
        for &Find { deed, value, version } in finds {
            let state = match (value, version) {
                (Some(value), _) => self.state_of(value),
                (None, Some(version)) => self.state_under(version),
                (None, None) => None,
            };
            match (state, value.and_then(|value| self.writers.get(&value))) {
                (Some(state), _) if self.nothing.binary_search(&state).is_ok() => {
                    let guilty = self.writes[state - 1].deed;
                    let rule = "a key is shown under the version of its removal";
                    return Err(Violation::by(rule, [deeds[guilty], deeds[deed]]));
                }
                (Some(state), _) => self.seen.push(Seen { deed, state }),
                (None, Some(&writer)) => {
                    self.loose.push(Loose { writer, reader: deed });
                    self.open += 1;
                }
                (None, None) if version.is_some() && !self.puts.within(Nanos(0), deeds[deed].end()) => {
                    return Err(Violation::by("a version that nobody wrote", [deeds[deed]]));
                }
                (None, None) => self.open += usize::from(version.is_some()),
            }
        }
        Ok(())
    }

    /// Bounds when each write took effect: later writes after earlier ones, and who saw a state looked
    /// between two writes.
    fn bound(&mut self, deeds: &[Who<'_>]) {
        for write in &mut self.writes {
            (write.soonest, write.latest) = (deeds[write.deed].call(), deeds[write.deed].end());
        }
        for &Seen { deed, state } in &self.seen {
            let (call, end) = (deeds[deed].call(), deeds[deed].end());
            // A write is no later than who saw it, nor earlier than who saw what was there before.
            if let Some(write) = state.checked_sub(1).and_then(|at| self.writes.get_mut(at))
                && end < write.latest
            {
                (write.latest, write.bound_by) = (end, deed);
            }
            if let Some(next) = self.writes.get_mut(state) {
                next.soonest = next.soonest.max(call);
            }
        }
        self.seen.sort_by_key(|seen| seen.state);
        for at in 1..self.writes.len() {
            self.writes[at].soonest = self.writes[at].soonest.max(self.writes[at - 1].soonest);
        }
        for at in (1..self.writes.len()).rev() {
            let next = self.writes[at];
            let write = &mut self.writes[at - 1];
            if next.latest < write.latest {
                (write.latest, write.bound_by) = (next.latest, next.bound_by);
            }
        }
    }

    /// The state in which a value is there, if its version is known.
    pub fn state_of(&self, value: Value) -> Option<usize> {
        self.states.get(&value).copied()
    }

    /// Whether a value was written under this version.
    pub fn is_under(&self, value: Value, version: Option<Csn>) -> bool {
        let state = version.and_then(|version| self.state_under(version));
        state.is_some() && state == self.state_of(value)
    }

    /// Who saw a state.
    pub fn seen_in(&self, state: usize) -> &[Seen] {
        let from = self.seen.partition_point(|seen| seen.state < state);
        let to = self.seen.partition_point(|seen| seen.state <= state);
        &self.seen[from..to]
    }

    /// The writer of a value.
    pub fn writer_of(&self, value: Value) -> Option<usize> {
        self.writers.get(&value).copied()
    }

    fn state_under(&self, version: Csn) -> Option<usize> {
        self.writes.binary_search_by_key(&version, |write| write.version).ok().map(|at| at + 1)
    }

    /// The write that left a state; none left the first.
    pub fn left_by(&self, state: usize) -> Option<usize> {
        Some(self.writes[state.checked_sub(1)?].deed)
    }

    /// The write that ended a state.
    pub fn ended_by(&self, state: usize) -> Option<usize> {
        self.writes.get(state).map(|write| write.deed)
    }

    /// The state that a write found, if the write has a version.
    pub fn found_by(&self, operation: &Operation) -> Option<usize> {
        let written = operation.wrote().and_then(|value| self.state_of(value));
        let removed = operation.removed().then_some(operation.version).flatten();
        written.or_else(|| self.state_under(removed?)).map(|state| state - 1)
    }

    /// The last write that took effect before a time, and who shows that.
    pub fn last_before(&self, time: Nanos) -> Option<[usize; 2]> {
        let count = self.writes.partition_point(|write| write.latest < time);
        let write = self.writes[count.checked_sub(1)?];
        Some([write.deed, write.bound_by])
    }

    /// Which states somebody may have seen who looked between these times; `None`: no such state was there.
    pub fn place(&self, sight: Sight, call: Nanos, end: Nanos) -> Option<Placed> {
        let first = self.writes.partition_point(|write| write.latest < call);
        let last = self.writes.partition_point(|write| write.soonest <= end);
        if first > last {
            return None;
        }
        let from = first.checked_sub(1).map_or(Nanos(0), |at| self.writes[at].soonest);
        let certain = match sight {
            Sight::Nothing => of_those(&self.nothing, first, last),
            Sight::Something => of_those(&self.something, first, last),
            Sight::Not(Some(state)) if first == last && first == state => None,
            Sight::Not(Some(state)) => Some(Placed {
                first: first + usize::from(first == state),
                last: last - usize::from(last == state),
                whole: state <= first || last <= state,
            }),
            Sight::Not(None) => Some(Placed { first, last, whole: true }),
        };
        let all = certain.is_some_and(|placed| placed.whole && (placed.first, placed.last) == (first, last));
        if !all && self.may_be(sight, from, end) {
            return Some(Placed { first, last, whole: false });
        }
        certain
    }

    /// Whether a write without a version may have made the key so.
    fn may_be(&self, sight: Sight, from: Nanos, to: Nanos) -> bool {
        let (nothing, something) = (self.removals.within(from, to), self.puts.within(from, to));
        match sight {
            Sight::Nothing => nothing,
            Sight::Something => something,
            Sight::Not(_) => nothing || something,
        }
    }

    /// Whether a state is as its next write found it; if only a write without a version can have made it so,
    /// it is no certain place. `None`: it was not so.
    pub fn holds(&self, sight: Sight, state: usize) -> Option<bool> {
        let there = state.checked_sub(1).is_some_and(|at| self.writes[at].value.is_some());
        let certain = match sight {
            Sight::Nothing => !there,
            Sight::Something => there,
            Sight::Not(other) => other != Some(state),
        };
        let from = state.checked_sub(1).map_or(Nanos(0), |at| self.writes[at].soonest);
        let to = self.writes.get(state).map_or(NEVER, |write| write.latest);
        (certain || self.may_be(sight, from, to)).then_some(certain)
    }
}

/// Whether it changed the key, or may have.
fn changes(operation: &Operation) -> bool {
    operation.wrote().is_some() || operation.removed() || operation.expires().is_some()
}

/// Those of the states, which ascend, from the first to the last.
fn of_those(states: &[usize], first: usize, last: usize) -> Option<Placed> {
    let from = states.partition_point(|&state| state < first);
    let to = states.partition_point(|&state| state <= last);
    let (first, last) = (*states[from..to].first()?, *states[from..to].last()?);
    Some(Placed { first, last, whole: last - first < to - from })
}
