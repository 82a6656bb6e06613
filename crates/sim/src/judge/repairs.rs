//! D9: a replica writes nothing of its file again that was there.

use longarm_host::observe::Observation;

use super::book::Book;
use super::rules::{Rules, Seen};

#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// Bytes on disks may have changed by themselves.
    rots: bool,
}

impl Rules for Repairs {
    fn hear(&mut self, seen: Seen<'_>, _book: &Book) -> Result<(), String> {
        match seen.event {
            Observation::Repaired { parts } if !self.rots => {
                Err(format!("D9: node {} repairs {parts} parts, and none was lost", seen.node))
            }
            _ => Ok(()),
        }
    }

    fn rotted(&mut self) {
        self.rots = true;
    }
}
