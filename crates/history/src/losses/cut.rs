//! A loss across all keys: what came back is what the group held at a moment, and not long before the end.

use std::ops::Range;

use longarm_base::{Csn, Nanos};

use super::counts::CounterCut;
use super::keys::{Effect, Keys, State, States};
use crate::{Operation, OperationOutcome, Violation};

/// What a loss took, and what it left.
#[derive(Default)]
pub(super) struct Cut<'a> {
    lost: Vec<Effect<'a>>,
    /// What came back, and what it took to be so.
    outlived: Vec<Effect<'a>>,
    /// The writes that were called and answered in the epoch.
    taken: Vec<&'a Operation>,
}

impl<'a> Cut<'a> {
    /// What is known by what came back of each key at the end of an epoch.
    pub fn of(keys: &Keys<'a>, epoch: Range<Nanos>, before: &States<'a>, came: &States<'a>) -> Cut<'a> {
        let (mut cut, mut gone) = (Cut::default(), Vec::new());
        for (&key, state) in came {
            let mut effects = keys.effects(key, &epoch);
            let own = effects.iter().map(|effect| effect.operation);
            cut.taken.extend(own.filter(|one| one.call >= epoch.start && is_answered(one, epoch.end)));
            if let State::Known(Some(first)) = before[&key]
                && effects.iter().all(|effect| effect.operation != first.operation)
            {
                effects.push(first);
            }
            match *state {
                State::Known(Some(back)) => {
                    cut.outlived.push(back);
                    cut.lost.extend(effects.into_iter().filter(|effect| is_after(effect, &back)));
                }
                State::Known(None) => {
                    effects.retain(|effect| effect.operation.wrote().is_some());
                    let removed = |effect: &Effect<'_>| keys.removals(key, effect, &epoch).next().is_some();
                    cut.lost.extend(effects.iter().filter(|effect| !removed(effect)));
                    gone.push((key, effects));
                }
                State::Unknown(_) => {}
            }
        }
        // Of a key that came back without a value of which a write outlived the loss, a removal did, too.
        let version = cut.version();
        for (key, effects) in gone {
            let outlived = effects.into_iter().filter(|effect| effect.version <= version);
            let last = outlived.filter(|effect| effect.version.is_some()).max_by_key(|effect| effect.version);
            let Some(last) = last else { continue };
            let removal = keys.removals(key, &last, &epoch).min_by_key(|removal| removal.call);
            cut.outlived.extend(removal.map(Effect::by_time));
        }
        cut
    }

    /// What is known by counters.
    pub fn add(&mut self, counters: &'a CounterCut) {
        self.lost.extend(counters.lost.iter().map(Effect::by_time));
        self.outlived.extend(counters.outlived.iter().map(Effect::by_time));
        self.taken.extend(&counters.taken);
    }

    /// The highest version that is known to have outlived the loss.
    pub fn version(&self) -> Option<Csn> {
        self.outlived.iter().filter_map(|effect| effect.version).max()
    }

    /// How many are known to be lost.
    pub fn lost(&self) -> usize {
        self.lost.len()
    }

    /// The longest time from when a lost one had taken effect to when the last one was called.
    pub fn longest(&self) -> Nanos {
        self.ends().map_or(Nanos(0), |(first, last)| last.call.since(first.by))
    }

    /// The lost one that had taken effect first, and the write that was called last.
    fn ends(&self) -> Option<(&Effect<'a>, &'a Operation)> {
        let last = self.taken.iter().copied().max_by_key(|operation| operation.call);
        self.lost.iter().min_by_key(|lost| lost.by).zip(last)
    }

    /// Judges what a loss took.
    pub fn judge(&self, window: Nanos) -> Result<(), Violation> {
        let versions = |of: &[Effect<'a>]| of.iter().filter(|one| one.version.is_some()).copied().collect();
        let (lost, outlived): (Vec<Effect<'a>>, Vec<_>) = (versions(&self.lost), versions(&self.outlived));
        let first = lost.iter().min_by_key(|effect| effect.version);
        let last = outlived.iter().max_by_key(|effect| effect.version);
        if let (Some(first), Some(last)) = (first, last)
            && first.version < last.version
        {
            let rule = "what came back is the state of no moment: a write is lost that has a lower version \
                        than one that is not";
            return Err(Violation::of(rule, &[first.operation, last.operation]));
        }
        let first = self.lost.iter().min_by_key(|effect| effect.by);
        let last = self.outlived.iter().max_by_key(|effect| effect.operation.call);
        if let (Some(first), Some(last)) = (first, last)
            && first.by < last.operation.call
        {
            let rule = "what came back is the state of no moment: a write is lost that had taken effect \
                        before one was called that is not";
            return Err(Violation::of(rule, &[first.operation, last.operation]));
        }
        self.within(window)
    }

    /// No write was taken later than a window after one that is lost.
    fn within(&self, window: Nanos) -> Result<(), Violation> {
        if let Some((first, last)) = self.ends()
            && first.by + window < last.call
        {
            let rule = "a write is lost though another was taken later than a window after it";
            return Err(Violation::of(rule, &[first.operation, last]));
        }
        Ok(())
    }
}

/// Whether a write was answered by then.
pub(super) fn is_answered(operation: &Operation, at: Nanos) -> bool {
    operation.outcome == OperationOutcome::Done && operation.end < at
}

/// Whether a write surely took effect later than another one of its key.
fn is_after(effect: &Effect<'_>, other: &Effect<'_>) -> bool {
    if effect.operation == other.operation {
        return false;
    }
    match (effect.version, other.version) {
        (Some(version), Some(other)) => version > other,
        _ => effect.operation.call > other.by,
    }
}
