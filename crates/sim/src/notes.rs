//! Notes of what happened when, for people who watch a run.

use std::sync::{Arc, Mutex};

use longarm_base::Nanos;
use longarm_server::{Log, Notice};

use crate::faults::Fault;

/// An event that a timeline may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A fault struck.
    Fault(Fault),
    /// A trap struck this replica.
    Sprung(u32, Fault),
    /// A replica that had crashed is there again, without its memory.
    Up(u32),
    /// The faults are over.
    Healed,
    /// A server logged this line.
    Said(Notice, String),
}

/// The notes of a run, in the order of the world; none unless the run is watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Option<Arc<Mutex<Taken>>>);

/// Each note, with its time.
type Taken = Vec<(Nanos, Note)>;

impl Notes {
    /// The notes of a run that is watched.
    pub fn taken() -> Notes {
        Notes(Some(Arc::default()))
    }

    /// Adds a note, which is made only if the run is watched.
    pub fn add(&self, time: Nanos, note: impl FnOnce() -> Note) {
        if let Some(notes) = &self.0 {
            notes.lock().expect("nobody panics with it").push((time, note()));
        }
    }

    /// Takes all notes so far.
    pub fn take(&self) -> Vec<(Nanos, Note)> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, |notes| std::mem::take(&mut *notes.lock().expect("nobody panics with it")))
    }

    /// The log that servers write to. With `LONGARM_SIM_LOG` in the environment each line is also shown at
    /// once.
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
