//! The epochs between losses, each a history that the other judges can look at.

use std::ops::Range;

use longarm_base::{Csn, Nanos};

use super::keys::{Keys, State, States};
use crate::sessions::SessionAnswer;
use crate::{Evidence, History, Invocation, NEVER, Operation, OperationOutcome, Violation};

/// The histories of all epochs.
pub(super) struct Epochs<'a> {
    evidence: Evidence<'a>,
    at: &'a [Nanos],
    histories: Vec<History>,
    /// What was under way when each epoch but the first began, and may take effect then.
    carried: Vec<Vec<&'a Operation>>,
}

impl<'a> Epochs<'a> {
    /// Divides all evidence.
    pub fn of(evidence: &Evidence<'a>, at: &'a [Nanos]) -> Epochs<'a> {
        let mut histories = vec![History::default(); at.len() + 1];
        let mut carried = vec![Vec::new(); at.len()];
        for operation in evidence.history.operations() {
            let (first, last) = (epoch(at, operation.call), epoch(at, operation.end));
            if first == last || operation.in_doubt() {
                histories[first].push(operation.clone());
            } else if may_change(operation) {
                histories[first].push(in_doubt(operation, operation.call));
            }
            // Also beyond the epoch of its answer: in which one it took effect is not known.
            if may_change(operation) && first < last {
                carried[first..].iter_mut().for_each(|carried| carried.push(operation));
            }
        }
        for page in evidence.history.pages() {
            let first = epoch(at, page.call);
            if first == epoch(at, page.end) {
                histories[first].push_page(page.clone());
            }
        }
        Epochs { evidence: *evidence, at, histories, carried }
    }

    /// Begins the epoch after another: with what came back, and what was under way. `version` is the highest
    /// that is known to have come back.
    pub fn begin(&mut self, keys: &Keys<'a>, before: Range<Nanos>, came: &States<'a>, version: Option<Csn>) {
        let epoch = epoch(self.at, before.end);
        // What may take effect in the next epoch, too, has there whatever version it is seen under.
        let carries = |operation: &Operation| {
            let (first, last) = (self::epoch(self.at, operation.call), self::epoch(self.at, operation.end));
            let known = matches!(came[&operation.key], State::Known(_));
            first < last && !(known && keys.outlived(operation, &before, version))
        };
        for state in came.values() {
            let (known, effect) = match state {
                State::Known(Some(effect)) => (true, effect),
                State::Unknown(Some(effect)) if !carries(effect.operation) => (false, effect),
                _ => continue,
            };
            let value = effect.operation.wrote().expect("it has a value");
            // Whoever has a version is taken to have taken effect.
            let (outcome, version) = match known {
                true => (OperationOutcome::Done, effect.version),
                false => (OperationOutcome::InDoubt, None),
            };
            let (call, end) = (Nanos(before.end.0.saturating_sub(2)), Nanos(before.end.0.saturating_sub(1)));
            self.histories[epoch].push(Operation {
                action: Invocation::Put(value),
                outcome,
                call,
                end,
                version,
                ..effect.operation.clone()
            });
        }
        for operation in std::mem::take(&mut self.carried[epoch - 1]) {
            let known = matches!(came[&operation.key], State::Known(Some(one)) if one.operation == operation);
            if !known && carries(operation) {
                // If it took effect before the loss, its condition held then.
                let action = operation.wrote().map_or(operation.action, Invocation::Put);
                self.histories[epoch].push(Operation { action, ..in_doubt(operation, before.end) });
            }
        }
    }

    /// Asks the other judges about each epoch. On how many keys the search gave up.
    pub fn judge(&self) -> Result<usize, Violation> {
        let (mut undecided, last) = (0, self.at.len());
        for (number, history) in self.histories.iter().enumerate() {
            let is_of = |answer: &&SessionAnswer| {
                let SessionAnswer { operation: Operation { call, end, .. }, .. } = answer;
                epoch(self.at, *call) == number && (epoch(self.at, *end) == number || *end == NEVER)
            };
            let answers: Vec<SessionAnswer> = self.evidence.answers.iter().filter(is_of).cloned().collect();
            let left = if number == last { self.evidence.left } else { &[] };
            let report = Evidence { history, answers: &answers, left, ..self.evidence }.judge();
            undecided += report.undecided;
            report.violation.map_or(Ok(()), Err)?;
        }
        Ok(undecided)
    }
}

/// The number of the epoch of a time.
fn epoch(at: &[Nanos], time: Nanos) -> usize {
    at.partition_point(|loss| *loss <= time)
}

/// Whether an operation changed something, or may have.
fn may_change(operation: &Operation) -> bool {
    operation.wrote().is_some() || operation.removed()
}

/// An operation that may have taken effect, or may not.
fn in_doubt(operation: &Operation, call: Nanos) -> Operation {
    let outcome = OperationOutcome::InDoubt;
    Operation { outcome, call, end: NEVER, version: None, ..operation.clone() }
}
