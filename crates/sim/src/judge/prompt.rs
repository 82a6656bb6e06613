//! I20: where nothing goes wrong, a leader's writes are committed soon, because clients wait for their
//! writes, and a hand-over waits for all that are under way.

use std::collections::{BTreeMap, VecDeque};

use longarm_base::{Nanos, Term};
use longarm_host::observe::Observation;

use super::book::Book;
use super::rules::{Rules, Seen};

/// The longest time from the write of an entry to its commit: several times that of the largest entries.
const PROMPT: Nanos = Nanos::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct Prompt {
    /// By term and stream: positions that are not committed, and when they were written.
    open: BTreeMap<(Term, u16), VecDeque<(u64, Nanos)>>,
}

impl Rules for Prompt {
    fn hear(&mut self, seen: Seen<'_>, _: &Book) -> Result<(), String> {
        let Seen { time, term, .. } = seen;
        match seen.event {
            Observation::Wrote { stream, position, .. } => {
                self.open.entry((term, *stream)).or_default().push_back((*position, time));
            }
            Observation::Committed { stream, below, .. } => {
                let open = self.open.entry((term, *stream)).or_default();
                while let Some((position, wrote)) = open.pop_front_if(|(position, _)| *position < *below) {
                    let took = time.since(wrote);
                    if took > PROMPT {
                        let (entry, micros) = (format!("{stream}:{position} of term {term}"), took.0 / 1000);
                        return Err(format!("I20: nothing went wrong, and {entry} waited for {micros} us"));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
