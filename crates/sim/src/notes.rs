//! What happened when, for people who watch a run.

use std::sync::{Arc, Mutex};

use longarm_base::Nanos;
use longarm_server::{Log, Notice};

use crate::faults::Fault;

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A fault struck.
    Fault(Fault),
    /// A trap struck this replica.
    Sprung(u32, Fault),
    /// A replica that had crashed is there again, without its memory.
    Up(u32),
    /// No faults from now on.
    Healed,
    /// A server said this.
    Said(Notice, String),
}

/// Where notes are put down, if anybody wants them. The order is that of the world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Option<Arc<Mutex<Taken>>>);

/// When, and what.
type Taken = Vec<(Nanos, Note)>;

impl Notes {
    /// Somebody wants them.
    pub fn taken() -> Notes {
        Notes(Some(Arc::default()))
    }

    /// One more.
    pub fn add(&self, time: Nanos, note: impl FnOnce() -> Note) {
        if let Some(notes) = &self.0 {
            notes.lock().expect("nobody panics with it").push((time, note()));
        }
    }

    /// All so far.
    pub fn take(&self) -> Vec<(Nanos, Note)> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, |notes| std::mem::take(&mut *notes.lock().expect("nobody panics with it")))
    }

    /// Where servers say something. With `LONGARM_SIM_LOG` in the environment it is also shown at once.
    pub fn log(&self) -> Log {
        let (notes, shown) = (self.clone(), std::env::var_os("LONGARM_SIM_LOG").is_some());
        Log::new(move |line| {
            let time = longarm_host::world::entered().map_or(Nanos(0), |world| world.time());
            if shown {
                eprintln!("{:>12} {}", time.0, line.text);
            }
            notes.add(time, || Note::Said(line.notice, line.text.into()));
        })
    }
}
