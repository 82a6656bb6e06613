//! Exactly once: an operation of a session takes effect once, however often it is asked for, and every answer
//! to it is the first one.

use std::collections::BTreeMap;

use crate::{Operation, Violation};

/// An answer to a numbered operation: to the first request, to a repetition, or what a store remembers of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionAnswer {
    /// Whose numbers these are.
    pub session: u64,
    /// The number; zero for what may be done twice, such as a get.
    pub sequence: u64,
    /// What was asked and answered.
    pub operation: Operation,
}

/// Judges the answers of all sessions, in any order.
pub fn judge(answers: &[SessionAnswer]) -> Result<(), Violation> {
    let mut known: BTreeMap<(u64, u64), &Operation> = BTreeMap::new();
    for SessionAnswer { session, sequence, operation } in answers.iter().filter(|answer| answer.sequence != 0)
    {
        let first = known.entry((*session, *sequence)).or_insert(operation);
        if let Some(rule) = breach(first, operation) {
            return Err(Violation::of(rule, &[first, operation]));
        }
        // Whoever knows more stands for the rest.
        if (first.in_doubt(), first.version.is_none()) > (operation.in_doubt(), operation.version.is_none()) {
            *first = operation;
        }
    }
    Ok(())
}

fn breach(one: &Operation, other: &Operation) -> Option<&'static str> {
    if (one.key, one.action) != (other.key, other.action) {
        return Some("one number of a session for two operations");
    }
    if one.version.zip(other.version).is_some_and(|(one, other)| one != other) {
        return Some("an operation took effect twice: two versions for one number of a session");
    }
    // Who got no answer says nothing.
    let differ = one.outcome != other.outcome && !one.in_doubt() && !other.in_doubt();
    differ.then_some("two different answers to one operation of a session")
}
