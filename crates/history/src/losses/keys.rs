//! What is known of each key: who saw what of it, and what came back of it at a loss.

use std::collections::BTreeMap;
use std::ops::Range;

use longarm_base::{Csn, Nanos};

use crate::violation::Who;
use crate::{History, Invocation, Operation, OperationOutcome, Value, Violation};

/// A write that took effect in an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect<'a> {
    pub operation: &'a Operation,
    /// By when it had taken effect: it was answered, or somebody saw it.
    pub by: Nanos,
    /// No removal that was answered before came later than it: somebody who was called then saw it.
    pub there: Nanos,
    pub version: Option<Csn>,
}

impl<'a> Effect<'a> {
    /// That of an operation of which nothing but its time is known.
    pub fn by_time(operation: &'a Operation) -> Effect<'a> {
        Effect { operation, by: operation.end, there: operation.call, version: None }
    }
}

/// What came back of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum State<'a> {
    /// This, or nothing.
    Known(Option<Effect<'a>>),
    /// Nobody saw; perhaps this.
    Unknown(Option<Effect<'a>>),
}

/// Who saw a value, or its version.
#[derive(Clone, Copy, Debug)]
struct Sight<'a> {
    who: Who<'a>,
    value: Option<Value>,
    version: Option<Csn>,
}

impl Sight<'_> {
    /// Whether all of it was between these times.
    fn is_within(&self, times: &Range<Nanos>) -> bool {
        self.who.call() >= times.start && self.who.end() < times.end
    }
}

/// All that is known of one key.
#[derive(Default, Debug)]
struct Key<'a> {
    /// By call.
    operations: Vec<&'a Operation>,
    /// Who saw a value, by value; and who saw a version alone.
    sights: BTreeMap<Option<Value>, Vec<Sight<'a>>>,
    writers: BTreeMap<Value, &'a Operation>,
}

/// All keys.
pub(super) struct Keys<'a> {
    keys: BTreeMap<u32, Key<'a>>,
}

/// What came back of each key.
pub(super) type States<'a> = BTreeMap<u32, State<'a>>;

impl<'a> Keys<'a> {
    /// Of a history.
    pub fn of(history: &'a History) -> Keys<'a> {
        let mut keys: BTreeMap<u32, Key<'a>> = BTreeMap::new();
        for operation in history.operations() {
            let key = keys.entry(operation.key).or_default();
            key.operations.push(operation);
            key.writers.extend(operation.wrote().map(|value| (value, operation)));
            let (value, version) = match (operation.action, operation.outcome) {
                (_, OperationOutcome::Found(value)) => (value, operation.version),
                (Invocation::Replace { expected, .. }, OperationOutcome::Done) => (expected, None),
                _ => continue,
            };
            let sight = Sight { who: Who::Operation(operation), value: Some(value), version };
            key.sights.entry(sight.value).or_default().push(sight);
        }
        for page in history.pages() {
            for item in &page.items {
                let key = keys.entry(item.key).or_default();
                let sight = Sight { who: Who::Page(page), value: item.value, version: item.version };
                key.sights.entry(sight.value).or_default().push(sight);
            }
        }
        for key in keys.values_mut() {
            key.operations.sort_by_key(|operation| (operation.call, operation.end, operation.client));
            key.see_replaced();
        }
        Keys { keys }
    }

    /// The states before anybody wrote.
    pub fn none(&self) -> States<'a> {
        self.keys.keys().map(|&key| (key, State::Known(None))).collect()
    }

    /// What came back of each key at the end of an epoch that began with these states.
    pub fn came_back(&self, epoch: Range<Nanos>, before: &States<'a>) -> Result<States<'a>, Violation> {
        let told = self.told(epoch.end);
        let state =
            |(&number, key): (&u32, &Key<'a>)| Ok((number, key.came_back(&epoch, told, before[&number])?));
        self.keys.iter().map(state).collect()
    }

    /// The writes of a key that surely took effect in an epoch.
    pub fn effects(&self, key: u32, epoch: &Range<Nanos>) -> Vec<Effect<'a>> {
        self.keys[&key].effects(epoch)
    }

    /// Whoever may have removed, by the end of an epoch, what a write had put there.
    pub fn removals(
        &self,
        key: u32,
        write: &Effect<'_>,
        epoch: &Range<Nanos>,
    ) -> impl Iterator<Item = &'a Operation> {
        // What was there when the epoch began was not removed before.
        let before = if write.by < epoch.start { epoch.start } else { Nanos(0) };
        let (later, end) = (write.there.max(before), epoch.end);
        let removals = self.keys[&key].operations.iter().filter(|operation| operation.removed()).copied();
        removals.filter(move |removal| removal.call < end && removal.end >= later)
    }

    /// Whether a write took effect in an epoch, and came back at its end: it has no higher version than
    /// another that did.
    pub fn outlived(&self, write: &'a Operation, epoch: &Range<Nanos>, version: Option<Csn>) -> bool {
        let effect = self.keys[&write.key].effect(write, epoch);
        effect.is_some_and(|effect| effect.version.is_some() && effect.version <= version)
    }

    /// The highest version that was told by the end of an epoch.
    pub fn told(&self, at: Nanos) -> Option<Csn> {
        let all = self.keys.values().flat_map(|key| &key.operations);
        all.filter(|operation| operation.end < at).filter_map(|operation| operation.version).max()
    }

    /// The writes that were called after a loss.
    pub fn later(&self, at: Nanos) -> impl Iterator<Item = &'a Operation> {
        let all = self.keys.values().flat_map(|key| &key.operations).copied();
        all.filter(move |one| one.call >= at && one.wrote().is_some() && one.version.is_some())
    }
}

impl<'a> Key<'a> {
    /// Notes that who replaced a value without an answer saw that value, if somebody saw what was put in its
    /// place.
    fn see_replaced(&mut self) {
        loop {
            let more = self.operations.iter().filter_map(|&operation| {
                let Invocation::Replace { expected, new } = operation.action else { return None };
                let sights = self.sights.get(&Some(expected)).map_or(&[][..], Vec::as_slice);
                let known = |sight: &Sight<'_>| matches!(sight.who, Who::Operation(one) if one == operation);
                let noted = sights.iter().any(known);
                let done = operation.in_doubt() && self.sights.contains_key(&Some(new)) && !noted;
                done.then_some(Sight { who: Who::Operation(operation), value: Some(expected), version: None })
            });
            let more: Vec<Sight<'a>> = more.collect();
            if more.is_empty() {
                return;
            }
            more.into_iter().for_each(|sight| self.sights.entry(sight.value).or_default().push(sight));
        }
    }

    /// The writes and removals that surely took effect in an epoch.
    fn effects(&self, epoch: &Range<Nanos>) -> Vec<Effect<'a>> {
        let called = self.operations.partition_point(|operation| operation.call < epoch.end);
        self.operations[..called].iter().filter_map(|operation| self.effect(operation, epoch)).collect()
    }

    /// A write, if it surely took effect in an epoch: it was called and answered there, or somebody saw it.
    fn effect(&self, operation: &'a Operation, epoch: &Range<Nanos>) -> Option<Effect<'a>> {
        let changes = operation.wrote().is_some() || operation.removed();
        let done = operation.outcome == OperationOutcome::Done;
        let own = changes && done && operation.call >= epoch.start && operation.end < epoch.end;
        let own = own.then_some((operation.end, operation.version));
        let seen = self.sights_of(operation).filter(|sight| sight.is_within(epoch));
        let seen = seen.map(|sight| (sight.who.end(), sight.version));
        let all = || own.into_iter().chain(seen.clone());
        let by = all().map(|(by, _)| by).min()?;
        let calls = self.sights_of(operation).filter(|sight| sight.is_within(epoch));
        let there = calls.map(|sight| sight.who.call()).max().unwrap_or_default().max(operation.call);
        Some(Effect { operation, by, there, version: all().find_map(|(_, version)| version) })
    }

    /// Who saw what an operation wrote.
    fn sights_of(&self, operation: &Operation) -> impl Iterator<Item = &Sight<'a>> + Clone {
        let of_value = operation.wrote().and_then(|value| self.sights.get(&Some(value)));
        of_value.into_iter().flatten()
    }

    /// `told` is the highest version that was told by the end of the epoch.
    fn came_back(
        &self,
        epoch: &Range<Nanos>,
        told: Option<Csn>,
        before: State<'a>,
    ) -> Result<State<'a>, Violation> {
        let effects = self.effects(epoch);
        match self.seen_again(epoch.end, told)? {
            Some((effect, sight)) => {
                let old = effects.iter().find(|one| one.operation == effect.operation);
                match (old, before) {
                    (Some(&old), _) => {
                        Ok(State::Known(Some(Effect { version: old.version.or(effect.version), ..old })))
                    }
                    (None, State::Known(Some(first))) if first.operation == effect.operation => Ok(before),
                    // It took effect before this epoch, and was not there when that began.
                    (None, State::Known(_)) if effect.by < epoch.start => Err(again(effect, sight)),
                    (None, _) => Ok(State::Known(Some(effect))),
                }
            }
            None if self.is_absent_after(epoch.end) => Ok(State::Known(None)),
            None => {
                let last = effects.iter().filter(|effect| effect.operation.wrote().is_some());
                let last = last.max_by_key(|effect| (effect.version, effect.operation.call)).copied();
                let (State::Known(first) | State::Unknown(first)) = before;
                let nothing = effects.is_empty() && matches!(before, State::Known(None));
                Ok(if nothing { before } else { State::Unknown(last.or(first)) })
            }
        }
    }

    /// The write from before a loss whose value is seen after it, if there is one, and who saw that.
    fn seen_again(&self, at: Nanos, told: Option<Csn>) -> Result<Option<(Effect<'a>, Who<'a>)>, Violation> {
        let mut found: Option<(Effect<'a>, Who<'a>)> = None;
        let later = self.sights.values().flatten().filter(|sight| sight.who.call() >= at);
        for sight in later {
            let Some(effect) = self.written_before(sight, at, told) else { continue };
            match &found {
                Some((other, who)) if other.operation != effect.operation => {
                    let rule =
                        "two writes from before a loss came back of one key: one was lost, or replaced";
                    let guilty = [Who::Operation(other.operation), *who];
                    let more = [Who::Operation(effect.operation), sight.who];
                    return Err(Violation::by(rule, guilty.into_iter().chain(more)));
                }
                _ => found = Some((effect, sight.who)),
            }
        }
        Ok(found)
    }

    /// The write that somebody saw after a loss, if it surely took effect before it, and not once more after
    /// it. One without an answer before the loss may have been sent again. Versions that were drawn before
    /// are no higher than the one that was told.
    fn written_before(&self, sight: &Sight<'a>, at: Nanos, told: Option<Csn>) -> Option<Effect<'a>> {
        let operation = match (sight.value, sight.version) {
            (Some(value), _) => *self.writers.get(&value)?,
            (None, Some(_)) => {
                let wrote = |one: &&&Operation| one.wrote().is_some() && one.version == sight.version;
                self.operations.iter().find(|one| wrote(one) && one.end < at)?
            }
            (None, None) => return None,
        };
        if operation.call >= at {
            return None;
        }
        let own = operation.outcome == OperationOutcome::Done && operation.end < at;
        let own = own.then_some((operation.end, operation.version));
        let seen = self.sights_of(operation).filter(|sight| sight.who.end() < at);
        let seen = seen.map(|sight| (sight.who.end(), sight.version));
        let all = || own.into_iter().chain(seen.clone());
        let same = sight.version.is_some()
            && (sight.version <= told || all().any(|(_, version)| version == sight.version));
        let version = if same { sight.version } else { all().find_map(|(_, version)| version) };
        // Without a version it may be what was done when it was asked for again.
        let its = all().filter(|(_, version)| *version == sight.version).map(|(by, _)| by).min();
        let by = match sight.version {
            Some(_) => its.unwrap_or(at),
            None => all().map(|(by, _)| by).max().unwrap_or(at),
        };
        (same || own.is_some()).then_some(Effect { operation, by, there: operation.call, version })
    }

    /// Whether somebody found nothing after a loss, and nobody can have removed anything since.
    fn is_absent_after(&self, at: Nanos) -> bool {
        let may_remove = |one: &&&Operation| one.removed() && one.end >= at;
        let removed = self.operations.iter().filter(may_remove).map(|removal| removal.call).min();
        self.operations.iter().any(|operation| {
            let none = operation.outcome == OperationOutcome::Absent
                || matches!(operation.action, Invocation::PutIfAbsent(_))
                    && operation.outcome == OperationOutcome::Done;
            none && operation.call >= at && removed.is_none_or(|removed| operation.end < removed)
        })
    }
}

fn again(effect: Effect<'_>, who: Who<'_>) -> Violation {
    let rule = "a write that was lost, or replaced, at an earlier loss is there again";
    Violation::by(rule, [Who::Operation(effect.operation), who])
}
